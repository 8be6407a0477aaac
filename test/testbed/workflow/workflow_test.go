//go:build services

// Package workflow shows how actions become workflows and workflows become ends
// of actions, on a real API server and with Argo's real controller.
package workflow_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/conductor"
	handler "github.com/waybill-dev/waybill/internal/conductor/handler/argo"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/test/testbed"
)

func archiveKey(year, week int, id action.ID, name string) string {
	return fmt.Sprintf("action/%dw%02d/%s/%s", year, week, id, name)
}

// templates: one returns its inputs, one waits forever.
const templates = `
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: mirror, namespace: %[1]s}
spec:
  entrypoint: main
  arguments: {parameters: [{name: features}, {name: zone, value: none}, {name: wait, value: "1"}]}
  templates:
  - name: main
    inputs:
      parameters:
      - {name: features, value: "{{workflow.parameters.features}}"}
      - {name: zone, value: "{{workflow.parameters.zone}}"}
    steps: [[{name: wait, template: wait}]]
    outputs:
      parameters:
      - {name: features, valueFrom: {expression: inputs.parameters.features}}
      - {name: zone, valueFrom: {expression: inputs.parameters.zone}}
  - name: wait
    suspend: {duration: "{{workflow.parameters.wait}}"}
---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: forever, namespace: %[1]s}
spec:
  entrypoint: main
  templates: [{name: main, suspend: {}}]
---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: late, namespace: %[1]s}
spec:
  entrypoint: main
  activeDeadlineSeconds: 2
  templates: [{name: main, suspend: {}}]
`

// waits is a template that waits for two inputs, and returns them.
const waits = `---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: waits, namespace: %[1]s}
spec:
  entrypoint: main
  templates:
  - name: main
    steps: [[{name: approve, template: approve}]]
    outputs: {parameters: [{name: zone, valueFrom: {parameter: "{{steps.approve.outputs.parameters.zone}}"}}]}
  - name: approve
    suspend: {}
    outputs: {parameters: [{name: zone, valueFrom: {supplied: {}}}, {name: by, valueFrom: {supplied: {}}, globalName: by}]}
`

// TestActionsRunAsWorkflows is the whole way: action, workflow, caboose, archive, end.
func TestActionsRunAsWorkflows(t *testing.T) {
	bucket := testbed.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", bucket.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", bucket.SecretKey)
	cluster := testbed.Kubernetes(t)
	testbed.Argo(t, cluster)
	for name, archive := range map[string]string{
		"folder": t.TempDir(),
		"bucket": fmt.Sprintf("s3://%s/archive?endpoint=%s&region=%s", bucket.Name, bucket.Endpoint, bucket.Region),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cluster, archive)
			cluster.Apply(t, fmt.Sprintf(templates, w.cluster.Namespace))
			w.conduct(handler.Config{})
			w.observe(nil)
			done := w.enqueue(`{"template": "workflowtemplate/mirror", "parameters": {"features": [{"id": "a"}], "zone": "north"}}`)
			canceled := w.enqueue(`{"template": "workflowtemplate/forever", "labels": {"team": "web"}}`)
			late := w.enqueue(`{"template": "workflowtemplate/late"}`)
			nowhere := w.enqueue(`{"template": "workflowtemplate/nowhere"}`)

			w.awaitStatus(canceled, action.Running)
			forever, err := w.workflows().Get(t.Context(), canceled.String(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := forever.GetLabels(); got["team"] != "web" || got[argo.LabelAction] != canceled.String() {
				t.Errorf("labels %v", got)
			}
			if diff := cmp.Diff([]string{argo.Finalizer}, forever.GetFinalizers()); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			if err := w.Cancel(t.Context(), canceled, queue.CancelNow); err != nil {
				t.Fatal(err)
			}

			state := w.awaitStatus(done, action.Successful)
			var output struct {
				Features []struct{ ID string }
				Zone     string
			}
			if err := json.Unmarshal(state.Output, &output); err != nil || len(output.Features) != 1 ||
				output.Features[0].ID != "a" || output.Zone != "north" {
				t.Errorf("output %s, %v", state.Output, err)
			}
			w.wantHistory(done, action.Queued, action.Running, action.Successful)
			w.awaitStatus(canceled, action.Canceled)
			w.wantHistory(canceled, action.Queued, action.Running, action.Canceled)
			w.awaitStatus(late, action.TimedOut)
			if state := w.awaitStatus(nowhere, action.Failed); state.Code != "404" {
				t.Errorf("without its template: %s %s", state.Code, state.Error)
			}
			for _, id := range []action.ID{done, canceled, late} {
				w.awaitGone(id.String())
				var kept struct{ Metadata struct{ Name string } }
				if err := json.Unmarshal([]byte(w.archived(id, "workflow.json")), &kept); err != nil || kept.Metadata.Name != id.String() {
					t.Errorf("archived %+v, %v", kept, err)
				}
			}
			if got := w.archived(done, "outputs.json"); got != string(state.Output) {
				t.Errorf("archived outputs %s, want %s", got, state.Output)
			}
		})
	}
}

// TestWorkflowsAreWoken: one workflow waits for a job that is another, whose callback gives it what it waits for.
func TestWorkflowsAreWoken(t *testing.T) {
	cluster := testbed.Kubernetes(t)
	testbed.Argo(t, cluster)
	w := newWorld(t, cluster, t.TempDir())
	cluster.Apply(t, fmt.Sprintf(templates+waits, w.cluster.Namespace))
	cfg, err := config.Read("server.yaml", []byte(`
handlers:
  argo: {type: argo}
  wake: {type: argo, argoConf: {mode: resume}, parameters: {zone: {type: string}, by: {type: string}}, backoff: {initial: 200ms, factor: 1, retries: 100}}
workflows:
  mirror:
    handler: argo
    argoOpts: {template: workflowtemplate/mirror}
    callbacks:
      wake:
        handler: wake
        when: [successful]
        parameters: {workflow: {path: $.input.waiting}, node: {value: approve}, zone: {path: $.output.zone}, by: {path: $.workflow.uuid}}
`))
	if err != nil {
		t.Fatal(err)
	}
	w.config = cfg
	resumer := handler.NewResumer(w.cluster, w.blobs, cfg.Handlers["wake"])
	c := conductor.New(w.NewWaiter(), conductor.Config{Handlers: map[string]conductor.Handler{
		"argo": handler.New(handler.Config{Cluster: w.cluster, Processes: cfg.ArgoProcesses("argo")}),
		"wake": resumer,
	}})
	w.start(c.Run)
	w.observe(nil)

	waiting := w.add(action.Action{Kind: config.KindAction, Name: "argo", Handler: "argo", Policy: action.DefaultPolicy(),
		Parameters: []byte(`{"template": "workflowtemplate/waits"}`)})
	job, err := cfg.Processes["mirror"].Prepare([]byte(`{"features": [], "zone": "north", "waiting": "` + waiting.String() + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	done := w.add(job)
	w.awaitStatus(done, action.Successful)
	w.awaitGone(done.String())
	w.archived(done, "workflow.json")
	followed, err := w.Actions(t.Context(), queue.ActionQuery{Parent: done})
	if err != nil || len(followed) != 1 {
		t.Fatalf("%d callbacks, %v", len(followed), err)
	}
	w.awaitStatus(followed[0].Action.ID, action.Successful)
	want := fmt.Sprintf(`{"by":%q,"zone":"north"}`, done)
	if state := w.awaitStatus(waiting, action.Successful); string(state.Output) != want {
		t.Errorf("what waited made %s, want %s", state.Output, want)
	}
	w.wantHistory(waiting, action.Queued, action.Running, action.Successful)
	w.awaitGone(waiting.String())
	// as after a crash that kept from the log that it was resumed
	if again := resumer.Do(t.Context(), conductor.Attempt{Action: followed[0].Action, Number: 2}); again.Kind != action.Done {
		t.Errorf("resumed again, when it is gone: %+v", again)
	}
}

// succeeded is the status of a workflow that is done.
const succeeded = `{"phase": "Succeeded", "startedAt": "2026-11-20T10:00:00Z", "finishedAt": "2026-11-20T10:01:00Z",
	"outputs": {"parameters": [{"name": "n", "value": "1"}]}}`

// TestCaboose needs no controller: workflows' statuses are written by hand.
func TestCaboose(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	cluster.InstallWorkflows(t)

	// killed before or after any of its calls, its successor does the rest, and nothing happens
	// twice
	for _, call := range []string{"put", "observe", "delete", "patch"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("killed at %s, after %v", call, after), func(t *testing.T) {
				w := newWorld(t, cluster, t.TempDir())
				id := w.queued()
				w.set(id.String(), succeeded)
				killed := make(chan struct{})
				stop := w.observe(&faults{fail: func(this string, _ int, now bool) error {
					if this == call && now == after {
						close(killed)
						return errCut
					}
					return nil
				}})
				<-killed
				stop()
				w.observe(nil)
				state := w.awaitStatus(id, action.Successful)
				w.awaitGone(id.String())
				w.wantHistory(id, action.Queued, action.Running, action.Successful)
				if got := w.archived(id, "outputs.json"); got != `{"n":"1"}` || string(state.Output) != got {
					t.Errorf("archived %s, output %s", got, state.Output)
				}
			})
		}
	}
	t.Run("failing archive and deletion", func(t *testing.T) { failing(t, newWorld(t, cluster, t.TempDir())) })
	t.Run("orphans are left alone", func(t *testing.T) { orphans(t, newWorld(t, cluster, t.TempDir())) })
	t.Run("vanished workflows are lost", func(t *testing.T) { lost(t, newWorld(t, cluster, t.TempDir())) })
	t.Run("shared among instances", func(t *testing.T) { shared(t, cluster) })
	t.Run("server killed", func(t *testing.T) { serverKilled(t, newWorld(t, cluster, t.TempDir())) })
}

// failing: seven archives and seven deletions fail. Users see the end from the
// fifth failure on, nothing unarchived is deleted, and every end is recorded once.
func failing(t *testing.T, w *world) {
	const workflows, faulty = 5, 7
	f := &faults{}
	f.fail = func(call string, n int, after bool) error {
		if (call == "put" || call == "delete") && n <= faulty && !after {
			return fmt.Errorf("%s %d fails", call, n)
		}
		if call == "delete" && !after && f.calls["put"] < faulty {
			t.Error("deleted before it was archived")
		}
		return nil
	}
	ids := make([]action.ID, workflows)
	for i := range ids {
		ids[i] = w.queued()
	}
	w.observe(f)
	for _, id := range ids {
		w.set(id.String(), succeeded)
	}
	for _, id := range ids {
		w.awaitStatus(id, action.Successful)
		w.awaitGone(id.String())
		w.wantHistory(id, action.Queued, action.Running, action.Successful)
		w.archived(id, "workflow.json")
	}
	if got, want := f.count("put"), 2*workflows+faulty; got != want {
		t.Errorf("%d puts, want %d", got, want)
	}
	if got, want := f.count("delete"), workflows+faulty; got != want {
		t.Errorf("%d deletions, want %d", got, want)
	}
	if got := f.count("observe"); got != workflows {
		t.Errorf("%d records of %d ends", got, workflows)
	}
}

func orphans(t *testing.T, w *world) {
	foreign := []string{"somebodys", action.NewID(testTime, [10]byte{9}).String()}
	local, err := w.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop", Policy: action.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	foreign = append(foreign, local[0].ID.String()) // its name alone does not allow to end it
	for _, name := range foreign {
		w.create(name, false)
		w.set(name, succeeded)
	}
	w.observe(nil)
	id := w.queued()
	w.set(id.String(), succeeded)
	w.awaitGone(id.String()) // those before it were looked at, too
	for _, name := range foreign {
		one, err := w.workflows().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || one.GetDeletionTimestamp() != nil {
			t.Errorf("%s: %v, %v", name, one, err)
		}
	}
	w.wantHistory(local[0].ID)
}

func lost(t *testing.T, w *world) {
	id, stays := w.queued(), w.queued()
	_, err := w.workflows().Patch(t.Context(), id.String(), mergePatch, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.workflows().Delete(t.Context(), id.String(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.observe(nil)
	if state := w.awaitStatus(id, action.Failed); state.Code != caboose.CodeLost {
		t.Errorf("%s %s", state.Code, state.Error)
	}
	if state := w.awaitStatus(stays, action.Queued); state.Thread.Seq != 1 {
		t.Errorf("the one that is there: %+v", state.Thread)
	}
}

// shared: two instances divide workflows among themselves; when one leaves, the other does all.
func shared(t *testing.T, cluster *testbed.Cluster) {
	const workflows = 24
	driver, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldOn(t, cluster, t.TempDir(), driver)
	if err := w.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	complete := func() map[string]int {
		sources := map[string]int{}
		ids := make([]action.ID, workflows)
		for i := range ids {
			ids[i] = w.queued()
		}
		for _, id := range ids {
			w.set(id.String(), succeeded)
		}
		for _, id := range ids {
			w.awaitStatus(id, action.Successful)
			w.awaitGone(id.String())
			w.wantHistory(id, action.Queued, action.Running, action.Successful)
			events, err := w.Events(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			sources[events[len(events)-1].Source]++
		}
		return sources
	}
	stopFirst := w.observeAs("a", nil)
	w.awaitInstances(1)
	w.observeAs("b", nil) // it knows of the first when it divides
	w.awaitInstances(2)
	if sources := complete(); sources["caboose b"] == 0 || sources["caboose a"] == 0 {
		t.Errorf("ends recorded by %v, want both", sources)
	}
	stopFirst()
	if sources := complete(); sources["caboose b"] != workflows {
		t.Errorf("ends recorded by %v, want b alone", sources)
	}
}

func serverKilled(t *testing.T, w *world) {
	w.observe(nil)
	id := w.queued()
	w.set(id.String(), `{"phase": "Running", "startedAt": "2026-11-20T10:00:00Z"}`)
	w.awaitStatus(id, action.Running)
	w.testbed.Kill(t)
	w.testbed.Start(t)
	w.set(id.String(), `{"phase": "Failed", "startedAt": "2026-11-20T10:00:00Z", "finishedAt": "2026-11-20T10:00:01Z", "message": "no luck"}`)
	if state := w.awaitStatus(id, action.Failed); state.Error != "no luck" {
		t.Errorf("error %q", state.Error)
	}
	w.awaitGone(id.String())
	w.wantHistory(id, action.Queued, action.Running, action.Failed)
}
