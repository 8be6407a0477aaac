package worker

import (
	"io"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
)

// sink writes what one attempt reports: to disk first, then to the observer.
type sink struct {
	worker *Worker
	step   int
	log    *results.Log
}

func (s *sink) Phase(status build.Status) error {
	return s.worker.update(s.step, results.Update{Status: status, Attempt: 1})
}

func (s *sink) Output(stderr bool, frames []build.Frame) error {
	now := time.Now()
	size := 0
	entries := make([]build.Entry, len(frames))
	for i, f := range frames {
		entries[i] = build.Entry{At: now, Text: f.Text, Marks: build.Marks{Stderr: stderr, Partial: f.Partial}}
		size += len(f.Text)
	}
	s.worker.Metrics.Printed(size)
	return s.write(entries)
}

func (s *sink) Note(text string) error {
	return s.write([]build.Entry{{At: time.Now(), Text: []byte(text), Marks: build.Marks{Waybill: true}}})
}

func (s *sink) write(entries []build.Entry) error {
	if err := s.log.Append(entries...); err != nil {
		return err
	}
	s.worker.Observer.Output(s.step, entries)
	return nil
}

func (s *sink) Artifact(name, kind string, r io.Reader) error {
	a, err := s.worker.Store.AddArtifact(s.step, name, kind, r)
	if err == nil {
		s.worker.Observer.Artifact(s.step, a)
	}
	return err
}
