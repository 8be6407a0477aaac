package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/builder/worker/api"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

// idleBuildsFlags declares the flags of build-idle.
func idleBuildsFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Workers, "workers", 100, "workers that are followed and print nothing")
	f.DurationVar(&o.For, "for", time.Minute, "how long to count")
}

// idleBuilds measures the CPU time of an aggregator and the worker APIs that it follows while their builds run and print nothing. All
// are in this process.
func idleBuilds(ctx context.Context, o Options) ([]Result, error) {
	result := Result{Bench: "build-idle", Unit: "% of a core", Driver: o.Driver,
		Subject: fmt.Sprintf("an aggregator and %d idle workers", o.Workers)}
	for range o.Rounds {
		round, err := idleRound(ctx, o)
		if err != nil {
			return nil, err
		}
		result.Rounds = append(result.Rounds, round)
	}
	result.summarizeBy(func(r Round) float64 { return r.ClientCPU / r.Seconds / 1e4 })
	result.judge("at most 1 %", result.Median <= 1)
	return []Result{result}, nil
}

// idleRound counts once.
func idleRound(ctx context.Context, o Options) (round Round, err error) {
	dir, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return round, err
	}
	defer os.RemoveAll(dir)
	s, err := openStore(ctx, o)
	if err != nil {
		return round, err
	}
	defer s.remove()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers idleWorkers
	for n := range o.Workers {
		w, err := serveIdle(ctx, filepath.Join(dir, fmt.Sprint(n)), s.Builds)
		if err != nil {
			return round, err
		}
		workers = append(workers, w)
	}
	blobs, err := blob.OpenDir(filepath.Join(dir, "blobs"))
	if err != nil {
		return round, err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- aggregator.New(aggregator.Config{Workers: workers, Store: s.Builds, Blobs: blobs, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	for stored := 0; stored < o.Workers; time.Sleep(100 * time.Millisecond) { // until all are followed
		running, err := s.Builds.List(ctx, builds.Query{Status: build.Running})
		if err != nil {
			return round, err
		}
		stored = len(running)
	}
	start, cpu := time.Now(), ownCPU()
	time.Sleep(o.For)
	round = measured(o.Workers, start)
	round.ClientCPU = float64((ownCPU() - cpu).Microseconds())
	cancel()
	return round, <-ended
}

// idleWorkers is a list of workers.
type idleWorkers []aggregator.Worker

// Workers returns them.
func (w idleWorkers) Workers(context.Context) ([]aggregator.Worker, error) { return w, nil }

// serveIdle serves a build that runs until ctx ends.
func serveIdle(ctx context.Context, dir string, stored *builds.Builds) (aggregator.Worker, error) {
	made, err := stored.Create(ctx, builds.Build{Project: "bench", CreatedBy: "bench"})
	if err != nil {
		return aggregator.Worker{}, err
	}
	store, err := results.Create(dir, 1<<30)
	if err != nil {
		return aggregator.Worker{}, err
	}
	plan := &build.Plan{Stages: []build.PlanStage{{Name: "test", Steps: []int{1}}},
		Steps: []build.PlanStep{{ID: 1, Stage: "test", Name: "unit"}}}
	err = store.Describe(results.Build{ID: fmt.Sprint(made.ID), Plan: plan})
	for step := range 2 {
		_, failed := store.Update(step, build.Update{Status: build.Running, Timestamp: time.Now()})
		err = errors.Join(err, failed)
	}
	if err != nil {
		return aggregator.Worker{}, err
	}
	server, err := api.New(api.Config{Plan: plan, Store: store, Token: benchToken, Log: slog.New(slog.DiscardHandler),
		Metrics: obs.NewRegistry()})
	if err != nil {
		return aggregator.Worker{}, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return aggregator.Worker{}, err
	}
	go func() { _ = server.Serve(ctx, listener) }()
	return aggregator.Worker{Build: made.ID, ID: fmt.Sprint(made.ID), Address: "http://" + listener.Addr().String(), Token: benchToken}, nil
}
