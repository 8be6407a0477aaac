package results

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/waybill-dev/waybill/internal/build"
)

// Reuse records that a step did not run, since it completed in an earlier build: its log and artifacts are those of
// that build, whose folder may be removed. It returns the update and the artifacts as they were stored.
func (s *Store) Reuse(id int, earlier *Reader, from int, u Update) (Update, []Artifact, error) {
	last, err := earlier.Last(from)
	if err != nil {
		return Update{}, nil, err
	}
	all, err := earlier.Artifacts()
	if err != nil {
		return Update{}, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	step, err := s.step(id)
	if err != nil {
		return Update{}, nil, err
	}
	if err := linkFile(earlier.LogPath(from), filepath.Join(s.stepDir(id), logFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Update{}, nil, fmt.Errorf("reuse step %d: %w", id, err)
	}
	artifacts := slices.DeleteFunc(all, func(a Artifact) bool { return a.Step != from })
	for i := range artifacts {
		a := &artifacts[i]
		path := filepath.Join(earlier.stepDir(from), filepath.FromSlash(a.Path))
		a.ID, a.Step = s.artifacts+1+i, id
		a.Path = artifactPath(a.ID, a.Name)
		if err := linkFile(path, s.ArtifactPath(*a)); err != nil {
			return Update{}, nil, fmt.Errorf("reuse artifact %s: %w", a.Name, err)
		}
	}
	if err := s.replace(filepath.Join(s.stepDir(id), artifactsFile), artifactsDocument{artifacts}, true); err != nil {
		return Update{}, nil, err
	}
	s.artifacts, step.artifacts = s.artifacts+len(artifacts), artifacts
	u.Status, u.Attempt, u.ExitCode, u.Trailer = build.Reused, last.Attempt, last.ExitCode, last.Trailer
	u, err = s.record(id, u)
	return u, artifacts, err
}

// linkFile gives a file a second name, or copies it where that cannot be.
func linkFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
