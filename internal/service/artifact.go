package service

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// longestName is in bytes: what a folder of a host can hold.
const longestName = 255

// PutArtifact stores one artifact of a revision that was built elsewhere, under a label of a stage with build: external. Of a
// it takes the label, the name ("": as the definition has it), the digest ("": not known) and who uploads it. It is idempotent: what is
// registered with the digest is returned without a read of r. Errors: fault.NotFound if no such stage expects the label,
// fault.Conflict for other content or a sealed revision, fault.Invalid if r does not have the digest, fault.TooLarge.
func (s *Service) PutArtifact(ctx context.Context, name, label string, a pipeline.RevisionArtifact,
	r io.Reader) (pipeline.RevisionArtifact, error) {
	revision, err := s.Revision(ctx, name, label)
	if err != nil {
		return a, err
	}
	if a.Name, err = s.artifactName(ctx, revision, a); err != nil {
		return a, err
	}
	known, registered := artifactOf(revision, a.Label)
	switch {
	case a.Digest == "": // only the content can show it
	case registered && known.Digest != a.Digest:
		return a, otherContent(revision, known, a.Digest)
	case registered:
		if has, err := s.blobs.Has(ctx, known.Blob); has || err != nil {
			return known, err
		}
	}
	return s.receiveArtifact(ctx, revision, a, r)
}

// receiveArtifact stores the content of an artifact and registers it. A content that is registered, but that the blob store has
// lost, is stored again.
func (s *Service) receiveArtifact(ctx context.Context, revision pipeline.RegisteredRevision,
	a pipeline.RevisionArtifact, r io.Reader) (pipeline.RevisionArtifact, error) {
	key, digest, size, err := s.storeUpload(ctx, r)
	if err != nil {
		return a, fmt.Errorf("store artifact %s of %s %s: %w", a.Label, revision.Pipeline, revision.Label, err)
	}
	if a.Digest != "" && a.Digest != digest {
		return a, fault.New(fault.Invalid, "artifact %s has arrived with SHA-256 %s, not %s", a.Label, digest, a.Digest).
			WithHint("it was cut short or altered on its way, or while it was read: upload it again")
	}
	a.Blob, a.Digest, a.Size = key, digest, size
	if known, is := artifactOf(revision, a.Label); is {
		if known.Digest != digest {
			return a, otherContent(revision, known, digest)
		}
		return known, s.storeAgain(ctx, known.Blob, key)
	}
	if err := s.ledger.RegisterArtifact(ctx, revision.Pipeline, revision.Seq, a); err != nil {
		return a, err
	}
	now, err := s.Revision(ctx, revision.Pipeline, revision.Label)
	registered, _ := artifactOf(now, a.Label) // the row may be from another upload of the same content, if that was faster
	return registered, err
}

// artifactOf returns the registered artifact with a label; false if the revision has none.
func artifactOf(revision pipeline.RegisteredRevision, label string) (pipeline.RevisionArtifact, bool) {
	i := slices.IndexFunc(revision.Artifacts, func(a pipeline.RevisionArtifact) bool { return a.Label == label })
	if i < 0 {
		return pipeline.RevisionArtifact{}, false
	}
	return revision.Artifacts[i], true
}

func otherContent(revision pipeline.RegisteredRevision, known pipeline.RevisionArtifact, digest string) error {
	return fault.New(fault.Conflict, "artifact %s of revision %s is registered with SHA-256 %s, now %s", known.Label,
		revision.Label, known.Digest, digest).
		WithHint("what is registered does not change: register another revision")
}

// artifactName returns the file name of an artifact from outside. Its ending decides whether hosts unpack it, so one that is not
// given is that of the definition. The error is fault.NotFound if the pipeline expects no such artifact.
func (s *Service) artifactName(ctx context.Context, revision pipeline.RegisteredRevision, a pipeline.RevisionArtifact) (string, error) {
	expected, err := s.externalArtifacts(ctx, revision)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(expected, func(e pipeline.Artifact) bool { return e.Label == a.Label })
	if i < 0 {
		return "", notExpected(revision.Pipeline, a.Label, expected)
	}
	name := a.Name
	if name == "" {
		name = a.Label
		if file := path.Base(expected[i].Path); !strings.ContainsAny(file, `*?[\`) {
			name = file
		}
	}
	if len(name) > longestName || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) ||
		strings.Contains(name, "/") || name == "." || name == ".." {
		return "", fault.New(fault.Invalid, "artifact name %q: want the name of a file, at most %d bytes",
			name[:min(len(name), longestName)], longestName)
	}
	if err := pipeline.CheckArtifactName(name); err != nil {
		return "", fault.New(fault.Invalid, "%w", err)
	}
	return name, nil
}

// externalArtifacts returns the artifacts that stages with build: external expect: those of the definition in force, and those of
// the definitions under which deployments of the revision were made, since a pinned deployment keeps its own.
func (s *Service) externalArtifacts(ctx context.Context, revision pipeline.RegisteredRevision) ([]pipeline.Artifact, error) {
	made, err := s.ledger.Deployments(ctx, journal.DeploymentQuery{Pipeline: revision.Pipeline, Revision: revision.Seq, Limit: RecentLimit})
	if err != nil {
		return nil, err
	}
	versions := []int{0}
	for _, d := range made {
		if !slices.Contains(versions, d.Version) {
			versions = append(versions, d.Version)
		}
	}
	var expected []pipeline.Artifact
	for _, version := range versions {
		v, err := s.Version(ctx, revision.Pipeline, version)
		if err != nil {
			return nil, err
		}
		expected = append(expected, v.Definition.ExternalArtifacts()...)
	}
	return expected, nil
}

func notExpected(name, label string, expected []pipeline.Artifact) error {
	err := fault.New(fault.NotFound, "no stage of %s expects artifact %q from outside", name, label)
	if len(expected) == 0 {
		return err.WithHint("a stage with build: external names the artifacts that come from outside")
	}
	var labels []string
	for _, a := range expected {
		if !slices.Contains(labels, a.Label) {
			labels = append(labels, a.Label)
		}
	}
	return err.WithHint("expected: %s", strings.Join(labels, ", "))
}
