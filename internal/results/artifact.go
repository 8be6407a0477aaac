package results

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
)

// mostArtifacts bounds the artifacts of a build. The list of a step is written again with each, and readers acknowledge all at once.
const mostArtifacts = 10_000

// ErrArtifactLimit reports that a build has as many artifacts as it may.
var ErrArtifactLimit = fmt.Errorf(
	"ArtifactLimit: the build has %d artifacts, which are as many as may be; archive: true packs files into one", mostArtifacts)

// artifactsDocument is artifacts.json.
type artifactsDocument struct {
	Artifacts []build.Artifact `json:"artifacts"`
}

// AddArtifact stores what r yields as an artifact, which has a step, a name, a kind and whether it is executable: first
// under a temporary name, then under its own, then in the list. If the step has an artifact of that name with the same
// bytes already, that is returned. Nothing else that is written to the store waits for r.
func (s *Store) AddArtifact(a build.Artifact, r io.Reader) (build.Artifact, error) {
	name := a.Name
	a.Name = build.DisplayName(name)
	temporary, err := s.storeFile(&a, r)
	if err == nil {
		a, err = s.listArtifact(a, name, temporary)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = ErrDiskFull
	}
	if err != nil {
		return build.Artifact{}, fmt.Errorf("keep artifact %s: %w", build.DisplayName(name), err)
	}
	return a, nil
}

// listArtifact gives a stored file its id and its name, and lists it.
func (s *Store) listArtifact(a build.Artifact, name, temporary string) (build.Artifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step, err := s.step(a.Step)
	if err != nil {
		return build.Artifact{}, errors.Join(err, os.Remove(temporary))
	}
	for _, old := range step.artifacts {
		if old.Name == a.Name && old.Size == a.Size && old.SHA256 == a.SHA256 {
			return old, os.Remove(temporary)
		}
	}
	if s.artifacts >= mostArtifacts {
		return build.Artifact{}, errors.Join(ErrArtifactLimit, os.Remove(temporary))
	}
	a.ID = s.artifacts + 1
	a.Path = artifactPath(a.ID, name)
	if err := os.Rename(temporary, s.ArtifactPath(a)); err != nil {
		return build.Artifact{}, errors.Join(err, os.Remove(temporary))
	}
	if err := file.SyncFolder(filepath.Dir(temporary)); err != nil {
		return build.Artifact{}, err
	}
	document := artifactsDocument{append(slices.Clone(step.artifacts), a)}
	if err := s.replace(filepath.Join(s.stepDir(a.Step), artifactsFile), document, true); err != nil {
		return build.Artifact{}, err
	}
	s.artifacts, step.artifacts = a.ID, document.Artifacts
	s.recorded.wake()
	return a, nil
}

// artifactPath returns the file for an artifact, from the folder of its step.
func artifactPath(id int, name string) string {
	return fmt.Sprintf("%s/%d_%s", artifactsDir, id, build.FileNameOf(name))
}

// Artifacts lists the artifacts of a step, by id.
func (s *Store) Artifacts(id int) []build.Artifact {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step := s.steps[id]; step != nil {
		return slices.Clone(step.artifacts)
	}
	return nil
}

// ArtifactPath returns the file that has an artifact.
func (s *Store) ArtifactPath(a build.Artifact) string {
	return filepath.Join(s.stepDir(a.Step), filepath.FromSlash(a.Path))
}

// storeFile writes what r yields to a file with a temporary name, to the disk, and sets size and digest of the artifact.
func (s *Store) storeFile(a *build.Artifact, r io.Reader) (temporary string, err error) {
	dir := filepath.Join(s.stepDir(a.Step), artifactsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "*.tmp")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	a.Size, err = io.Copy(io.MultiWriter(f, sum), untilFull{r, s})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	a.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return f.Name(), nil
}

// untilFull reads until the disk is full.
type untilFull struct {
	io.Reader
	store *Store
}

func (u untilFull) Read(p []byte) (int, error) {
	if u.store.full.Load() {
		return 0, ErrDiskFull
	}
	return u.Reader.Read(p)
}
