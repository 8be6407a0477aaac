package worker

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// sink writes the reports of one attempt: to disk first, then to the observer.
type sink struct {
	worker  *Worker
	step    int
	attempt int
	log     *results.Log
	ended   func() error // why the attempt is to end; nil: it is not

	mu sync.Mutex // guards write
}

func (s *sink) Phase(status build.Status) error {
	return s.worker.update(s.step, build.Update{Status: status, Attempt: s.attempt})
}

func (s *sink) Output(entries []build.Entry) error {
	now := time.Now()
	size := 0
	for i := range entries {
		if entries[i].At.IsZero() {
			entries[i].At = now
		}
		size += len(entries[i].Text)
	}
	s.worker.Metrics.Printed(size)
	return s.write(entries)
}

func (s *sink) Note(text string) error {
	now := time.Now()
	var entries []build.Entry
	for line := range strings.SplitSeq(s.worker.mask.Text(text), "\n") { // names of files may have several
		entries = append(entries, build.Entry{At: now, Text: []byte(line), Marks: build.Marks{Waybill: true}})
	}
	return s.write(entries)
}

// write appends to the log, one call after another: an observer gets the entries of a step in their order.
func (s *sink) write(entries []build.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.log.Append(entries...); err != nil {
		return err
	}
	s.worker.Observer.Output(s.step, entries)
	return nil
}

// Artifact keeps a file. One of an attempt that was ended is kept too, but an end that comes in the meantime ends the
// keeping.
func (s *sink) Artifact(name, kind string, executable bool, r io.Reader) error {
	if s.ended() == nil {
		r = untilEnded{r, s.ended}
	}
	a, err := s.worker.Store.AddArtifact(
		build.Artifact{Step: s.step, Name: s.worker.mask.Text(name), Kind: kind, Executable: executable}, r)
	if err == nil {
		s.worker.Observer.Artifact(s.step, a)
	}
	return err
}

// untilEnded reads until an attempt is to end.
type untilEnded struct {
	io.Reader
	ended func() error
}

func (u untilEnded) Read(p []byte) (int, error) {
	if err := u.ended(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

// Tests keeps every file, without passwords, before it reads it, so that one that cannot be read can
// be looked at.
func (s *sink) Tests(workspace string, files []build.TestSource) error {
	room := testresult.NewRoom()
	read := make([]build.TestFile, len(files))
	for i, f := range files {
		var err error
		if read[i], err = s.readTests(workspace, f, room); err != nil {
			return fmt.Errorf("read %s: %w", f.Name, err)
		}
	}
	if err := s.worker.Store.SetTests(s.step, read); err != nil {
		return err
	}
	s.worker.Observer.Tests(s.step, read)
	for _, f := range read {
		if f.Problem == nil {
			continue
		}
		if err := s.Note(fmt.Sprintf("warning: test-results: %s:%d: %s", f.Name, f.Problem.Line, f.Problem.Text)); err != nil {
			return err
		}
	}
	return nil
}

func (s *sink) readTests(workspace string, f build.TestSource, room *testresult.Room) (build.TestFile, error) {
	in, err := f.Open()
	if err != nil {
		return build.TestFile{}, err
	}
	defer in.Close()
	kind := string(f.Format)
	a, err := s.worker.Store.AddArtifact(
		build.Artifact{Step: s.step, Name: s.worker.mask.Text(f.Name), Kind: kind}, s.worker.mask.Reader(in))
	if err != nil {
		return build.TestFile{}, err
	}
	if a.Kind == kind { // else it was kept as an artifact
		s.worker.Observer.Artifact(s.step, a)
	}
	kept, err := s.worker.Store.OpenArtifact(a)
	if err != nil {
		return build.TestFile{}, err
	}
	defer kept.Close()
	out := build.TestFile{Artifact: a.ID, Step: s.step, Name: a.Name, Format: f.Format}
	out.Report, err = testresult.Parse(f.Format, kept, workspace, room)
	if problem, ok := errors.AsType[*testresult.Error](err); ok {
		out.Problem, err = &testresult.Error{Line: problem.Line, Text: s.worker.mask.Text(problem.Text)}, nil
	}
	for i := range out.Results { // a secret may be in an encoding or as entities, which the bytes hide
		r := &out.Results[i]
		for _, text := range []*string{&r.Suite, &r.Name, &r.Message, &r.File} {
			*text = s.worker.mask.Text(*text)
		}
	}
	return out, err
}
