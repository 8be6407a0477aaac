package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
)

// pageLines is the number of entries of a page of a log.
const pageLines = 500

// buildPage measures how long reading 500 entries of a long log takes from the database: at its end, and at its start.
func buildPage(ctx context.Context, o Options) ([]Result, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.remove()
	made, err := s.Builds.Create(ctx, builds.Build{Project: "bench", CreatedBy: "bench"})
	if err != nil {
		return nil, err
	}
	if err := storeLines(ctx, s.Builds, made.ID, o.N); err != nil {
		return nil, err
	}
	atEnd, atStart := Result{
		Bench:   "build-page",
		Unit:    "ms",
		Driver:  o.Driver,
		Subject: "at the end",
	}, Result{
		Bench:   "build-page",
		Unit:    "ms",
		Driver:  o.Driver,
		Subject: "at the start",
	}
	for range o.Rounds {
		for subject, after := range map[*Result]int64{&atEnd: int64(o.N - pageLines), &atStart: 0} { // in turn, in any order
			const pages = 100
			start, cpu := time.Now(), ownCPU()
			for range pages {
				if err := readPage(ctx, s.Builds, made.ID, after); err != nil {
					return nil, err
				}
			}
			round := measured(pages, start)
			round.ClientCPU = float64((ownCPU() - cpu).Microseconds()) / pages
			subject.Rounds = append(subject.Rounds, round)
		}
	}
	for _, r := range []*Result{&atEnd, &atStart} {
		r.summarizeBy(func(r Round) float64 { return r.Seconds * 1000 / float64(r.Ops) })
	}
	atEnd.Ratio, atEnd.Rival = atEnd.Median/atStart.Median, atStart.Subject
	atEnd.judge("at most 1.5 × "+atStart.Subject, atEnd.Ratio <= 1.5)
	return []Result{atEnd, atStart}, nil
}

// storeLines stores lines of 100 bytes as an aggregator does.
func storeLines(ctx context.Context, stored *builds.Builds, id builds.ID, lines int) error {
	if _, err := stored.Ingest(ctx, id, builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "test", Name: "unit"}}}); err != nil {
		return err
	}
	at := build.Position{}
	for at.ID < int64(lines) {
		batch := &builds.LogBatch{Step: 1, Begin: at}
		for len(batch.Data) < builds.BlockSize-200 && at.ID+int64(batch.Entries) < int64(lines) {
			batch.Entries++
			batch.Data = build.FormatEntry(
				batch.Data,
				build.Entry{At: time.Now(), Text: fmt.Appendf(nil, "%-99d", at.ID+int64(batch.Entries))},
			)
		}
		if _, err := stored.Ingest(ctx, id, builds.Batch{Logs: []*builds.LogBatch{batch}}); err != nil {
			return err
		}
		at = batch.End()
	}
	return nil
}

// errPage ends the reading of a log.
var errPage = errors.New("the page is full")

// readPage reads the entries behind one.
func readPage(ctx context.Context, stored *builds.Builds, id builds.ID, after int64) error {
	read := 0
	err := stored.Log(ctx, id, 1, after, func(build.Line) error {
		if read++; read == pageLines {
			return errPage
		}
		return nil
	})
	if !errors.Is(err, errPage) {
		return errors.Join(err, fmt.Errorf("%d entries were read after %d", read, after))
	}
	return nil
}
