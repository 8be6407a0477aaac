package aggregator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// follower copies the results of one build.
type follower struct {
	*Aggregator
	worker Worker
	log    *slog.Logger
}

// run copies until the worker has the final acknowledgement, or ctx ends.
func (f *follower) run(ctx context.Context) {
	away := loop.Backoff{First: f.delay, Most: f.most}
	for ctx.Err() == nil {
		moved, err := f.once(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if moved {
			away.Reset()
		}
		f.count(err)
		pause := away.Next()
		f.log.Warn("copying the results of a build stopped", obs.Error(err), obs.KeyRetryIn, pause.String())
		if !loop.Pause(ctx, pause) {
			return
		}
	}
}

// count counts errors that should never occur.
func (f *follower) count(err error) {
	if _, ok := errors.AsType[*builds.GapError](err); ok {
		f.Metrics.Gap()
	}
	if fault.Is(err, fault.Corrupt) || connect.CodeOf(err) == connect.CodeOutOfRange {
		f.Metrics.Conflict()
	}
}

// once copies over one connection. moved reports whether anything new was stored.
func (f *follower) once(ctx context.Context) (moved bool, err error) {
	at, err := f.Store.Progress(ctx, f.worker.Build)
	if err != nil {
		return false, err
	}
	c := f.connect()
	defer c.close()
	if !at.Whole {
		w := newWriter(f)
		err := f.copy(ctx, c, w, at)
		w.budget.close()
		if err != nil {
			return w.moved, errors.Join(err, f.clearDeleted(ctx))
		}
		moved = true
	}
	err = f.acknowledge(ctx, c)
	if at.Known && err != nil {
		f.log.Debug("an acknowledged worker does not answer", obs.Error(err))
		return moved, nil
	}
	return moved, err
}

// copy stores everything from a place on, until the final marker.
func (f *follower) copy(ctx context.Context, c *client, w *writer, at builds.Progress) error {
	steps, err := c.steps(ctx)
	if err != nil {
		return err
	}
	if err := w.store(ctx, builds.Batch{Steps: steps}); err != nil {
		return err
	}
	r := &reader{follower: f, client: c, writer: w, patience: f.Silence}
	if err := f.stream(ctx, r, w, at); err != nil {
		return err
	}
	if r.final == nil {
		return fault.New(fault.Unavailable, "the worker of build %d ended its streams without a final marker", f.worker.Build)
	}
	return w.store(ctx, builds.Batch{Events: []builds.Event{*r.final}})
}

// stream stores the messages of the three streams until they end. Messages before a cut are stored all the same.
func (f *follower) stream(ctx context.Context, r *reader, w *writer, at builds.Progress) error {
	open, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	readers, reading := errgroup.WithContext(open)
	readers.Go(func() error { return r.events(reading, at.Events) })
	readers.Go(func() error { return r.logs(reading, at.Logs) })
	readers.Go(func() error { return r.artifacts(reading, at.Artifacts) })
	stored := make(chan error, 1)
	go func() {
		err := w.run(ctx)
		stop(err) // nothing more can be stored, or there is nothing more
		stored <- err
	}()
	err := readers.Wait()
	close(w.items)
	return cmp.Or(<-stored, err)
}

// clearLimit bounds clearDeleted, which is not given up when the follower ends: workers of deleted builds are not listed.
const clearLimit = time.Minute

// clearDeleted clears the artifacts of a build that was deleted: one may have come after they were cleared, and no row names it.
func (f *follower) clearDeleted(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), clearLimit,
		fmt.Errorf("the artifacts of a deleted build were not cleared within %s", clearLimit))
	defer cancel()
	if _, err := f.Store.Progress(ctx, f.worker.Build); !fault.Is(err, fault.Refused) {
		return nil
	}
	return f.Blobs.Clear(ctx, builds.Folder(f.worker.Build))
}

// acknowledge sends the final acknowledgement.
func (f *follower) acknowledge(ctx context.Context, c *client) error {
	at, err := f.Store.Progress(ctx, f.worker.Build)
	if err != nil {
		return err
	}
	if !at.Whole {
		return fault.New(fault.Corrupt, "the final marker of build %d did not end it", f.worker.Build)
	}
	m := &workerv1.AcknowledgeRequest{EventId: at.Events, Final: true}
	for step, p := range at.Logs {
		m.Logs = append(m.Logs, &workerv1.Position{StepId: int32(step), LogId: p.ID, Offset: p.Offset})
	}
	for id := range at.Artifacts {
		m.ArtifactIds = append(m.ArtifactIds, int32(id+1))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.Silence, errSilence)
	defer cancel()
	if _, err := c.worker.Acknowledge(ctx, connect.NewRequest(m)); err != nil {
		return fmt.Errorf("acknowledge the results of build %d: %w", f.worker.Build, err)
	}
	if err := f.Store.Acknowledged(ctx, f.worker.Build); err != nil {
		return err
	}
	f.log.Info("everything of a build is stored")
	return nil
}
