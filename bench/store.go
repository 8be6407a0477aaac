package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
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
	return use(s.driver)
}

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

// appendEntries measures facts per second through Ledger.Append, each batch one
// durable transaction under the head lock, beside a bare insert into a table with the same key.
func appendEntries(ctx context.Context, o Options) ([]Result, error) {
	var results []Result
	for _, batch := range []int{1, 100, 1000} {
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
	return append(results, whole), err
}

// appendPasses measures the rows of whole deployments through Ledger.Append, 1,000 in a transaction: 5,000
// hosts in one stage, four deployments. Claims, facts and what follows from the facts are in it, so also the
// rows that tell where each revision is and what runs on each host.
func appendPasses(ctx context.Context, o Options) (Result, error) {
	const hosts, deployments, batch = 5_000, 4, 1_000
	result := Result{Bench: "append", Subject: "waybill, whole deployments to 5,000 hosts, batch 1000", Driver: o.Driver, Unit: "entries/s"}
	definition := fleet(1, hosts)
	c, err := deployedFleet(definition, deployments)
	if err != nil {
		return result, err
	}
	rows := slices.DeleteFunc(c.rows, func(e pipeline.Entry) bool {
		return e.Class == pipeline.Change || e.Event == pipeline.DeploymentCreated
	})
	for range o.Rounds {
		round, err := onLedger(ctx, o, func(l *ledger.Ledger) (Round, error) {
			if err := registered(ctx, l, definition); err != nil {
				return Round{}, err
			}
			for range deployments - 1 {
				if _, err := l.Deploy(ctx, journal.NewDeployment{Pipeline: definition.Pipeline, Revision: 1, Kind: journal.Manual, By: "bench"}); err != nil {
					return Round{}, err
				}
			}
			head, err := l.Head(ctx, definition.Pipeline)
			start := time.Now()
			for some := range slices.Chunk(rows, batch) {
				if err != nil {
					break
				}
				head, err = l.Append(ctx, definition.Pipeline, head.Seq, func(journal.Locked) (journal.Change, error) {
					return journal.Change{Entries: slices.Clone(some)}, nil
				})
			}
			return measured(len(rows), start), err
		})
		if err != nil {
			return result, err
		}
		result.Rounds = append(result.Rounds, round)
	}
	result.summarize()
	return result, nil
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
