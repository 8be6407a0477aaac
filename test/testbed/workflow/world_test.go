//go:build services

package workflow_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/conductor"
	handler "github.com/waybill-dev/waybill/internal/conductor/handler/argo"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/test/testbed"
)

// limit bounds each wait; a loaded machine needs a part of it.
const limit = 5 * time.Minute

// world is a log, an archive and a namespace of a test's own.
type world struct {
	*ledger.Ledger
	config  config.Config // whose callbacks follow
	t       *testing.T
	testbed *testbed.Cluster
	cluster *kube.Cluster
	blobs   blob.Store
	buckets map[string]caboose.Bucket
	output  func(process string) *config.ArgoOutput
}

func newWorld(t *testing.T, cluster *testbed.Cluster, archive string) *world {
	t.Helper()
	driver, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "waybill.db"))
	if err != nil {
		t.Fatal(err)
	}
	return newWorldOn(t, cluster, archive, driver)
}

func newWorldOn(t *testing.T, cluster *testbed.Cluster, archive string, driver ledger.Driver) *world {
	t.Helper()
	w := &world{t: t, testbed: cluster}
	planner := &callback.Planner{Book: func() callback.Book { return &w.config }}
	l := ledger.New(driver, ledger.Options{Successors: planner})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	store, err := blob.Open(t.Context(), archive)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.Open(kube.Config{Kubeconfig: cluster.Kubeconfig, Namespace: cluster.Namespace(t)})
	if err != nil {
		t.Fatal(err)
	}
	w.Ledger, w.cluster, w.blobs = l, client, store
	planner.Blobs, planner.Jobs = store, l
	return w
}

func (w *world) workflows() dynamic.ResourceInterface {
	return w.cluster.Resource(argo.Workflows()).Namespace(w.cluster.Namespace)
}

// start runs something until the test ends or stop is called.
func (w *world) start(run func(context.Context) error) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// conduct runs a conductor whose handler "argo" makes workflows.
func (w *world) conduct(cfg handler.Config) {
	w.t.Helper()
	cfg.Cluster = w.cluster
	c := conductor.New(w.NewWaiter(), conductor.Config{Handlers: map[string]conductor.Handler{"argo": handler.New(cfg)}})
	w.start(c.Run)
}

// observe runs a caboose whose calls pass through the faults.
func (w *world) observe(f *faults) (stop func()) {
	w.t.Helper()
	return w.observeAs("test", f)
}

func (w *world) observeAs(name string, f *faults) (stop func()) {
	w.t.Helper()
	pace := caboose.Pace{Resync: time.Hour, Retry: 10 * time.Millisecond, RetryMax: 50 * time.Millisecond, DeleteAgain: 20 * time.Millisecond,
		Missing: 50 * time.Millisecond, MissingWait: 200 * time.Millisecond}
	var archive blob.Putter = w.blobs
	cluster := w.cluster
	var l caboose.Ledger = w.NewWaiter()
	if f != nil {
		archive = cutArchive{w.blobs, f}
		cluster = &kube.Cluster{Interface: cutCluster{w.cluster.Interface, f}, Namespace: w.cluster.Namespace}
		l = cutLedger{l, f}
	}
	c := caboose.New(l, archive, caboose.Config{Instance: queue.Instance{Name: name}, Clusters: map[string]*kube.Cluster{"argo": cluster},
		Buckets: w.buckets, Output: w.output, Pace: pace})
	return w.start(c.Run)
}

// enqueue makes an action for the handler "argo".
func (w *world) enqueue(parameters string) action.ID {
	w.t.Helper()
	return w.add(action.Action{Kind: config.KindAction, Name: "argo", Handler: "argo", Policy: action.DefaultPolicy(),
		Parameters: []byte(parameters)})
}

// add stores an action.
func (w *world) add(a action.Action) action.ID {
	w.t.Helper()
	made, err := w.Enqueue(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	return made[0].ID
}

// queued returns an action whose workflow is there, made by hand: the cluster has no controller that
// would run it.
func (w *world) queued() action.ID {
	w.t.Helper()
	return w.handOver(w.enqueue(`{}`))
}

// handOver hands an action over to a workflow made by hand.
func (w *world) handOver(id action.ID) action.ID {
	w.t.Helper()
	host := queue.Instance{ID: action.DerivedID(time.Now(), id.String()), Name: "hand"}
	if err := w.Join(w.t.Context(), host); err != nil {
		w.t.Fatal(err)
	}
	turned, err := w.CompleteAndClaim(w.t.Context(), host, nil, []queue.Want{{Lane: "argo", N: 1, HandOff: true}})
	if err != nil || len(turned.Claimed) != 1 {
		w.t.Fatal(turned, err)
	}
	_, err = w.CompleteAndClaim(w.t.Context(), host, []queue.Completion{{ID: id, Attempt: turned.Claimed[0].Thread.Attempt, HandOff: true,
		Outcome: action.Outcome{Kind: action.Done}}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.Leave(w.t.Context(), host); err != nil {
		w.t.Fatal(err)
	}
	w.create(id.String(), true)
	return id
}

// create makes a workflow that no controller runs.
func (w *world) create(name string, finalizer bool) {
	w.t.Helper()
	one := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
		"spec": map[string]any{"entrypoint": "wait", "templates": []any{map[string]any{"name": "wait", "suspend": map[string]any{}}}},
	}}
	one.SetName(name)
	if finalizer {
		one.SetFinalizers([]string{argo.Finalizer})
	}
	if _, err := w.workflows().Create(w.t.Context(), one, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// set writes a workflow's status, as its controller would.
func (w *world) set(name, status string) {
	w.t.Helper()
	_, err := w.workflows().Patch(w.t.Context(), name, types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// await waits for an action to be as wanted.
func (w *world) await(id action.ID, what string, holds func(queue.ActionState) bool) queue.ActionState {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	view := w.NewWaiter()
	for {
		state, err := w.Action(ctx, id)
		if err != nil {
			w.t.Fatalf("waiting for %s: %v", what, err)
		}
		if holds(state) {
			return state
		}
		if err := view.Wait(ctx, store.TopicAction, time.Time{}); err != nil {
			w.t.Fatalf("%s: not so after %s; it is %s %s %s", what, limit, state.Thread.Status, state.Code, state.Error)
		}
	}
}

func (w *world) awaitStatus(id action.ID, want action.Status) queue.ActionState {
	w.t.Helper()
	return w.await(id, want.String(), func(s queue.ActionState) bool {
		if s.Thread.Status.Ended() && s.Thread.Status != want {
			w.t.Fatalf("it is %s: %s %s, want %s", s.Thread.Status, s.Code, s.Error, want)
		}
		return s.Thread.Status == want
	})
}

// awaitGone waits until the cluster does not have the workflow any more.
func (w *world) awaitGone(name string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	for {
		events, err := w.workflows().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			w.t.Fatalf("waiting for %s to go: %v", name, err)
		}
		now, err := w.workflows().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			events.Stop()
			return
		}
		if err != nil {
			w.t.Fatalf("workflow %s is still there: %v, %v", name, now, err)
		}
		select {
		case <-events.ResultChan():
		case <-ctx.Done():
			w.t.Fatalf("workflow %s is still there: %v", name, now)
		}
		events.Stop()
	}
}

// wantHistory wants these statuses after PENDING, each once.
func (w *world) wantHistory(id action.ID, want ...action.Status) {
	w.t.Helper()
	events, err := w.Events(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(events) > 1 && events[1].Status == action.Running && want[0] == action.Queued {
		want = want[1:] // the caboose saw it run before the conductor could record that it was accepted
	}
	if len(events) != len(want)+1 {
		w.t.Errorf("history %+v, want PENDING and %v", events, want)
		return
	}
	for i, s := range want {
		if events[i+1].Status != s {
			w.t.Errorf("event %d is %s, want %s", i+1, events[i+1].Status, s)
		}
	}
}

// archived reads what was kept of an action's workflow.
func (w *world) archived(id action.ID, name string) string {
	w.t.Helper()
	year, week := id.Time().ISOWeek()
	r, _, err := w.blobs.Get(w.t.Context(), archiveKey(year, week, id, name))
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(content)
}

// faults decides which calls of a caboose fail. An error that is errCut is the end of its process:
// nothing more gets through.
type faults struct {
	mu    sync.Mutex
	cut   bool
	calls map[string]int
	// fail is asked before and after each call: put, observe, delete, patch. n counts from 1.
	fail func(call string, n int, after bool) error
}

var errCut = errors.New("the process was killed")

// through makes a call unless it fails, or its process is dead.
func (f *faults) through(call string, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return errCut
	}
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[call]++
	n := f.calls[call]
	if err := f.fail(call, n, false); err != nil {
		f.cut = errors.Is(err, errCut)
		return err
	}
	err := do()
	if late := f.fail(call, n, true); late != nil {
		f.cut = errors.Is(late, errCut)
		return late
	}
	return err
}

func (f *faults) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

type cutArchive struct {
	blob.Store
	f *faults
}

func (c cutArchive) Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error) {
	err = c.f.through("put", func() error {
		stored, digest, size, err = c.Store.Put(ctx, key, r)
		return err
	})
	return stored, digest, size, err
}

type cutLedger struct {
	caboose.Ledger
	f *faults
}

func (c cutLedger) Observe(ctx context.Context, o ...queue.Observation) (seen queue.Observed, err error) {
	err = c.f.through("observe", func() error {
		seen, err = c.Ledger.Observe(ctx, o...)
		return err
	})
	return seen, err
}

type cutCluster struct {
	dynamic.Interface
	f *faults
}

func (c cutCluster) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return cutResource{c.Interface.Resource(r), c.f}
}

type cutResource struct {
	dynamic.NamespaceableResourceInterface
	f *faults
}

func (c cutResource) Namespace(name string) dynamic.ResourceInterface {
	return cutNamespaced{c.NamespaceableResourceInterface.Namespace(name), c.f}
}

type cutNamespaced struct {
	dynamic.ResourceInterface
	f *faults
}

func (c cutNamespaced) Delete(ctx context.Context, name string, o metav1.DeleteOptions, sub ...string) error {
	return c.f.through("delete", func() error { return c.ResourceInterface.Delete(ctx, name, o, sub...) })
}

func (c cutNamespaced) Patch(ctx context.Context, name string, kind types.PatchType, data []byte,
	o metav1.PatchOptions, sub ...string) (made *unstructured.Unstructured, err error) {
	err = c.f.through("patch", func() error {
		made, err = c.ResourceInterface.Patch(ctx, name, kind, data, o, sub...)
		return err
	})
	return made, err
}

var testTime = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

const mergePatch = types.MergePatchType

// awaitInstances waits until so many instances are registered.
func (w *world) awaitInstances(n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	view := w.NewWaiter()
	for {
		rows, err := w.Instances(ctx)
		if err != nil {
			w.t.Fatalf("waiting for %d instances: %v", n, err)
		}
		if len(rows) == n {
			return
		}
		if err := view.Wait(ctx, store.TopicEntry, time.Now().Add(20*time.Millisecond)); err != nil {
			w.t.Fatalf("%d instances, want %d: %v", len(rows), n, err)
		}
	}
}
