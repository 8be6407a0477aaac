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
)

// artifactsDocument is artifacts.json.
type artifactsDocument struct {
	Artifacts []Artifact `json:"artifacts"`
}

// AddArtifact stores what r yields as an artifact of a step: first under a
// temporary name, then under its own, then in the list. If the step has an
// artifact of that name with the same bytes already, that is returned.
func (s *Store) AddArtifact(id int, name, kind string, executable bool, r io.Reader) (Artifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step, err := s.step(id)
	if err != nil {
		return Artifact{}, err
	}
	a := Artifact{ID: s.artifacts + 1, Step: id, Name: build.DisplayName(name), Kind: kind, Executable: executable}
	a.Path = artifactPath(a.ID, name)
	if a.Size, a.SHA256, err = storeFile(s.ArtifactPath(a), r); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			err = ErrDiskFull
		}
		return Artifact{}, fmt.Errorf("keep artifact %s: %w", a.Name, err)
	}
	for _, old := range step.artifacts {
		if old.Name == a.Name && old.Size == a.Size && old.SHA256 == a.SHA256 {
			return old, os.Remove(s.ArtifactPath(a))
		}
	}
	document := artifactsDocument{append(slices.Clone(step.artifacts), a)}
	if err := s.replace(filepath.Join(s.stepDir(id), artifactsFile), document, true); err != nil {
		return Artifact{}, err
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
func (s *Store) Artifacts(id int) []Artifact {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step := s.steps[id]; step != nil {
		return slices.Clone(step.artifacts)
	}
	return nil
}

// ArtifactPath returns the file that has an artifact.
func (s *Store) ArtifactPath(a Artifact) string {
	return filepath.Join(s.stepDir(a.Step), filepath.FromSlash(a.Path))
}

// storeFile writes what r yields to path, which appears only when all of it is on disk.
func storeFile(path string, r io.Reader) (size int64, digest string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, "", err
	}
	temporary := path + ".tmp"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, "", err
	}
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, sum), r)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, "", errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, path); err != nil {
		return 0, "", err
	}
	return size, hex.EncodeToString(sum.Sum(nil)), syncFolder(filepath.Dir(path))
}
