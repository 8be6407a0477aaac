package deployment

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// How often a watched deployment is read.
const (
	viewEvery = time.Second // attempts and reasons change without an entry
	awayPause = time.Second // between two attempts to read a ledger that does not answer
)

// Watcher shows one deployment until it has ended.
type Watcher struct {
	log     cmdline.EntryReader
	Ref     service.Ref
	last    service.DeploymentView // as it was read last
	after   int64                  // entries up to this one are known
	display show.Display
	Enough  func(service.DeploymentView) bool // the watching ends there too; nil: at the deployment's end alone
}

// NewWatcher returns a watcher. leave says how the watching ends while the deployment waits for a person.
func NewWatcher(log cmdline.EntryReader, out show.Printer, v service.DeploymentView, leave string) *Watcher {
	return &Watcher{log: log, Ref: show.RefOf(v.Deployment), last: v, display: show.NewDisplay(out, v, leave)}
}

// Skip has the watcher show the entries after one. Earlier entries are not shown, but they date the steps that run.
func (w *Watcher) Skip(ctx context.Context, after int64) error {
	w.after = after
	before, err := operation.ReadLog.Call(ctx, w.log,
		operation.LogInputOf(journal.EntryQuery{Pipeline: w.Ref.Pipeline, Deployment: w.Ref.Number}))
	for _, e := range before {
		if e.Seq <= after {
			w.display.Known(e)
		}
	}
	return err
}

// Run returns the deployment at its end, or the cause of ctx when that ended the watching.
func (w *Watcher) Run(ctx context.Context) (service.DeploymentView, error) {
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

// follow sends entries until its context ends. It repeats requests to a ledger that does not answer.
func (w *Watcher) follow(ctx context.Context, after int64, entries chan<- pipeline.Entry) {
	for ctx.Err() == nil {
		query := journal.EntryQuery{Pipeline: w.Ref.Pipeline, Deployment: w.Ref.Number, After: after}
		_ = w.log.Follow(ctx, query, func(e pipeline.Entry) error { // look reports what is wrong
			select {
			case entries <- e:
				after = e.Seq
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		loop.Pause(ctx, awayPause)
	}
}

// loop shows entries and views until the deployment has ended.
func (w *Watcher) loop(ctx context.Context, entries <-chan pipeline.Entry) (service.DeploymentView, error) {
	ticker := time.NewTicker(show.FrameEvery)
	defer ticker.Stop()
	v := w.last
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

// look reads and shows the deployment. When the ledger does not answer, the display reports that and keeps the last view.
func (w *Watcher) look(ctx context.Context, last service.DeploymentView) (v service.DeploymentView, ended bool, err error) {
	v, err = operation.GetDeployment.Call(ctx, w.log, operation.PathOf(w.Ref))
	switch {
	case ctx.Err() != nil:
		return last, false, context.Cause(ctx)
	case fault.Is(err, fault.LedgerUnavailable) || fault.Is(err, fault.Unavailable):
		return last, false, w.display.Away(err)
	case err != nil:
		return last, false, err
	}
	ended = v.State.Status != pipeline.StatusActive || w.Enough != nil && w.Enough(v)
	return v, ended, w.display.View(v)
}

// rest shows the entries that were written since the last one shown.
func (w *Watcher) rest(ctx context.Context) error {
	entries, err := operation.ReadLog.Call(ctx, w.log,
		operation.LogInputOf(journal.EntryQuery{Pipeline: w.Ref.Pipeline, Deployment: w.Ref.Number, After: w.after}))
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
