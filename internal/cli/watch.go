package cli

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// How often a watched deployment is looked at.
const (
	viewEvery = time.Second // attempts and reasons change without an entry
	awayPause = time.Second // between two tries to read a ledger that is away
)

// watcher follows one deployment until it has ended.
type watcher struct {
	assembly.Operations
	ref     server.Ref
	after   int64 // entries up to here are known
	display show.Display
	enough  func(server.DeploymentView) bool // the watching ends there too; nil: at the deployment's end alone
}

// watcher shows a deployment from an entry on. What came before is told to nobody, but known: when a step began.
func (a *app) watcher(ctx context.Context, ops assembly.Operations, v server.DeploymentView, after int64) (*watcher, error) {
	d := show.NewDisplay(a.printer(), v)
	if after > 0 {
		before, err := ops.Entries(ctx, ledger.EntryQuery{Pipeline: v.Pipeline, Deployment: v.Number})
		if err != nil {
			return nil, err
		}
		for _, e := range before {
			if e.Seq <= after {
				d.Known(e)
			}
		}
	}
	return &watcher{Operations: ops, ref: show.RefOf(v.Deployment), after: after, display: d}, nil
}

// run returns how the deployment stands at its end, or why the watching ended before: the cause of ctx.
func (w *watcher) run(ctx context.Context) (server.DeploymentView, error) {
	following, stop := context.WithCancel(ctx)
	defer stop()
	entries := make(chan pipeline.Entry, 256)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.follow(following, w.after, entries)
	}()
	v, err := w.loop(ctx, entries)
	stop()
	<-done
	if err == nil {
		err = w.rest(ctx)
	}
	return v, errors.Join(err, w.display.Close())
}

// follow hands over entries until its context ends; a ledger that is away is asked again.
func (w *watcher) follow(ctx context.Context, after int64, entries chan<- pipeline.Entry) {
	for ctx.Err() == nil {
		query := ledger.EntryQuery{Pipeline: w.ref.Pipeline, Deployment: w.ref.Number, After: after}
		_ = w.Follow(ctx, query, func(e pipeline.Entry) error { // the loop's own reading tells what is wrong
			select {
			case entries <- e:
				after = e.Seq
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		pause(ctx, awayPause)
	}
}

// loop shows entries and views until the deployment is no longer active.
func (w *watcher) loop(ctx context.Context, entries <-chan pipeline.Entry) (server.DeploymentView, error) {
	ticker := time.NewTicker(show.FrameEvery)
	defer ticker.Stop()
	var v server.DeploymentView
	looked, stale := time.Time{}, true
	for {
		select {
		case <-ctx.Done():
			return v, context.Cause(ctx)
		case e := <-entries:
			stale = true
			w.after = e.Seq
			if err := w.display.Entry(e); err != nil {
				return v, err
			}
		case now := <-ticker.C:
			if stale || now.Sub(looked) >= viewEvery {
				var ended bool
				var err error
				if v, ended, err = w.look(ctx, v); err != nil || ended {
					return v, err
				}
				looked, stale = now, false
			}
			if err := w.display.Tick(now); err != nil {
				return v, err
			}
		}
	}
}

// look reads and shows where the deployment stands. When the ledger is away, it says so and the last view stands.
func (w *watcher) look(ctx context.Context, last server.DeploymentView) (v server.DeploymentView, ended bool, err error) {
	v, err = w.Deployment(ctx, w.ref)
	switch {
	case ctx.Err() != nil:
		return last, false, context.Cause(ctx)
	case fault.Is(err, fault.LedgerUnavailable) || fault.Is(err, fault.Unavailable):
		return last, false, w.display.Away(err)
	case err != nil:
		return last, false, err
	}
	ended = v.State.Status != pipeline.StatusActive || w.enough != nil && w.enough(v)
	return v, ended, w.display.View(v)
}

// rest shows the entries that were written since the last one shown.
func (w *watcher) rest(ctx context.Context) error {
	entries, err := w.Entries(ctx, ledger.EntryQuery{Pipeline: w.ref.Pipeline, Deployment: w.ref.Number, After: w.after})
	if err != nil {
		return err
	}
	for _, e := range entries {
		w.after = e.Seq
		if err := w.display.Entry(e); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
