package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
)

// onLedger opens an empty ledger for one round and removes it afterwards.
func onLedger(ctx context.Context, o Options, use func(*ledger.Ledger) (Round, error)) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	return use(s.Ledger)
}

// onDriver does what onLedger does, for what makes a ledger of its own.
func onDriver(ctx context.Context, o Options, use func(ledger.Driver) (Round, error)) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	return use(unheard{s.driver})
}

// unheard is a database whose signals go to another ledger. A driver listens once.
type unheard struct{ ledger.Driver }

// Listen does nothing.
func (unheard) Listen(func(store.Signal)) {}

// registered defines the pipeline of one host and registers one revision with its deployment.
func registered(ctx context.Context, l *ledger.Ledger, definition pipeline.Definition) error {
	_, err := l.Define(ctx, definition.Pipeline, 0, func(at journal.Locked) (journal.Change, error) {
		return journal.Change{Definition: &definition, By: "bench", Entries: []pipeline.Entry{{
			Target: definition.Pipeline, Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: at.Version + 1,
		}}}, nil
	})
	if err != nil {
		return err
	}
	_, err = l.Register(ctx, pipeline.RegisteredRevision{Pipeline: definition.Pipeline, Label: "r1", Snapshot: "none", By: "bench"}, true, "")
	return err
}

// step returns the i-th fact of a deployment: five of each host.
func step(i int) (target, event string) {
	events := [...]string{pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostTested, "host-cache-warmed", "host-announced"}
	return fmt.Sprintf("fleet/prod/all/h%08d", i/len(events)), events[i%len(events)]
}

// detail returns the detail of a fact as a conductor writes it.
func detail(i int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"action":"01a1f866-0d10-7c55-9d3e-%012d","attempt":1,"spent":0}`, i))
}

func appendFlags(f *flag.FlagSet, o *Options) {
	counted(0)(f, o)
	f.BoolVar(&o.Whole, "whole", false, "only whole deployments, beside the bare insert")
}

// appendEntries measures facts per second through Ledger.Append, each batch one
// durable transaction under the head lock, beside a bare insert into a table with the same key.
func appendEntries(ctx context.Context, o Options) ([]Result, error) {
	var results []Result
	for _, batch := range []int{1, 100, 1000} {
		if o.Whole {
			break
		}
		ours := Result{Bench: "append", Subject: fmt.Sprintf("waybill, batch %d", batch), Driver: o.Driver, Unit: "entries/s"}
		bare := Result{Bench: "append", Subject: fmt.Sprintf("bare insert, batch %d", batch), Driver: o.Driver, Unit: "rows/s"}
		n := appendCount(o, batch)
		for range o.Rounds {
			round, err := onLedger(ctx, o, func(l *ledger.Ledger) (Round, error) { return appendFacts(ctx, l, n, batch) })
			if err != nil {
				return nil, err
			}
			ours.Rounds = append(ours.Rounds, round)
			if round, err = bareInsert(ctx, o, n, batch); err != nil {
				return nil, err
			}
			bare.Rounds = append(bare.Rounds, round)
		}
		ours.summarize()
		bare.summarize()
		ours.against(bare, 0)
		results = append(results, ours, bare)
	}
	whole, err := appendPasses(ctx, o)
	return append(results, whole...), err
}

// The whole deployments that appendPasses measures.
const (
	passHosts       = 5_000
	passDeployments = 4
	passBatch       = 1_000
)

// appendPasses measures the rows of whole deployments through Ledger.Append, 1,000 in a transaction: 5,000 hosts in
// one stage, four deployments. Claims, facts and the consequences of the facts are in it, so also the rows that tell
// where each revision is and what runs on each host. A bare insert of as many rows takes turns with it.
func appendPasses(ctx context.Context, o Options) ([]Result, error) {
	ours := Result{Bench: "append", Subject: "waybill, whole deployments to 5,000 hosts, batch 1000", Driver: o.Driver, Unit: "entries/s"}
	bare := Result{Bench: "append", Subject: "bare insert beside it, batch 1000", Driver: o.Driver, Unit: "rows/s"}
	definition := fleet(1, passHosts)
	c, err := deployedFleet(definition, passDeployments)
	if err != nil {
		return nil, err
	}
	rows := slices.DeleteFunc(c.rows, func(e pipeline.Entry) bool {
		return e.Class == pipeline.Change || e.Event == pipeline.DeploymentCreated
	})
	for range o.Rounds {
		round, err := onDriver(ctx, o, func(driver ledger.Driver) (Round, error) { return appendWhole(ctx, driver, definition, rows) })
		if err != nil {
			return nil, err
		}
		ours.Rounds = append(ours.Rounds, round)
		if round, err = bareInsert(ctx, o, len(rows)/passBatch*passBatch, passBatch); err != nil {
			return nil, err
		}
		bare.Rounds = append(bare.Rounds, round)
	}
	waits := Result{Bench: "append", Subject: "its wait for a commit, p99", Driver: o.Driver, Unit: "ms", Rounds: ours.Rounds}
	waits.summarizeBy(func(r Round) float64 { return r.P99 })
	waits.judge("at most 15 ms", waits.Median <= 15)
	ours.summarize()
	bare.summarize()
	ours.against(bare, 0)
	wanted := map[string]float64{"sqlite": 50_000, "postgres": 30_000}[o.Driver]
	ours.judge(fmt.Sprintf("at least %s entries/s", grouped(wanted)), ours.Median >= wanted)
	return []Result{ours, bare, waits}, nil
}

// appendWhole appends the rows of whole deployments, and measures each commit.
func appendWhole(ctx context.Context, driver ledger.Driver, definition pipeline.Definition, rows []pipeline.Entry) (Round, error) {
	timed := &timedCommits{Driver: driver}
	l := ledger.New(timed, ledger.Options{})
	if err := registered(ctx, l, definition); err != nil {
		return Round{}, err
	}
	for range passDeployments - 1 {
		if _, err := l.Deploy(ctx, journal.NewDeployment{Pipeline: definition.Pipeline, Revision: 1, Kind: journal.Manual,
			By: "bench"}); err != nil {
			return Round{}, err
		}
	}
	head, err := l.Head(ctx, definition.Pipeline)
	timed.took = nil
	start, before := time.Now(), ownCPU()
	for some := range slices.Chunk(rows, passBatch) {
		if err != nil {
			break
		}
		head, err = l.Append(ctx, definition.Pipeline, head.Seq, func(journal.Locked) (journal.Change, error) {
			return journal.Change{Entries: slices.Clone(some)}, nil
		})
	}
	round := measured(len(rows), start)
	round.ClientCPU = float64((ownCPU() - before).Microseconds()) / float64(len(rows))
	slices.Sort(timed.took)
	if n := len(timed.took); n > 0 {
		round.P50, round.P99 = milliseconds(timed.took[n/2]), milliseconds(timed.took[n*99/100])
	}
	return round, err
}

// timedCommits is a database that measures how long transactions take from their last statement until they are durable.
// On PostgreSQL statements without an answer are sent with the commit, and count.
type timedCommits struct {
	ledger.Driver
	took []time.Duration
}

// Write runs fn in one transaction.
func (t *timedCommits) Write(ctx context.Context, use store.Use, fn func(store.Rows) error) error {
	var done time.Time
	err := t.Driver.Write(ctx, use, func(r store.Rows) error {
		err := fn(r)
		done = time.Now()
		return err
	})
	t.took = append(t.took, time.Since(done))
	return err
}

// appendCount keeps a round of single rows, each with its own sync, as short as one of thousands.
func appendCount(o Options, batch int) int {
	if o.N > 0 {
		return o.N
	}
	return map[int]int{1: 2_000, 100: 50_000, 1000: 200_000}[batch]
}

func appendFacts(ctx context.Context, l *ledger.Ledger, n, batch int) (Round, error) {
	if err := registered(ctx, l, fleet(1, 1)); err != nil {
		return Round{}, err
	}
	head, err := l.Head(ctx, "fleet")
	if err != nil {
		return Round{}, err
	}
	start := time.Now()
	for done := 0; done < n; done += batch {
		head, err = l.Append(ctx, "fleet", head.Seq, func(journal.Locked) (journal.Change, error) {
			rows := make([]pipeline.Entry, batch)
			for i := range rows {
				target, event := step(done + i)
				rows[i] = pipeline.Entry{
					Deployment: 1, Target: target, Event: event, Class: pipeline.Fact, Revision: 1, Version: 1, Detail: detail(done + i),
				}
			}
			return journal.Change{Entries: rows}, nil
		})
		if err != nil {
			return Round{}, err
		}
	}
	return measured(n, start), nil
}
