package caboose_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/caboose/caboosetest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/queue"
)

// diary is a log, an archive and a cluster that note when they are called. It lives in a bubble of synctest.
type diary struct {
	caboose.Ledger // nil: what is not written here is not called
	known          map[action.ID]queue.ActionState
	fail           func(call string, n int) error // n counts from 1; nil: nothing fails
	disturb        func(*kubetest.API)            // called after a minute; nil: nothing is

	start time.Time
	mu    sync.Mutex
	calls map[string]int
	notes []string // call and when, since the start

	report queue.Report
}

func (d *diary) note(call, what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[call]++
	d.notes = append(d.notes, fmt.Sprintf("%s %s %s", time.Since(d.start), call, what))
	if d.fail == nil {
		return nil
	}
	return d.fail(call, d.calls[call])
}

// some returns the notes of some calls.
func (d *diary) some(calls ...string) (found []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.notes {
		if slices.Contains(calls, strings.Fields(n)[1]) {
			found = append(found, n)
		}
	}
	return found
}

func (d *diary) Join(context.Context, queue.Instance) error      { return nil }
func (d *diary) Leave(context.Context, queue.Instance) error     { return nil }
func (d *diary) Heartbeat(context.Context, queue.Instance) error { return nil }
func (d *diary) Embedded() bool                                  { return true }

func (d *diary) Instances(context.Context) ([]queue.InstanceRow, error) { return nil, nil }

// UpdateReport notes how many workflows the status page names.
func (d *diary) UpdateReport(change func(*queue.Report)) {
	d.mu.Lock()
	change(&d.report)
	n := len(d.report.Undeletable)
	d.mu.Unlock()
	_ = d.note("report", fmt.Sprint(n)) // it cannot fail
}

func (d *diary) Action(_ context.Context, id action.ID) (queue.ActionState, error) {
	if err := d.note("action", id.String()); err != nil {
		return queue.ActionState{}, err
	}
	state, known := d.known[id]
	if !known {
		return state, fault.New(fault.NoSuchAction, "action %s not found", id)
	}
	return state, nil
}

func (d *diary) Actions(context.Context, queue.ActionQuery) (all []queue.ActionState, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, state := range d.known {
		all = append(all, state)
	}
	return all, nil
}

func (d *diary) Observe(_ context.Context, all ...queue.Observation) (seen queue.Observed, err error) {
	for _, o := range all {
		if err := d.note("observe", fmt.Sprintf("%s %s", o.Outcome.Kind, o.Outcome.Code)); err != nil {
			return seen, err
		}
		if o.Outcome.Kind != 0 {
			d.mu.Lock()
			delete(d.known, o.ID)
			d.mu.Unlock()
			seen.Ended = append(seen.Ended, o.ID)
		}
	}
	return seen, nil
}

func (d *diary) Put(_ context.Context, key string, r io.Reader) (string, string, int64, error) {
	_, err := io.Copy(io.Discard, r)
	return key, "", 0, errors.Join(err, d.note("put", path.Base(key)))
}

// live adds an action whose work was handed off.
func (d *diary) live(n byte) action.ID {
	id := action.NewID(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), [10]byte{n})
	d.known[id] = queue.ActionState{Action: action.Action{ID: id, Handler: "flows"}, Thread: action.Thread{Status: action.Queued}}
	return id
}

// keep runs a caboose on these workflows for a while.
func (d *diary) keep(t *testing.T, while time.Duration, workflows ...*unstructured.Unstructured) {
	t.Helper()
	d.start, d.calls = time.Now(), map[string]int{}
	api := caboosetest.OpenAPI(workflows...)
	defer api.Close()
	api.Before(func(r kubetest.Request) error {
		if r.Verb != "delete" && r.Verb != "get" {
			return nil
		}
		return d.note(r.Verb, r.Name)
	})
	if d.disturb != nil {
		defer time.AfterFunc(time.Minute, func() { d.disturb(api) }).Stop()
	}
	c := caboose.New(d, d, caboose.Config{Clusters: map[string]*kube.Cluster{"flows": api.Cluster("flows")}})
	ctx, stop := context.WithTimeout(t.Context(), while)
	defer stop()
	if err := c.Run(ctx); err != nil {
		t.Error(err)
	}
}

// in returns a workflow in a phase.
func in(phase, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
		"metadata": map[string]any{"name": name, "namespace": "flows", "uid": "uid-" + name},
		"status":   map[string]any{"phase": phase, "startedAt": "2026-11-20T10:00:00Z", "finishedAt": "2026-11-20T10:01:00Z"}}}
}

// TestFaultsArePaced: archiving is tried again after a second, doubling to five minutes; at the
// fifth failure the end is recorded; deleting is tried again every five minutes, and nothing but
// that.
func TestFaultsArePaced(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		d := &diary{known: map[action.ID]queue.ActionState{}}
		d.fail = func(call string, n int) error {
			if call == "put" && n <= 11 || call == "delete" && n <= 3 {
				return errors.New("not now")
			}
			return nil
		}
		id := d.live(1).String()
		d.keep(t, 2*time.Hour, in("Succeeded", id))
		want := []string{"0s put outputs.json", "1s put outputs.json", "3s put outputs.json", "7s put outputs.json", "15s put outputs.json",
			"15s observe done ", "31s put outputs.json", "1m3s put outputs.json", "2m7s put outputs.json", "4m15s put outputs.json",
			"8m31s put outputs.json", "13m31s put outputs.json", "18m31s put outputs.json", "18m31s put workflow.json",
			"18m31s delete " + id, "23m31s delete " + id, "28m31s delete " + id, "33m31s delete " + id}
		if diff := cmp.Diff(want, d.some("put", "observe", "delete")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		named := []string{"18m31s report 1", "23m31s report 1", "28m31s report 1", "33m31s report 0"}
		if diff := cmp.Diff(named, slices.Compact(d.some("report"))); diff != "" {
			t.Errorf("what cannot be deleted is named, and then no more (-want +got):\n%s", diff)
		}
	})
}

// TestResyncsAskNobody: the known state of a workflow is not requested again, however often all are looked at.
func TestResyncsAskNobody(t *testing.T) {
	for name, disturb := range map[string]func(*kubetest.API){
		"undisturbed": nil, "repeated events": (*kubetest.API).Repeat, "a watch that ends": (*kubetest.API).Cut,
		"a version that is forgotten": (*kubetest.API).Forget,
		"late events": func(api *kubetest.API) {
			api.Hold()
			api.Repeat()
			time.AfterFunc(time.Hour, api.Release)
		},
	} {
		t.Run(name, func(t *testing.T) { testResyncs(t, disturb) })
	}
}

func testResyncs(t *testing.T, disturb func(*kubetest.API)) {
	bubbletest.Test(t, func(t *testing.T) {
		d := &diary{known: map[action.ID]queue.ActionState{}, disturb: disturb}
		ended, runs := d.live(1).String(), d.live(2).String()
		stranger := action.NewID(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), [10]byte{9}).String()
		held := in("Succeeded", ended)
		held.SetFinalizers([]string{"example.org/mine"}) // it stays in the cluster when it is deleted
		d.keep(t, 3*time.Hour, held, in("Running", runs), in("Succeeded", stranger), in("Succeeded", "somebodys"))
		got := d.some("action", "observe", "delete", "put", "get")
		slices.Sort(got)
		want := []string{"0s action " + ended, "0s action " + runs, "0s action " + stranger, "0s delete " + ended,
			"0s get " + ended, "0s get " + ended,
			"0s observe done ", "0s observe none ", "0s put outputs.json", "0s put workflow.json"}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestVanishedWorkflowsAreLookedForTwice: after ten minutes, and once more two minutes later; a
// ledger that is away changes nothing.
func TestVanishedWorkflowsAreLookedForTwice(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		d := &diary{known: map[action.ID]queue.ActionState{}}
		d.fail = func(call string, n int) error {
			if call == "observe" && n == 1 {
				return fault.New(fault.LedgerUnavailable, "not now")
			}
			return nil
		}
		id := d.live(1).String()
		d.keep(t, time.Hour)
		want := []string{"10m0s get " + id, "12m0s get " + id, "12m0s observe fatal workflow_lost", "14m0s get " + id,
			"14m0s observe fatal workflow_lost"}
		if diff := cmp.Diff(want, d.some("get", "observe")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
