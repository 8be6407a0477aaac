package results

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
)

// ReusedStep holds the results of a step that did not run.
type ReusedStep struct {
	Update    build.Update
	Artifacts []build.Artifact
	Tests     []build.TestFile
}

// Reuse records that a step did not run, since it completed in an earlier build: its log, artifacts and test results are those of
// that build, whose folder may be removed. Of u it takes the time and the reason. It returns them as they were stored.
func (s *Store) Reuse(id int, earlier *Reader, from int, u build.Update) (ReusedStep, error) {
	last, err := earlier.Last(from)
	if err != nil {
		return ReusedStep{}, err
	}
	artifacts, err := earlier.StepArtifacts(from)
	if err != nil {
		return ReusedStep{}, err
	}
	tests, err := earlier.TestsOf(from)
	if err != nil {
		return ReusedStep{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.step(id); err != nil {
		return ReusedStep{}, err
	}
	if err := linkFile(earlier.LogPath(from), filepath.Join(s.stepDir(id), logFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ReusedStep{}, fmt.Errorf("reuse step %d: %w", id, err)
	}
	reused := ReusedStep{Artifacts: artifacts, Tests: tests}
	if err := s.reuseFiles(id, earlier, reused); err != nil {
		return ReusedStep{}, err
	}
	u.Status, u.Attempt, u.ExitCode, u.Trailer = build.Reused, last.Attempt, last.ExitCode, last.Trailer
	reused.Update, err = s.record(id, u)
	return reused, err
}

// reuseFiles links the artifacts, and stores them and the test results under ids of this build. The caller holds the lock.
func (s *Store) reuseFiles(id int, earlier *Reader, reused ReusedStep) error {
	ids := map[int]int{}
	for i := range reused.Artifacts {
		a := &reused.Artifacts[i]
		path := filepath.Join(earlier.stepDir(a.Step), filepath.FromSlash(a.Path))
		ids[a.ID] = s.artifacts + 1 + i
		a.ID, a.Step = ids[a.ID], id
		a.Path = artifactPath(a.ID, a.Name)
		if err := linkFile(path, s.ArtifactPath(*a)); err != nil {
			return fmt.Errorf("reuse artifact %s: %w", a.Name, err)
		}
	}
	for i := range reused.Tests {
		reused.Tests[i].Artifact, reused.Tests[i].Step = ids[reused.Tests[i].Artifact], id
	}
	if len(reused.Tests) > 0 {
		if err := s.replace(filepath.Join(s.stepDir(id), testsFile), testsDocument{reused.Tests}, true); err != nil {
			return err
		}
	}
	if err := s.replace(filepath.Join(s.stepDir(id), artifactsFile), artifactsDocument{reused.Artifacts}, true); err != nil {
		return err
	}
	s.artifacts, s.steps[id].artifacts = s.artifacts+len(reused.Artifacts), reused.Artifacts
	return nil
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
	in, _, err := file.Open(from)
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
