package caboose

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// recordAnyway is the failed try to archive from which on users see the end all the same. Callbacks
// are planned from the output as it was read here, so no callback misses it.
const recordAnyway = 5

// handle does the work of a workflow that is due now. again is when to come back after an error; zero: soon, then
// later and later.
func (w *watcher) handle(ctx context.Context, one *unstructured.Unstructured, m *memory) (again time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, fmt.Errorf("a workflow took longer than %s", callLimit))
	defer cancel()
	if m.orphan || m.deleted {
		return 0, nil
	}
	id, err := action.ParseID(one.GetName())
	if err != nil {
		w.leave(m, one)
		return 0, nil // a workflow that Waybill did not create
	}
	began := phaseOf(one) == phaseRunning && (!m.running || progressOf(one) > m.progress)
	if !began && !completed(one) {
		return 0, nil
	}
	if ours, err := w.belongs(ctx, id, one, m); err != nil || !ours {
		return 0, err
	}
	if began {
		return 0, w.running(ctx, id, one, m)
	}
	return w.complete(ctx, id, one, m)
}

// belongs reports whether the workflow runs an action of this handler. Without this check a
// workflow that merely has an action's id as its name could end the action of another handler.
func (w *watcher) belongs(ctx context.Context, id action.ID, one *unstructured.Unstructured, m *memory) (bool, error) {
	if m.ours {
		return true, nil
	}
	state, err := w.ledger.Action(ctx, id)
	switch {
	case err != nil && !fault.Is(err, fault.NoSuchAction):
		return false, err
	case err == nil && state.Handler == w.handler:
		m.ours = true
		if state.Kind == action.KindJob {
			m.process = state.Name
		}
	case err == nil && w.cfg.Clusters[state.Handler] != nil: // the watcher of that handler sees it as well
	default:
		w.leave(m, one)
	}
	return m.ours, nil
}

// leave marks a workflow that does not belong to an action, so that it is left alone.
func (w *watcher) leave(m *memory, one *unstructured.Unstructured) {
	m.orphan = true
	w.metrics.Orphans.Inc()
	w.log.Info("workflow belongs to no action; left alone", obs.KeyWorkflow, one.GetName())
}

// running records that a workflow runs, and how far it has come.
func (w *watcher) running(ctx context.Context, id action.ID, one *unstructured.Unstructured, m *memory) error {
	_, err := w.observe(ctx, queue.Observation{ID: id, Source: w.source(), Began: true, BeganAt: moment(one, "startedAt"),
		Ref: refOf(one), Progress: progressOf(one)})
	if err != nil {
		return err
	}
	known := m.running
	m.running, m.progress = true, progressOf(one)
	if known {
		return nil
	}
	w.metrics.Workflows.WithLabelValues("running").Inc()
	return nil
}

// complete takes a completed workflow through its three steps. Nothing is deleted before it is
// archived and recorded.
func (w *watcher) complete(ctx context.Context, id action.ID, one *unstructured.Unstructured, m *memory) (time.Duration, error) {
	if m.archived && m.recorded {
		return w.remove(ctx, one, m)
	}
	full, err := w.workflows.Get(ctx, one.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && full.GetUID() != one.GetUID()) {
		return 0, nil // it is gone; the search for missing workflows finds its action
	}
	if err != nil {
		return 0, fmt.Errorf("read workflow %s: %w", one.GetName(), err)
	}
	result, err := w.collect(ctx, id, full, m.process)
	if err != nil {
		w.metrics.ArchiveFailures.Inc()
		return 0, err
	}
	end := ended{id, full, result}
	unkept := w.keep(ctx, end, m)
	if unkept != nil && m.unkept < recordAnyway {
		return 0, unkept
	}
	if err := w.record(ctx, end, m); err != nil {
		return 0, err
	}
	if unkept != nil {
		return 0, unkept
	}
	return w.remove(ctx, one, m)
}

// ended is a completed workflow with its outputs.
type ended struct {
	id     action.ID
	full   *unstructured.Unstructured
	result made
}

// keep archives a workflow's object and its outputs, under the same keys each time.
func (w *watcher) keep(ctx context.Context, end ended, m *memory) error {
	if m.archived {
		return nil
	}
	object, err := json.Marshal(end.full.Object)
	if err != nil {
		return fmt.Errorf("archive workflow %s: %w", end.id, err)
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{{outputsFile, end.result.output}, {argo.ArchivedWorkflow, object}} {
		if _, _, _, err := w.archive.Put(ctx, blob.ActionKey(end.id, file.name), bytes.NewReader(file.content)); err != nil {
			m.unkept++
			w.metrics.ArchiveFailures.Inc()
			return fmt.Errorf("archive workflow %s: %w", end.id, err)
		}
	}
	m.archived, m.unkept = true, 0
	return nil
}

// record writes a workflow's end down, once.
func (w *watcher) record(ctx context.Context, end ended, m *memory) error {
	if m.recorded {
		return nil
	}
	o := queue.Observation{ID: end.id, Source: w.source(), Began: true, BeganAt: moment(end.full, "startedAt"), Ref: refOf(end.full),
		EndedAt: moment(end.full, "finishedAt"), Outcome: outcomeOf(end.full, end.result)}
	seen, err := w.observe(ctx, o)
	if err != nil {
		return err
	}
	m.recorded = true
	w.count(o, seen)
	return nil
}

// remove deletes an archived and recorded workflow, then lets it go.
func (w *watcher) remove(ctx context.Context, one *unstructured.Unstructured, m *memory) (time.Duration, error) {
	err := w.tryRemove(ctx, one)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another by that name
		m.deleted = true
		w.nameStuck(one, nil)
		return 0, nil
	}
	w.metrics.DeleteFailures.Inc()
	w.nameStuck(one, err)
	return w.cfg.Pace.DeleteAgain, fmt.Errorf("delete workflow %s: %w", one.GetName(), err)
}

// nameStuck sets whether the status page lists a workflow as one that cannot be deleted.
func (w *watcher) nameStuck(one *unstructured.Unstructured, why error) {
	name := w.handler + "/" + one.GetName()
	w.ledger.UpdateReport(func(r *queue.Report) {
		switch {
		case why == nil:
			delete(r.Undeletable, name)
		case r.Undeletable == nil:
			r.Undeletable = map[string]string{name: why.Error()}
		default:
			r.Undeletable[name] = why.Error()
		}
	})
}

func (w *watcher) tryRemove(ctx context.Context, one *unstructured.Unstructured) error {
	uid, background := one.GetUID(), metav1.DeletePropagationBackground
	err := w.workflows.Delete(ctx, one.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background})
	if err != nil {
		return err
	}
	now, err := w.workflows.Get(ctx, one.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	at := slices.Index(now.GetFinalizers(), argo.Finalizer)
	if at < 0 || now.GetUID() != uid {
		return nil // others hold it, or it is another
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", at)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": uid},
		{"op": "test", "path": path, "value": argo.Finalizer},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return err
	}
	_, err = w.workflows.Patch(ctx, one.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "waybill"})
	return err
}
