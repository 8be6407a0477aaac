package caboose

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// CodeLost is of an action whose workflow vanished before its end was seen.
const CodeLost = "workflow_lost"

// page is the number of live actions read at once.
const page = 1000

// missing searches for live actions whose workflow is not there, for as long as ctx lasts.
func (w *watcher) missing(ctx context.Context) {
	absent := map[action.ID]time.Time{} // since when
	wait := w.cfg.Pace.Missing
	for loop.Pause(ctx, wait) {
		if !w.informer.Synced() {
			continue
		}
		found, err := w.absent(ctx, absent)
		if err != nil {
			if ctx.Err() == nil {
				w.log.Warn("looking for missing workflows failed", obs.Error(err))
			}
			continue
		}
		absent = found
		wait = w.cfg.Pace.Missing
		if len(absent) > 0 {
			wait = w.cfg.Pace.MissingWait
		}
	}
}

// absent returns the actions whose workflow was not found. It gives up an action whose workflow was
// already missing before.
func (w *watcher) absent(ctx context.Context, before map[action.ID]time.Time) (map[action.ID]time.Time, error) {
	absent := map[action.ID]time.Time{}
	query := queue.ActionQuery{Handler: w.handler, LiveOnly: true, Limit: page}
	for {
		states, err := w.ledger.Actions(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, s := range states {
			query.After = s.ID
			away := s.Thread.ClaimedBy.IsZero() && (s.Thread.Status == action.Queued || s.Thread.Status == action.Running)
			if !away || !w.owns(s.ID.String()) {
				continue
			}
			there, err := w.has(ctx, s.ID)
			if err != nil {
				return nil, err
			}
			if there {
				continue
			}
			since, again := before[s.ID]
			if !again {
				since = time.Now()
			}
			if again && time.Since(since) >= w.cfg.Pace.MissingWait {
				if err := w.lose(ctx, s.ID); err != nil {
					return nil, err
				}
				continue
			}
			absent[s.ID] = since
		}
		if len(states) < page {
			return absent, nil
		}
	}
}

// has searches for an action's workflow: in the cache, then in the cluster, since the cache may be behind.
func (w *watcher) has(ctx context.Context, id action.ID) (bool, error) {
	if _, there := w.informer.Get(w.namespace, id.String()); there {
		return true, nil
	}
	_, err := w.workflows.Get(ctx, id.String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// lose ends an action whose workflow vanished. It is not run again, since it may have run.
func (w *watcher) lose(ctx context.Context, id action.ID) error {
	_, err := w.observe(ctx, queue.Observation{ID: id, Source: w.source(), Outcome: action.Outcome{Kind: action.Fatal, Code: CodeLost,
		Error: "the workflow vanished before its end was seen; it may have run"}})
	if err == nil {
		w.metrics.Lost.Inc()
		w.log.Warn("workflow lost", obs.KeyActionID, id.String())
	}
	return err
}
