package main

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// foldStored measures what a process does first: it opens the log, reads it through the journal and folds it. The log is
// filled once, as ask fills it.
func foldStored(ctx context.Context, o Options) ([]Result, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.remove()
	_, entries, err := fillLog(ctx, s, o.Entries)
	if err != nil {
		return nil, err
	}
	clock := Result{Bench: "fold", Subject: fmt.Sprintf("a log of %s rows opened, read and folded",
		grouped(float64(entries))), Driver: o.Driver, Unit: "ms"}
	cpu := Result{Bench: "fold", Subject: "the same, of the process's CPU time", Driver: o.Driver, Unit: "rows/CPU s"}
	for range o.Rounds {
		round, err := s.measure(ctx, func() (Round, error) { return foldCold(ctx, s, entries) })
		if err != nil {
			return nil, err
		}
		clock.Rounds = append(clock.Rounds, round)
		round.PerSecond = 1e6 / round.ClientCPU
		cpu.Rounds = append(cpu.Rounds, round)
	}
	clock.summarizeBy(func(r Round) float64 { return r.P50 })
	clock.judge("under 2000 ms with one million", clock.Median < 2_000)
	cpu.summarize()
	cpu.judge("at least 500000 rows/s", cpu.Median >= 500_000)
	return []Result{clock, cpu}, nil
}

// foldCold folds the log on connections of its own.
func foldCold(ctx context.Context, s *scratch, entries int64) (Round, error) {
	heapAfterCollection()
	start, cpu := time.Now(), ownCPU()
	driver, err := s.again(ctx)
	if err != nil {
		return Round{}, err
	}
	l := ledger.New(driver, ledger.Options{})
	engine, err := deployer.Fold(ctx, l, "fleet")
	if err != nil {
		_ = l.Close()
		return Round{}, err
	}
	round := measured(int(entries), start)
	round.P50 = milliseconds(time.Since(start))
	round.ClientCPU = float64((ownCPU() - cpu).Microseconds()) / float64(entries)
	if err := l.Close(); err != nil {
		return Round{}, err
	}
	if engine.Seq() != entries {
		return Round{}, fmt.Errorf("the fold ends at entry %d, want %d", engine.Seq(), entries)
	}
	return round, nil
}

// again opens the log once more, as another process would.
func (s *scratch) again(ctx context.Context) (ledger.Driver, error) {
	if s.dsn != "" {
		return postgres.Open(ctx, s.dsn, postgres.Options{})
	}
	return sqlite.Open(ctx, s.path)
}
