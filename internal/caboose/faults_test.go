package caboose_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/sqlite"
)

const mirrors = `
handlers:
  flows: {type: argo}
  publish: {type: webhook, parameters: {feature: {type: object}}, request: {url: "https://catalog.example.org/"}}
workflows:
  mirror:
    handler: flows
    argoOpts: {template: workflowtemplate/mirror}
    callbacks: {publish: {handler: publish, type: perFeature, when: [successful], parameters: {feature: {path: $.feature}}}}
`

// faults is how often the archive and the deletion of each workflow fail, and what was seen of that.
type faults struct {
	blob.Store
	caboose.Ledger
	times int

	mu       sync.Mutex
	puts     map[string]int // failed ones, by action
	deletes  map[string]int
	recorded map[string]int // failed puts when the end was recorded, by action
}

func (f *faults) Put(ctx context.Context, key string, r io.Reader) (string, string, int64, error) {
	id := path.Base(path.Dir(key))
	f.mu.Lock()
	fails := path.Base(key) != "parameters.json" && f.puts[id] < f.times
	if fails {
		f.puts[id]++
	}
	f.mu.Unlock()
	if fails {
		return "", "", 0, fmt.Errorf("%s cannot be stored now", key)
	}
	return f.Store.Put(ctx, key, r)
}

func (f *faults) Observe(ctx context.Context, o ...ledger.Observation) (ledger.Observed, error) {
	seen, err := f.Ledger.Observe(ctx, o...)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range seen.Ended {
		f.recorded[id.String()] = f.puts[id.String()]
	}
	return seen, err
}

// failDelete fails a workflow's first deletions.
func (f *faults) failDelete(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deletes[name]++; f.deletes[name] <= f.times {
		return apierrors.NewInternalError(fmt.Errorf("%s cannot be deleted now", name))
	}
	return nil
}

// cluster has workflows that are complete; deletions fail as f says, and are wrong before the workflow is archived.
func cluster(t *testing.T, f *faults, workflows ...runtime.Object) *kube.Cluster {
	t.Helper()
	client := fakeCluster(workflows...)
	client.PrependReactor("delete", "workflows", func(a k8stesting.Action) (bool, runtime.Object, error) {
		name := a.(k8stesting.DeleteAction).GetName()
		id, err := action.ParseID(name)
		if err != nil {
			t.Errorf("%s was deleted", name)
		}
		if there, err := f.Has(context.Background(), blob.ActionKey(id, "workflow.json")); !there || err != nil {
			t.Errorf("%s is deleted and not archived: %v", name, err)
		}
		err = f.failDelete(name)
		return err != nil, nil, err
	})
	return &kube.Cluster{Interface: client, Namespace: "flows"}
}

// fakeCluster is a stand-in for a cluster that has workflows.
func fakeCluster(workflows ...runtime.Object) *fake.FakeDynamicClient {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{kube.Workflows(): "WorkflowList"}, workflows...)
	client.PrependWatchReactor("*", func(a k8stesting.Action) (bool, watch.Interface, error) {
		if o, ok := a.(k8stesting.WatchActionImpl); ok && o.ListOptions.SendInitialEvents != nil { // it has none to send
			return true, nil, apierrors.NewInvalid(schema.GroupKind{}, "sendInitialEvents", nil)
		}
		return false, nil, nil
	})
	return client
}

// mirrored is a job's workflow that has ended with so many features, each of about size bytes.
func mirrored(id action.ID, features, size int) *unstructured.Unstructured {
	list := make([]map[string]any, features)
	for i := range list {
		list[i] = map[string]any{"id": i, "text": strings.Repeat("x", size)}
	}
	text, _ := json.Marshal(list)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
		"metadata": map[string]any{"name": id.String(), "namespace": "flows", "uid": "uid-" + id.String()},
		"status": map[string]any{"phase": "Succeeded", "startedAt": "2026-11-20T10:00:00Z", "finishedAt": "2026-11-20T10:01:00Z",
			"outputs": map[string]any{"parameters": []any{map[string]any{"name": "features", "value": string(text)}}}},
	}}
}

// TestFaultsMakeNoCallbackTwice: seven archives and seven deletions of each workflow fail. Ends are recorded once, at
// the fifth failure, also where callbacks need an output that is not stored yet; no callback comes twice, or before its
// parameters; nothing unarchived is deleted, and everything is deleted in the end.
func TestFaultsMakeNoCallbackTwice(t *testing.T) {
	t.Parallel()
	const jobs, features, times = 6, 3, 7
	driver, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "waybill.db"))
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(driver)
	t.Cleanup(func() { l.Close() })
	blobs, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := catalog.Read("server.yaml", []byte(mirrors))
	if err != nil {
		t.Fatal(err)
	}
	l.Follows(callback.Planner{Book: func() callback.Book { return &config }, Blobs: blobs, Jobs: l})
	f := &faults{Store: blobs, Ledger: l.View(), times: times, puts: map[string]int{}, deletes: map[string]int{}, recorded: map[string]int{}}
	ids := map[action.ID]bool{} // whether its output is too big for a row
	var workflows []runtime.Object
	for i := range jobs {
		id := handOff(t, l, config)
		ids[id] = i%2 == 1
		workflows = append(workflows, mirrored(id, features, 10+i%2*blob.Inline))
	}
	flows := cluster(t, f, workflows...)
	watching := watchCallbacks(t, l, blobs, ids)
	run(t, caboose.New(f, f, caboose.Config{Clusters: map[string]*kube.Cluster{"flows": flows},
		Pace: caboose.Pace{Resync: time.Hour, Retry: time.Millisecond, RetryMax: 5 * time.Millisecond, DeleteAgain: 5 * time.Millisecond}}))
	awaitNoWorkflow(t, flows)
	watching()
	for id, big := range ids {
		state, err := l.Action(t.Context(), id)
		if err != nil || state.Thread.Status != action.Successful {
			t.Errorf("%s is %s: %v", id, state.Thread.Status, err)
		}
		events, err := l.Events(t.Context(), id)
		if err != nil || len(events) != 4 {
			t.Errorf("%s: %d events, want PENDING, QUEUED, RUNNING, SUCCESSFUL: %v", id, len(events), err)
		}
		callbacks, err := l.Actions(t.Context(), ledger.ActionQuery{Parent: id})
		if err != nil || len(callbacks) != features {
			t.Errorf("%s: %d callbacks, want %d: %v", id, len(callbacks), features, err)
		}
		if got := f.recorded[id.String()]; got != 5 {
			t.Errorf("%s (big: %v) was recorded after %d failures, want 5", id, big, got)
		}
		if output, err := blob.Load(t.Context(), blobs, state.Output, state.OutputRef); err != nil || (state.OutputRef != "") != big || len(output) < 100 {
			t.Errorf("%s (big: %v) has the output %q, %d bytes: %v", id, big, state.OutputRef, len(output), err)
		}
		if got := f.deletes[id.String()]; got != times+1 {
			t.Errorf("%s was deleted %d times, want %d", id, got, times+1)
		}
	}
}

// handOff is a job whose workflow the cluster has accepted.
func handOff(t *testing.T, l *ledger.Ledger, config catalog.Config) action.ID {
	t.Helper()
	job, err := config.Workflows["mirror"].Prepare([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	job.CacheKey = action.ID{}
	made, err := l.Enqueue(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	turned, err := l.Turn(t.Context(), host, nil, []ledger.Want{{Lane: "flows", N: 1, HandOff: true}})
	if err != nil || len(turned.Claimed) != 1 {
		t.Fatal(turned, err)
	}
	_, err = l.Turn(t.Context(), host, []ledger.Completion{{ID: made[0].ID, Attempt: 1, HandOff: true, Outcome: action.Outcome{Kind: action.Done}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made[0].ID
}

// watchCallbacks looks at callbacks as soon as they are there: their parameters must be there, too. stop ends it.
func watchCallbacks(t *testing.T, l *ledger.Ledger, blobs blob.Store, jobs map[action.ID]bool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		view := l.View()
		for {
			for id := range jobs {
				callbacks, err := l.Actions(context.WithoutCancel(ctx), ledger.ActionQuery{Parent: id})
				if err != nil {
					t.Error(err)
				}
				for _, c := range callbacks {
					parameters, err := blob.Load(context.WithoutCancel(ctx), blobs, c.Parameters, c.ParametersRef)
					var given struct{ Feature struct{ Text string } }
					if err != nil || json.Unmarshal(parameters, &given) != nil || given.Feature.Text == "" {
						t.Errorf("callback %s is there before its parameters: %v", c.ID, err)
					}
				}
			}
			if view.Wait(ctx, ledger.TopicAction, time.Now().Add(time.Millisecond)) != nil {
				return
			}
		}
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// run runs a caboose until the test ends.
func run(t *testing.T, c *caboose.Caboose) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func awaitNoWorkflow(t *testing.T, flows *kube.Cluster) {
	t.Helper()
	workflows := flows.Resource(kube.Workflows()).Namespace(flows.Namespace)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changes, err := workflows.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	for {
		left, err := workflows.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(left.Items) == 0 {
			return
		}
		select {
		case <-changes.ResultChan():
		case <-ctx.Done():
			t.Fatalf("%d workflows are still there after a minute", len(left.Items))
		}
	}
}
