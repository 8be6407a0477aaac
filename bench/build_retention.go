package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
)

// besidePause is the pause between two transactions of the writer, and two reads of the reader, beside a deletion.
const besidePause = 5 * time.Millisecond

// retention measures how long deleting the log of an old build takes, and how long at most a writer and a reader of
// another build wait in the meantime. What they wait for when nothing is deleted is measured before.
func retention(ctx context.Context, o Options) ([]Result, error) {
	names := []struct{ subject, unit string }{{"deletion", "s"}, {"longest write beside it", "ms"},
		{"longest write before", "ms"}, {"longest read beside it", "ms"}, {"longest read before", "ms"}}
	results := make([]Result, len(names))
	for i, n := range names {
		results[i] = Result{Bench: "build-retention", Driver: o.Driver, Subject: n.subject, Unit: n.unit}
	}
	for range o.Rounds {
		rounds, err := retentionRound(ctx, o)
		if err != nil {
			return nil, err
		}
		for i, r := range rounds {
			results[i].Rounds = append(results[i].Rounds, r)
		}
	}
	for i := range results {
		results[i].summarizeBy(func(r Round) float64 { return r.Longest })
	}
	results[0].summarizeBy(func(r Round) float64 { return r.Seconds })
	return results, nil
}

// retentionRound fills an empty database with a build that has ended and one that runs, and deletes what the first has left.
func retentionRound(ctx context.Context, o Options) (rounds [5]Round, err error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return rounds, err
	}
	defer s.remove()
	var ids [2]builds.ID // old, running
	for i := range ids {
		made, err := s.Builds.Create(ctx, builds.Build{Project: "bench", CreatedBy: "bench"})
		if err == nil {
			_, err = s.Builds.Ingest(ctx, made.ID, builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "test", Name: "unit"}}})
		}
		if err != nil {
			return rounds, err
		}
		ids[i] = made.ID
	}
	l := &logWriter{builds: s.Builds, random: rand.New(rand.NewPCG(1, 2))}
	if err := l.fill(ctx, ids[0], o.N); err != nil {
		return rounds, err
	}
	if _, err := s.Builds.Record(ctx, ids[0], builds.Event{Source: builds.API, EventID: "end", Status: build.Failed}); err != nil {
		return rounds, err
	}
	l.at = build.Position{}
	if err := l.fill(ctx, ids[1], pageLines); err != nil { // lines for the reader
		return rounds, err
	}
	if rounds[2], rounds[4], err = l.beside(ctx, ids[1], func() error { time.Sleep(5 * time.Second); return nil }); err != nil {
		return rounds, err
	}
	rounds[1], rounds[3], err = l.beside(ctx, ids[1], func() error {
		start, cpu := time.Now(), ownCPU()
		err := s.Builds.Retain(ctx, time.Microsecond, noFolders{})
		rounds[0] = measured(o.N, start)
		rounds[0].ClientCPU = float64((ownCPU() - cpu).Microseconds()) / float64(o.N)
		return err
	})
	if err == nil {
		err = expired(ctx, s.Builds, ids[0])
	}
	return rounds, err
}

// expired returns an error unless nothing is left of the log of a build.
func expired(ctx context.Context, stored *builds.Builds, id builds.ID) error {
	b, err := stored.Build(ctx, id)
	if err == nil && b.ExpiredAt.IsZero() {
		err = errors.New("the old build was not deleted")
	}
	return err
}

// noFolders is a blob store without artifacts.
type noFolders struct{}

// Folders returns none.
func (noFolders) Folders(context.Context, string) ([]string, error) { return nil, nil }

// Clear does nothing.
func (noFolders) Clear(context.Context, string) error { return nil }

// logWriter stores a log.
type logWriter struct {
	builds *builds.Builds
	random *rand.Rand
	at     build.Position
}

// batch returns the next so many lines, at most a block.
func (l *logWriter) batch(lines int) *builds.LogBatch {
	b := &builds.LogBatch{Step: 1, Begin: l.at}
	for len(b.Data) < builds.BlockSize-200 && b.Entries < lines {
		b.Data = build.FormatEntry(b.Data, build.Entry{At: time.Now(), Text: []byte(printedLine(l.random, int(l.at.ID)+b.Entries))})
		b.Entries++
	}
	l.at = b.End()
	return b
}

// fill stores so many lines of a build, sixteen blocks a transaction, as an aggregator does.
func (l *logWriter) fill(ctx context.Context, id builds.ID, lines int) error {
	for l.at.ID < int64(lines) {
		var logs []*builds.LogBatch
		for len(logs) < 16 && l.at.ID < int64(lines) {
			logs = append(logs, l.batch(lines-int(l.at.ID)))
		}
		if _, err := l.builds.Ingest(ctx, id, builds.Batch{Logs: logs}); err != nil {
			return err
		}
	}
	return nil
}

// beside has one goroutine store ten lines of a build at a time, and another read the build, while work is done, and
// returns how long they took.
func (l *logWriter) beside(ctx context.Context, id builds.ID, work func() error) (writes, reads Round, err error) {
	ended := make(chan struct{})
	var failed [2]error
	done := make(chan int)
	again := func(n int, to *Round, once func() error) {
		*to, failed[n] = repeated(ended, once)
		done <- n
	}
	go again(0, &writes, func() error {
		_, err := l.builds.Ingest(ctx, id, builds.Batch{Logs: []*builds.LogBatch{l.batch(10)}})
		return err
	})
	go again(1, &reads, func() error {
		_, err := l.builds.List(ctx, builds.Query{Limit: 50})
		if err != nil {
			return err
		}
		return readPage(ctx, l.builds, id, 0)
	})
	err = work()
	close(ended)
	<-done
	<-done
	return writes, reads, errors.Join(err, failed[0], failed[1])
}

// repeated does something again and again until a channel is closed, and returns how long it took each time.
func repeated(ended <-chan struct{}, once func() error) (Round, error) {
	var took []time.Duration
	for start := time.Now(); ; time.Sleep(besidePause) {
		select {
		case <-ended:
			if len(took) == 0 {
				return Round{}, fmt.Errorf("nothing was done in %s", time.Since(start))
			}
			r := measured(len(took), start)
			slices.Sort(took)
			r.P50, r.P99, r.Longest = milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100]), milliseconds(took[len(took)-1])
			return r, nil
		default:
		}
		begun := time.Now()
		if err := once(); err != nil {
			return Round{}, err
		}
		took = append(took, time.Since(begun))
	}
}
