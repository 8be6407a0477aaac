package argo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/kube"
)

// apiServer has one workflow.
type apiServer struct {
	mu        sync.Mutex
	workflow  map[string]any
	conflicts int // so many writes conflict with another writer
	writes    int
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	refuse := func(code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d}`, reason, code)
	}
	switch {
	case r.URL.Path != "/apis/argoproj.io/v1alpha1/namespaces/flows/workflows/waiting":
		refuse(http.StatusNotFound, "NotFound")
		return
	case r.Method == http.MethodPut && s.conflicts > 0:
		s.conflicts--
		refuse(http.StatusConflict, "Conflict")
		return
	case r.Method == http.MethodPut:
		s.writes++
		s.workflow = nil
		if err := json.NewDecoder(r.Body).Decode(&s.workflow); err != nil {
			refuse(http.StatusBadRequest, "BadRequest")
			return
		}
	}
	_ = json.NewEncoder(w).Encode(s.workflow) // the client reports when it was cut off
}

// node returns one of the stored workflow.
func (s *apiServer) node(id string) map[string]any {
	node, _ := argo.Nodes(&unstructured.Unstructured{Object: s.workflow})[id].(map[string]any)
	return node
}

// suspended is the status of a workflow that waits at one node, and waited at another.
const suspended = `{"phase": "Running", "outputs": {"parameters": [{"name": "verdict", "value": "none"}, {"name": "n", "value": "1"}]}, "nodes": {
	"waiting": {"name": "waiting", "displayName": "waiting", "type": "Steps", "phase": "Running"},
	"waiting-1": {"name": "waiting[0].before", "displayName": "before", "type": "Suspend", "phase": "Succeeded"},
	"waiting-2": {"name": "waiting[1].approve", "displayName": "approve", "type": "Suspend", "phase": "Running", "progress": 2, "outputs": {"parameters": [
		{"name": "by", "valueFrom": {"supplied": {}}, "globalName": "verdict"},
		{"name": "size", "valueFrom": {"supplied": {}, "default": "7"}},
		{"name": "own", "value": "kept"}]}},
	"waiting-3": {"name": "waiting[1].twin", "displayName": "twin", "type": "Suspend", "phase": "Running"},
	"waiting-4": {"name": "waiting[2].twin", "displayName": "twin", "type": "Suspend", "phase": "Running"}}}`

// newResumer makes a handler whose parameters have these schemas, and the server that it talks to.
func newResumer(t *testing.T, schemas, status string) (*Resumer, *apiServer) {
	t.Helper()
	s := &apiServer{}
	object := `{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "waiting", "namespace": "flows", "resourceVersion": "1"}, "status": ` + status + `}`
	if err := json.Unmarshal([]byte(object), &s.workflow); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Read("server.yaml", []byte(`handlers: {wake: {type: argo, argoConf: {mode: resume}, parameters: `+schemas+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return NewResumer(&kube.Cluster{Interface: client, Namespace: "flows"}, blobs, c.Handlers["wake"]), s
}

var resumeID = action.ID{15: 7}

func (h *Resumer) try(t *testing.T, parameters string) action.Outcome {
	t.Helper()
	return h.Do(t.Context(), conductor.Attempt{Action: action.Action{ID: resumeID, Parameters: []byte(parameters)}})
}

func TestAWaitingWorkflowIsResumedOnce(t *testing.T) {
	t.Parallel()
	h, s := newResumer(t, "{by: {type: object, default: {name: ana}}}", suspended)
	s.conflicts = 2
	const parameters = `{"workflow": "waiting", "node": "approve"}`
	for range 2 { // the second time as after a crash
		if o := h.try(t, parameters); o.Kind != action.Done || o.Ref != "flows/waiting" {
			t.Fatalf("%+v", o)
		}
	}
	if s.writes != 1 {
		t.Errorf("%d writes", s.writes)
	}
	node := s.node("waiting-2")
	if at, _ := node["finishedAt"].(string); !strings.HasSuffix(at, "Z") {
		t.Errorf("finished at %q", at)
	}
	delete(node, "finishedAt")
	want := map[string]any{"name": "waiting[1].approve", "displayName": "approve", "type": "Suspend",
		"phase": "Succeeded", "progress": float64(2),
		"message": "resumed by action " + resumeID.String(), "outputs": map[string]any{"parameters": []any{
			map[string]any{"name": "by", "value": `{"name":"ana"}`, "globalName": "verdict"},
			map[string]any{"name": "size", "value": "7"},
			map[string]any{"name": "own", "value": "kept"}}}}
	if diff := cmp.Diff(want, node); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	global, _, err := unstructured.NestedSlice(s.workflow, "status", "outputs", "parameters")
	if diff := cmp.Diff([]any{map[string]any{"name": "n", "value": "1"},
		map[string]any{"name": "verdict", "value": `{"name":"ana"}`}}, global); err != nil || diff != "" {
		t.Errorf("%v, outputs of the workflow (-want +got):\n%s", err, diff)
	}
	if twin := s.node("waiting-3"); twin["phase"] != "Running" {
		t.Errorf("another node: %v", twin)
	}
}

// TestAResumedWorkflowMayBeGone: killed before it was recorded that the workflow was resumed, and
// by then that has ended, is archived and deleted.
func TestAResumedWorkflowMayBeGone(t *testing.T) {
	t.Parallel()
	workflow := action.NewID(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), [10]byte{9})
	parameters := `{"workflow": "` + workflow.String() + `", "node": "approve"}`
	resumed := `{"status": {"phase": "Succeeded", "nodes": {"a": {"type": "Suspend", "displayName": "approve", "phase": "Succeeded", "message": "resumed by action %s"}}}}`
	for name, c := range map[string]struct {
		archived string
		want     action.OutcomeKind
	}{
		"by this action":    {fmt.Sprintf(resumed, resumeID), action.Done},
		"by another one":    {fmt.Sprintf(resumed, workflow), action.Fatal},
		"at no node":        {`{"status": {"phase": "Failed"}}`, action.Fatal},
		"unreadable":        {`{`, action.Retry},
		"it never was here": {"", action.Fatal},
	} {
		h, _ := newResumer(t, "{}", suspended)
		if c.archived != "" {
			key := fmt.Sprintf("action/2026w47/%s/workflow.json", workflow)
			if _, _, _, err := h.archive.Put(t.Context(), key, strings.NewReader(c.archived)); err != nil {
				t.Fatal(err)
			}
		}
		if o := h.try(t, parameters); o.Kind != c.want || o.Ref != "flows/"+workflow.String() {
			t.Errorf("%s: %+v, want %s", name, o, c.want)
		}
	}
}

func TestAFullNameTellsNodesApart(t *testing.T) {
	t.Parallel()
	h, s := newResumer(t, "{}", suspended)
	o := h.try(t, `{"workflow": "waiting", "node": "waiting[2].twin"}`)
	if o.Kind != action.Done || s.node("waiting-4")["phase"] != "Succeeded" || s.node("waiting-3")["phase"] != "Running" {
		t.Errorf("%+v", o)
	}
}

func TestPackedNodesStayPacked(t *testing.T) {
	t.Parallel()
	h, s := newResumer(t, "{by: {type: string}}", suspended)
	w := &unstructured.Unstructured{Object: s.workflow}
	nodes := argo.Nodes(w)
	unstructured.RemoveNestedField(s.workflow, "status", "nodes")
	if err := unstructured.SetNestedField(s.workflow, "not yet", "status", "compressedNodes"); err != nil {
		t.Fatal(err)
	}
	if err := argo.SetNodes(w, nodes); err != nil {
		t.Fatal(err)
	}
	if o := h.try(t, `{"workflow": "waiting", "node": "approve", "by": "ana"}`); o.Kind != action.Done {
		t.Fatalf("%+v", o)
	}
	if node := s.node("waiting-2"); node["phase"] != "Succeeded" {
		t.Errorf("%v", node)
	}
	if _, plain, _ := unstructured.NestedFieldNoCopy(s.workflow, "status", "nodes"); plain {
		t.Error("the nodes are not packed any more")
	}
}

func TestWhatCannotBeResumedSaysWhy(t *testing.T) {
	t.Parallel()
	const approve, by = `{"workflow": "waiting", "node": "approve"}`, `{"workflow": "waiting", "node": "approve", "by": "ana", "own": "x"}`
	for name, c := range map[string]struct {
		schemas, status, parameters string
		want                        action.OutcomeKind
		why                         string
	}{
		"no workflow":     {"{}", suspended, `{"workflow": "other", "node": "approve"}`, action.Fatal, "flows/other"},
		"offloaded":       {"{}", `{"phase": "Running", "offloadNodeStatusVersion": "fnv:1"}`, approve, action.Fatal, "in a database"},
		"not there yet":   {"{}", `{}`, approve, action.Retry, `no suspended node is called "approve" yet`},
		"no suspend node": {"{}", suspended, `{"workflow": "waiting", "node": "waiting"}`, action.Retry, `no suspended node`},
		"ended":           {"{}", `{"phase": "Failed"}`, approve, action.Fatal, "it has ended: Failed"},
		"resumed before":  {"{}", suspended, `{"workflow": "waiting", "node": "before"}`, action.Fatal, "does not wait any more: Succeeded"},
		"several": {"{}", suspended, `{"workflow": "waiting", "node": "twin"}`, action.BadInput,
			`2 nodes called "twin" wait; name one in full, such as "waiting[1].twin"`},
		"an output missing": {"{}", suspended, approve, action.BadInput, `waits for the output "by"`},
		"an output more":    {"{by: {}, own: {}}", suspended, by, action.BadInput, `waits for no output own`},
		"no node named":     {"{}", suspended, `{"workflow": "waiting"}`, action.BadInput, `the parameter "node" is missing`},
		"a bad output":      {"{by: {enum: [bob]}, own: {}}", suspended, by, action.BadInput, "by: "},
	} {
		h, s := newResumer(t, c.schemas, c.status)
		o := h.try(t, c.parameters)
		if o.Kind != c.want || !strings.Contains(o.Error, c.why) || s.writes != 0 {
			t.Errorf("%s: got %+v after %d writes, want %s: %s", name, o, s.writes, c.want, c.why)
		}
	}
}
