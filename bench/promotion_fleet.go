package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/promoter"
	"github.com/waybill-dev/waybill/internal/queue"
)

// fleetFlags declares the flags of the benches with a fleet.
func fleetFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Pipelines, "pipelines", 1000, "pipelines of three environments, each with two applications")
	f.IntVar(&o.Leaves, "leaves", 20, "leaf clusters")
	f.StringVar(&o.Original, "original", "", "a binary of the original controller (weaveworks/pipeline-controller 2ca1d66) to measure beside")
	o.Rounds = 3
}

// promoting is a promoter with an empty log that carries revisions through a fleet.
type promoting struct {
	*clusters
	size     fleetSize
	store    *scratch
	rows     *sql.DB // reads the log beside the promoter
	promoter *promoter.Promoter
	began    time.Time
	cancel   context.CancelFunc
	roles    sync.WaitGroup
	failed   error
}

// promote starts the clusters and then a promoter.
func promote(ctx context.Context, o Options, change func(*promoter.Config)) (*promoting, error) {
	p := &promoting{size: fleetSize{Pipelines: o.Pipelines, Leaves: o.Leaves}}
	ctx, p.cancel = context.WithCancel(ctx)
	var err error
	if p.clusters, err = startFleet(ctx, p.size); err != nil {
		return nil, err
	}
	if err = p.start(ctx, o, change); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// start starts the promoter.
func (p *promoting) start(ctx context.Context, o Options, change func(*promoter.Config)) (err error) {
	if p.store, err = openStore(ctx, o); err != nil {
		return err
	}
	if p.rows, err = sql.Open("sqlite", "file:"+p.store.path+"?mode=ro"); err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(p.store.path), "kubeconfig")
	if err := os.WriteFile(path, p.management, 0o600); err != nil {
		return err
	}
	management, err := kube.Open(kube.Config{Kubeconfig: path})
	if err != nil {
		return err
	}
	log := p.store.NewWaiter()
	cfg := promoter.Config{Instance: queue.Instance{Name: "bench"}, Management: management,
		Changes: func() loop.Waiter { return log.NewWaiter() },
		Log:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if change != nil {
		change(&cfg)
	}
	p.promoter = promoter.New(log, log.Promotions, cfg)
	p.began = time.Now()
	p.roles.Go(func() { p.failed = p.promoter.Run(ctx) })
	return nil
}

// end ends the promoter and the clusters.
func (p *promoting) end() {
	p.cancel()
	p.roles.Wait()
	p.stop()
	if p.rows != nil {
		_ = p.rows.Close()
	}
	if p.store != nil {
		p.store.remove()
	}
}

// await waits until a query of the log returns a number, and returns the time.
func (p *promoting) await(ctx context.Context, want int, query string, args ...any) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	pause := 50 * time.Millisecond
	if want == 1 {
		pause = 2 * time.Millisecond
	}
	for {
		var n int
		if err := p.rows.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
			return time.Time{}, fmt.Errorf("%w (%d of %d)", err, n, want)
		}
		if n >= want {
			return time.Now(), nil
		}
		if !loop.Pause(ctx, pause) {
			return time.Time{}, fmt.Errorf("%d of %d after two minutes", n, want)
		}
	}
}

// finishedRuns counts the runs of a revision that have finished.
const finishedRuns = `SELECT count(*) FROM promotion_run WHERE revision = ? AND ended = 'finished'`

// promotionFleet measures the start of a promoter beside a large fleet, and a change of all applications at once.
func promotionFleet(ctx context.Context, o Options) ([]Result, error) {
	size := fmt.Sprintf("%d pipelines, %d applications, %d leaves", o.Pipelines, fleetSize{Pipelines: o.Pipelines}.applications(), o.Leaves)
	start := Result{Subject: "cold start until all are decided; " + size, Unit: "s"}
	heap := Result{Subject: "heap after it", Unit: "MiB"}
	change := Result{Subject: "every application changes: all decided and recorded", Unit: "s"}
	for range o.Rounds {
		cold, all, err := fleetRound(ctx, o)
		if err != nil {
			return nil, err
		}
		start.Rounds, heap.Rounds, change.Rounds = append(start.Rounds, cold), append(heap.Rounds, cold), append(change.Rounds, all)
	}
	for _, r := range []*Result{&start, &heap, &change} {
		r.Bench, r.Driver = "promotion-fleet", o.Driver
		r.summarizeBy(func(r Round) float64 { return r.Seconds })
	}
	heap.summarizeBy(func(r Round) float64 { return r.HeapMB * 1e6 / (1 << 20) })
	start.judge("at most 15 s", start.Median <= 15)
	heap.judge("at most 200 MiB", heap.Median <= 200)
	change.judge("at most 5 s", change.Median <= 5)
	results := []Result{start, heap, change}
	if o.Original == "" {
		return results, nil
	}
	theirs, err := originalRounds(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range results {
		results[i].against(theirs[i], 0)
	}
	return append(results, theirs...), nil
}

// fleetRound measures both once.
func fleetRound(ctx context.Context, o Options) (cold, all Round, err error) {
	p, err := promote(ctx, o, nil)
	if err != nil {
		return cold, all, err
	}
	defer p.end()
	cpu := ownCPU()
	cold, err = p.decided(ctx, p.began, firstRevision)
	if err != nil {
		return cold, all, err
	}
	cold.ClientCPU = float64(ownCPU()-cpu) / float64(time.Microsecond) / float64(o.Pipelines)
	loop.Pause(ctx, 3*time.Second) // the last views and statuses
	cold.HeapMB = float64(heapAfterCollection()) / 1e6
	cpu = ownCPU()
	answer, err := p.do(fleetOrder{Do: "revise", Revision: "6.1.0"})
	if err != nil {
		return cold, all, err
	}
	all, err = p.decided(ctx, answer.At, "6.1.0")
	all.ClientCPU = float64(ownCPU()-cpu) / float64(time.Microsecond) / float64(o.Pipelines)
	if verbose {
		counted, _ := p.do(fleetOrder{Do: "count"})
		fmt.Fprintln(os.Stderr, cold.Seconds, cold.HeapMB, cold.ClientCPU, all.Seconds, all.ClientCPU, counted.Requests, runtime.NumGoroutine(), counted.CPU)
	}
	return cold, all, err
}

var verbose = os.Getenv("WAYBILL_BENCH_VERBOSE") != ""

// decided waits until all pipelines have finished a run of a revision.
func (p *promoting) decided(ctx context.Context, since time.Time, revision string) (Round, error) {
	at, err := p.await(ctx, p.size.Pipelines, finishedRuns, revision)
	if err != nil {
		return Round{}, fmt.Errorf("runs of %s: %w", revision, err)
	}
	seconds := at.Sub(since).Seconds()
	return Round{Ops: p.size.Pipelines, Seconds: seconds, PerSecond: float64(p.size.Pipelines) / seconds}, nil
}
