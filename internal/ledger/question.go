package ledger

import (
	"context"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// The questions that the log answers for a pipeline, stage, group or host, each
// by an index. What is in progress: Deployments with Status active. Everything
// in a deployment: Entries with Deployment.

// Standing is the latest revision through a target, by rank and by revision,
// and its last failure. A target that nothing has passed yet has an empty one.
func (l *Ledger) Standing(ctx context.Context, name, target string) (s Standing, err error) {
	err = l.read(ctx, "read "+target, func(tx Tx) error {
		some, err := tx.Standings(name, target)
		s = Standing{Target: target}
		if len(some) > 0 {
			s = some[0]
		}
		return err
	})
	return s, err
}

// Standings is that of every target of a pipeline, by path.
func (l *Ledger) Standings(ctx context.Context, name string) (some []Standing, err error) {
	err = l.list(ctx, "read targets of "+name, func(tx Tx) error {
		some, err = tx.Standings(name, "")
		return err
	})
	return some, err
}

// History is a target's finishes and failures, newest first; before is a
// position in the log (0: its end), so that it also tells what stood there at a past moment.
func (l *Ledger) History(ctx context.Context, name, target string, before int64, limit int) (entries []pipeline.Entry, err error) {
	err = l.list(ctx, "read history of "+target, func(tx Tx) error {
		entries, err = tx.History(name, target, before, limit)
		return err
	})
	return entries, err
}

// Resources lists what runs where, by pipeline; "" lists all.
func (l *Ledger) Resources(ctx context.Context, name string) (some []Resource, err error) {
	err = l.list(ctx, "read resources", func(tx Tx) error {
		some, err = tx.Resources(name)
		return err
	})
	return some, err
}

// StageRuns lists a deployment's ways through its stages, in the order of their starts.
func (l *Ledger) StageRuns(ctx context.Context, name string, deployment int64) (runs []StageRun, err error) {
	err = l.read(ctx, "read stages", func(tx Tx) error {
		runs, err = tx.StageRuns(name, deployment)
		return err
	})
	return runs, err
}

// Introductions lists what edits brought into stages, oldest first.
func (l *Ledger) Introductions(ctx context.Context, name string) (some []Introduction, err error) {
	err = l.list(ctx, "read introductions", func(tx Tx) error {
		some, err = tx.Introductions(name)
		return err
	})
	return some, err
}
