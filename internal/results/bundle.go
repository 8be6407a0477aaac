package results

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/waybill-dev/waybill/internal/build"
)

// earlierFile has the steps of an unpacked bundle.
const earlierFile = "earlier.json"

// Earlier is earlier.json: what a bundle has.
type Earlier struct {
	Build   string          `json:"buildId"`
	Missing string          `json:"missing,omitempty"` // why nothing can be reused; "": steps can
	Steps   []build.Earlier `json:"steps"`
}

// Bundle writes steps of a build that is stored elsewhere into one archive, a tar under zstd. Unpacked it is a folder of results, whose
// steps another build can reuse.
type Bundle struct {
	packed  *zstd.Encoder
	archive *tar.Writer
}

// BundledStep is a step that completed. Artifacts have the ids that they had; only Open reads their Path.
type BundledStep struct {
	ID        int
	End       build.Update // its last status, with the trailer
	Artifacts []build.Artifact
	Tests     []build.TestFile
	Log       io.Reader // the number of bytes in the trailer
	// Open opens the bytes of an artifact.
	Open func(build.Artifact) (io.ReadCloser, error)
}

// NewBundle begins an archive.
func NewBundle(w io.Writer) (*Bundle, error) {
	packed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("begin a bundle: %w", err)
	}
	return &Bundle{packed, tar.NewWriter(packed)}, nil
}

// AddStep adds what a step has left. After an error the archive must not be used.
func (b *Bundle) AddStep(s BundledStep) error {
	dir := path.Join(stepsFolder, strconv.Itoa(s.ID))
	if s.End.Trailer == nil {
		return fmt.Errorf("bundle step %d: it has no trailer", s.ID)
	}
	if err := b.file(path.Join(dir, logFile), s.End.Trailer.Bytes, s.Log); err != nil {
		return fmt.Errorf("bundle the log of step %d: %w", s.ID, err)
	}
	for i := range s.Artifacts {
		from, a := s.Artifacts[i], &s.Artifacts[i]
		a.Path = artifactPath(a.ID, a.Name)
		if err := b.artifact(path.Join(dir, a.Path), from, s.Open); err != nil {
			return fmt.Errorf("bundle artifact %s: %w", a.Name, err)
		}
	}
	return errors.Join(b.document(path.Join(dir, statusFile), statusDocument{[]build.Update{s.End}}),
		b.document(path.Join(dir, artifactsFile), artifactsDocument{s.Artifacts}),
		b.document(path.Join(dir, testsFile), testsDocument{s.Tests}))
}

func (b *Bundle) artifact(name string, a build.Artifact, open func(build.Artifact) (io.ReadCloser, error)) error {
	content, err := open(a)
	if err != nil {
		return err
	}
	return errors.Join(b.file(name, a.Size, content), content.Close())
}

// file adds a file of exactly so many bytes.
func (b *Bundle) file(name string, size int64, content io.Reader) error {
	if err := b.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600}); err != nil {
		return err
	}
	n, err := io.Copy(b.archive, io.LimitReader(content, size))
	if err == nil && n != size {
		err = fmt.Errorf("%w: %d of %d bytes", io.ErrUnexpectedEOF, n, size)
	}
	return err
}

func (b *Bundle) document(name string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := b.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o600}); err != nil {
		return err
	}
	_, err = b.archive.Write(text)
	return err
}

// Close adds the list of all steps, in which those that were not added are Missing, and ends the archive.
func (b *Bundle) Close(e Earlier) error {
	plan := &build.Plan{Stages: []build.PlanStage{}, Steps: []build.PlanStep{}}
	for _, s := range e.Steps {
		plan.Steps = append(plan.Steps, build.PlanStep{ID: s.ID, Stage: s.Stage, Name: s.Name})
	}
	err := errors.Join(b.document(buildFile, Build{ID: e.Build, Plan: plan}), b.document(earlierFile, e))
	if err = errors.Join(err, b.archive.Close(), b.packed.Close()); err != nil {
		return fmt.Errorf("end a bundle: %w", err)
	}
	return nil
}

// Earlier reads what an unpacked bundle has. Steps that are not as their ends and lists require are Missing.
func (r *Reader) Earlier() (e Earlier, err error) {
	if err := readJSON(filepath.Join(r.dir, earlierFile), &e); err != nil {
		return e, err
	}
	for i := range e.Steps {
		step := &e.Steps[i]
		if step.Missing == "" && r.VerifyStep(step.ID) != nil {
			step.Missing = "its log or an artifact is damaged"
		}
	}
	return e, nil
}
