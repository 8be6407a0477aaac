package caboose

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/action"
)

func workflow(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	w := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &w.Object); err != nil {
		t.Fatal(err)
	}
	return w
}

// packed returns a JSON text as Argo packs the status of many nodes.
func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

const nodes = `{
	"a": {"type": "Pod", "phase": "Failed", "displayName": "first", "message": "exit 1", "finishedAt": "2026-11-20T10:00:00Z"},
	"b": {"type": "Pod", "phase": "Error", "displayName": "last", "message": "OOMKilled", "finishedAt": "2026-11-20T10:00:09Z"},
	"c": {"type": "Pod", "phase": "Succeeded", "message": "fine", "finishedAt": "2026-11-20T10:00:10Z"},
	"d": {"type": "Steps", "phase": "Failed", "message": "child failed", "finishedAt": "2026-11-20T10:00:11Z"}}`

// collected returns a workflow's outputs without artifacts.
func collected(t *testing.T, full *unstructured.Unstructured) made {
	t.Helper()
	m, err := (&watcher{Caboose: &Caboose{}}).collect(t.Context(), action.ID{}, full, "")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOutcomesOfWorkflows(t *testing.T) {
	t.Parallel()
	times := `"startedAt": "2026-11-20T10:00:00Z", "finishedAt": "2026-11-20T10:01:00Z"`
	for name, c := range map[string]struct {
		workflow string
		want     action.OutcomeKind
		text     string
		output   string
	}{
		"no outputs": {`{"status": {"phase": "Succeeded"}}`, action.Done, "", `{}`},
		"outputs": {`{"status": {"phase": "Succeeded", "outputs": {"parameters": [{"name": "features", "value": "[{\"id\":1}]"},
			{"name": "n", "value": "7"}, {"name": "open", "value": "{"}, {"name": "none"}]}}}`,
			action.Done, "", `{"features":[{"id":1}],"n":"7","none":"","open":"{"}`},
		"outputs of the entry point": {`{"metadata": {"name": "w"}, "status": {"phase": "Succeeded", "nodes": {"w": {"outputs":
			{"parameters": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]}}, "x": {"outputs": {"parameters": [{"name": "c", "value": "3"}]}}},
			"outputs": {"parameters": [{"name": "b", "value": "global"}]}}}`, action.Done, "", `{"a":"1","b":"global"}`},
		"past its template's limit": {
			`{"status": {"phase": "Failed", "message": "late", "storedWorkflowTemplateSpec": {"activeDeadlineSeconds": 60}, ` + times + `}}`,
			action.Expired, "late", ""},
		"its own words": {`{"status": {"phase": "Error", "message": "no template"}}`, action.Fatal, "no template", ""},
		"no words":      {`{"status": {"phase": "Failed"}}`, action.Fatal, "the workflow ended as Failed without a message", ""},
		"the last pod": {`{"status": {"phase": "Failed", "message": "child failed", "nodes": ` + nodes + `}}`,
			action.Fatal, "last: OOMKilled", ""},
		"packed nodes": {`{"status": {"phase": "Failed", "compressedNodes": "` + packed(t, nodes) + `"}}`,
			action.Fatal, "last: OOMKilled", ""},
		"damaged nodes": {`{"status": {"phase": "Failed", "message": "m", "compressedNodes": "!"}}`, action.Fatal, "m", ""},
		"truncated nodes": {`{"status": {"phase": "Failed", "message": "m", "compressedNodes": "` +
			packed(t, nodes)[:40] + `"}}`, action.Fatal, "m", ""},
		"nodes elsewhere": {`{"status": {"phase": "Failed", "message": "m", "offloadNodeStatusVersion": "fnv:1"}}`, action.Fatal, "m", ""},
		"past its own limit": {`{"spec": {"activeDeadlineSeconds": 60}, "status": {"phase": "Failed", "message": "late", ` +
			times + `}}`, action.Expired, "late", ""},
		"within its limit": {`{"spec": {"activeDeadlineSeconds": 61}, "status": {"phase": "Failed", "message": "m", ` +
			times + `}}`, action.Fatal, "m", ""},
		"strange forms": {`{"spec": "x", "status": {"phase": "Failed", "message": 3, "nodes": [1], "outputs": "x"}}`,
			action.Fatal, "the workflow ended as Failed without a message", ""},
	} {
		full := workflow(t, c.workflow)
		o := outcomeOf(full, collected(t, full))
		if o.Kind != c.want || o.Error != c.text || string(o.Output) != c.output {
			t.Errorf("%s: got %s %q %s, want %s %q %s", name, o.Kind, o.Error, o.Output, c.want, c.text, c.output)
		}
	}
}

func TestSlimKeepsWhatIsLookedAt(t *testing.T) {
	t.Parallel()
	w := workflow(t, `{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
		"metadata": {"name": "x", "uid": "u", "finalizers": ["f"], "managedFields": [{}]},
		"spec": {"shutdown": "Terminate", "activeDeadlineSeconds": 5, "templates": [{}]},
		"status": {"phase": "Running", "startedAt": "2026-11-20T10:00:00Z", "nodes": {"a": {}}}}`)
	got, err := json.Marshal(slim(w).Object)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow","metadata":{"finalizers":["f"],"name":"x","uid":"u"},` +
		`"spec":{"activeDeadlineSeconds":5,"shutdown":"Terminate"},"status":{"phase":"Running","startedAt":"2026-11-20T10:00:00Z"}}`
	if string(got) != want {
		t.Errorf("kept %s\nwant %s", got, want)
	}
}

func TestProgressIsPerCent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "0/1": 0, "1/3": 33, "2/2": 100, "9/3": 100, "-1/3": 0, "1/0": 0, "x/3": 0, "1": 0} {
		w := workflow(t, `{"status": {"progress": "`+text+`"}}`)
		if got := progressOf(w); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestBigOutputsAreReferred(t *testing.T) {
	t.Parallel()
	const name = "019b8d99-6900-7000-8000-000000000002"
	w := workflow(t, `{"metadata": {"name": "`+name+`"}, "status": {"phase": "Succeeded", "outputs": {"parameters": [
		{"name": "big", "value": "`+strings.Repeat("x", 70_000)+`"}]}}}`)
	if o := outcomeOf(w, collected(t, w)); len(o.Output) < 70_000 || o.OutputRef != "action/2026w02/"+name+"/outputs.json" {
		t.Errorf("%d bytes to plan from, ref %q", len(o.Output), o.OutputRef)
	}
}
