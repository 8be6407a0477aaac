package argo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/kube"
)

// answers is an API server that answers requests by method with a status; 0 breaks the connection,
// absent is a success.
type answers struct {
	byMethod map[string]int
	reason   string         // reason of the status
	message  string         // message of the status
	sent     map[string]any // the body of the last request that had one
	path     string         // path of the message
}

func (s *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
		s.sent, s.path = nil, r.URL.Path
		if err := json.Unmarshal(body, &s.sent); err != nil {
			panic(err)
		}
	}
	code, wrong := s.byMethod[r.Method]
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !wrong:
		fmt.Fprint(w, `{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "it"}}`)
	case code == 0:
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(code)
		fmt.Fprintf(w,
			`{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": %d, "reason": %q, "message": %q, "details": {"retryAfterSeconds": 7}}`,
			code, s.reason, s.message)
	}
}

// newHandler makes a handler whose cluster is s.
func newHandler(t *testing.T, s *answers, cfg Config) *Handler {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Cluster = &kube.Cluster{Interface: client, Namespace: "flows"}
	return New(cfg)
}

var workflowID = action.NewID(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), [10]byte{8})

func toCreate(parameters string) conductor.Attempt {
	return conductor.Attempt{Action: action.Action{ID: workflowID, Kind: "action", Name: "argo", Handler: "argo",
		Parameters: []byte(parameters)}}
}

const mirror = `{"template": "workflowtemplate/mirror"}`

// TestAnswersToTheCreationAreJudged has one case for each way in which the cluster answers.
func TestAnswersToTheCreationAreJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, reason, message string
		status                  int
		want                    action.OutcomeKind
		code                    string
	}{
		"created":       {"", "", "", 0, action.Done, ""},
		"there already": {"POST", "AlreadyExists", `workflows "it" already exists`, 409, action.Done, ""},
		"exceeded quota": {"POST", "Forbidden",
			"exceeded quota: flows, requested: count/workflows.argoproj.io=1", 403, action.Throttle, "403"},
		"forbidden":                   {"POST", "Forbidden", "no", 403, action.Throttle, "403"},
		"unauthorized":                {"POST", "Unauthorized", "no", 401, action.Throttle, "401"},
		"too many requests":           {"POST", "TooManyRequests", "slow down", 429, action.Throttle, "429"},
		"broken":                      {"POST", "InternalError", "etcd", 500, action.Throttle, "500"},
		"unavailable":                 {"POST", "ServiceUnavailable", "later", 503, action.Throttle, "503"},
		"a proxy without its server":  {"POST", "", "", 502, action.Throttle, "502"},
		"late":                        {"POST", "Timeout", "late", 504, action.Throttle, "504"},
		"invalid":                     {"POST", "Invalid", "spec is wrong", 422, action.BadInput, "422"},
		"no namespace":                {"POST", "NotFound", "no namespace", 404, action.Retry, "404"},
		"no connection":               {"POST", "", "", 0, action.Throttle, "unreachable"},
		"no template":                 {"GET", "NotFound", "no template", 404, action.Fatal, "404"},
		"templates are not to be got": {"GET", "Forbidden", "no", 403, action.Throttle, "403"},
		"templates are away":          {"GET", "ServiceUnavailable", "later", 503, action.Throttle, "503"},
	} {
		s := &answers{reason: c.reason, message: c.message, byMethod: map[string]int{}}
		if c.method != "" {
			s.byMethod[c.method] = c.status
		}
		before := time.Now()
		o := newHandler(t, s, Config{}).Do(t.Context(), toCreate(mirror))
		if o.Kind != c.want || o.Code != c.code || o.Ref != "flows/"+workflowID.String() ||
			o.Kind != action.Done && !strings.Contains(o.Error, c.message) {
			t.Errorf("%s: %+v, want %s %s", name, o, c.want, c.code)
		}
		if c.status == 429 && (o.At.Before(before.Add(7*time.Second)) || o.At.After(time.Now().Add(7*time.Second))) {
			t.Errorf("%s: not before %s, want in seven seconds", name, o.At.Sub(before))
		}
	}
}

func TestAWorkflowIsMadeAsTheActionSays(t *testing.T) {
	t.Parallel()
	const everything = `{"template": "clusterworkflowtemplate/mirror", "serviceAccount": "mirror", "labels": {"team": "web"},
		"annotations": {"note": "a"}, "parameters": {"zone": "north", "count": 3, "features": [{"id": "a"}]}}`
	id := workflowID.String()
	for name, c := range map[string]struct {
		cfg        Config
		parameters string
		want       string
	}{
		"all of it": {Config{InstanceID: "second"}, everything, `{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
			"metadata": {"name": "` + id + `", "annotations": {"note": "a"}, "finalizers": ["waybill.dev/archive"],
				"labels": {"team": "web", "waybill.dev/action": "` + id + `", "workflows.argoproj.io/controller-instanceid": "second"}},
			"spec": {"workflowTemplateRef": {"name": "mirror", "clusterScope": true}, "serviceAccountName": "mirror", "arguments": {"parameters": [
				{"name": "count", "value": "3"}, {"name": "features", "value": "[{\"id\": \"a\"}]"}, {"name": "zone", "value": "north"}]}}}`},
		"the least": {Config{NoFinalizer: true}, mirror, `{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
			"metadata": {"name": "` + id + `", "labels": {"waybill.dev/action": "` + id + `"}},
			"spec": {"workflowTemplateRef": {"name": "mirror", "clusterScope": false}}}`},
	} {
		s := &answers{}
		if o := newHandler(t, s, c.cfg).Do(t.Context(), toCreate(c.parameters)); o.Kind != action.Done {
			t.Fatalf("%s: %+v", name, o)
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.sent); diff != "" || s.path != "/apis/argoproj.io/v1alpha1/namespaces/flows/workflows" {
			t.Errorf("%s: %s (-want +got):\n%s", name, s.path, diff)
		}
	}
}

func TestAWorkflowIsStoppedByItsName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		byMethod map[string]int
		want     action.OutcomeKind
	}{
		"asked to end": {nil, action.Done},
		"not there":    {map[string]int{"PATCH": 404}, action.Done},
		"not now":      {map[string]int{"PATCH": 503}, action.Throttle},
		"not allowed":  {map[string]int{"PATCH": 403}, action.Throttle},
	} {
		s := &answers{byMethod: c.byMethod}
		o := newHandler(t, s, Config{}).Stop(t.Context(), toCreate(mirror))
		if o.Kind != c.want || !strings.HasSuffix(s.path, "/namespaces/flows/workflows/"+workflowID.String()) {
			t.Errorf("%s: %+v by %s", name, o, s.path)
		}
		if diff := cmp.Diff(map[string]any{"spec": map[string]any{"shutdown": "Terminate"}}, s.sent); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPriorityIsPassedOn: Argo starts the higher number first, Waybill the lower one; the usual one
// is the template's business.
func TestPriorityIsPassedOn(t *testing.T) {
	t.Parallel()
	for priority, want := range map[int]any{0: 100.0, 10: 90.0, action.DefaultPriority: nil, 1000: -900.0} {
		s := &answers{}
		a := toCreate(mirror)
		a.Action.Priority = &priority
		if o := newHandler(t, s, Config{}).Do(t.Context(), a); o.Kind != action.Done {
			t.Fatalf("%d: %+v", priority, o)
		}
		if spec, _ := s.sent["spec"].(map[string]any); spec["priority"] != want {
			t.Errorf("priority %d became %v, want %v", priority, spec["priority"], want)
		}
	}
}
