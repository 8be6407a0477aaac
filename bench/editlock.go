package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// editLock measures how long an edit holds the lock of the head: from the call of the decider, which
// already has the edit, until the commit has returned. The deployments are active, but no host is
// started, since a log of those would take hours to write. An edit that excludes steps of many
// deployments stores more rows than this one. The figure is by the clock.
func editLock(ctx context.Context, o Options) ([]Result, error) {
	kinds := editKinds()
	results := make([]Result, len(kinds))
	for range o.Rounds {
		_, err := onLedger(ctx, o, func(l *ledger.Ledger) (Round, error) {
			d := fleet(100, max(1, o.Hosts[0]/100))
			if err := register(ctx, l, d, o.Deployments); err != nil {
				return Round{}, err
			}
			for i, kind := range kinds {
				d.Stages = slices.Clone(d.Stages)
				kind.edit(&d)
				round, err := lockForEdit(ctx, l, d)
				if err != nil {
					return Round{}, fmt.Errorf("%s: %w", kind.name, err)
				}
				results[i].Subject, results[i].Rounds = kind.name+": lock held", append(results[i].Rounds, round)
			}
			return Round{}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range results {
		results[i].Bench, results[i].Driver, results[i].Unit = "edit-lock", o.Driver, "ms"
		results[i].summarizeBy(func(r Round) float64 { return r.Seconds * 1000 })
	}
	return results, nil
}

// register defines a pipeline and registers revisions, each with a deployment.
func register(ctx context.Context, l *ledger.Ledger, d pipeline.Definition, deployments int) error {
	_, err := l.Define(ctx, d.Pipeline, 0, func(at journal.Locked) (journal.Change, error) {
		return journal.Change{Definition: &d, By: "bench", Entries: []pipeline.Entry{{
			Target: d.Pipeline, Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: at.Version + 1,
		}}}, nil
	})
	for i := 0; i < deployments && err == nil; i++ {
		r := pipeline.RegisteredRevision{Pipeline: d.Pipeline, Label: fmt.Sprintf("r%d", i), Snapshot: "none", By: "bench"}
		_, err = l.Register(ctx, r, true, "")
	}
	return err
}

// lockForEdit puts a definition in force as Apply of the server does, with the edit computed before,
// and measures the time under the lock.
func lockForEdit(ctx context.Context, l *ledger.Ledger, d pipeline.Definition) (Round, error) {
	engine, err := deployer.Fold(ctx, l, d.Pipeline)
	if err != nil {
		return Round{}, err
	}
	plan, problems := pipeline.Compile(d)
	if err := problems.Err(); err != nil {
		return Round{}, err
	}
	head, err := l.Head(ctx, d.Pipeline)
	if err != nil {
		return Round{}, err
	}
	edit := engine.Edit(head.Version+1, plan, head.Newest, time.Now().UTC())
	if err := edit.Refused.Err(); err != nil {
		return Round{}, err
	}
	encoded, err := json.Marshal(plan.Definition())
	if err != nil {
		return Round{}, err
	}
	var locked time.Time
	_, err = l.Define(ctx, d.Pipeline, engine.Seq(), func(at journal.Locked) (journal.Change, error) {
		locked = time.Now()
		_, err := at.Owners()
		return journal.Change{Definition: plan.Definition(), Encoded: encoded, By: "bench", Entries: edit.Entries}, err
	})
	return measured(1, locked), err
}
