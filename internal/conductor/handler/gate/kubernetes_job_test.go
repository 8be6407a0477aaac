package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// work returns the first attempt at a gate with these fields.
func work(gate string) conductor.Attempt {
	return conductor.Attempt{Action: action.Action{ID: action.RandomID(time.Now()), Parameters: []byte(`{"runId": "r", "namespace": "apps",
		"pipeline": "podinfo", "uid": "u", "run": 7, "environment": "prod", "op": "gate", "revision": "6.6.0", "gate": {"name": "smoke", ` + gate + `}}`)}}
}

const smoke = `"timeout": 60000000000, "job": {"metadata": {"name": "mine", "namespace": "others", "labels": {"a": "b", "waybill.dev/gate-action": "x"},
	"finalizers": ["a/b"]}, "spec": {"ttlSecondsAfterFinished": 77, "template": {}}, "status": {}}`

// A Job has the name of its action, and it may be created and deleted again.
func TestAJobIsCreatedAndDeletedOnce(t *testing.T) {
	t.Parallel()
	api := kubetest.Open(kubetest.Kind{GroupVersionResource: kube.Jobs(), Kind: "Job", Status: true, Unconditional: true})
	h, a := Job{Management: api.Cluster("waybill")}, work(smoke)
	jobs := api.Resource(kube.Jobs()).Namespace("apps")
	for range 2 {
		if o := h.Do(t.Context(), a); o.Kind != action.Done || o.Ref != "apps/"+a.Action.ID.String() {
			t.Fatalf("create: %+v", o)
		}
	}
	job, err := jobs.Get(t.Context(), a.Action.ID.String(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if labels := job.GetLabels(); labels["a"] != "b" || labels["waybill.dev/gate-action"] != a.Action.ID.String() ||
		len(job.GetFinalizers()) > 0 {
		t.Errorf("labels and finalizers: %v, %v", labels, job.GetFinalizers())
	}
	if ttl := job.Object["spec"].(map[string]any)["ttlSecondsAfterFinished"]; ttl != int64(77) && ttl != 77.0 {
		t.Errorf("ttlSecondsAfterFinished: %v, want the template's", ttl)
	}
	for range 2 {
		if o := h.Stop(t.Context(), a); o.Kind != action.Done {
			t.Fatalf("delete: %+v", o)
		}
	}
	if _, err := jobs.Get(t.Context(), a.Action.ID.String(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Job after its deletion: %v", err)
	}
}

// A refusal that lasts ends the gate; others are tried again.
func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	job := kube.Jobs().GroupResource()
	for name, c := range map[string]struct {
		err  error
		want action.OutcomeKind
	}{
		"forbidden":      {apierrors.NewForbidden(job, "x", errors.New("no right")), action.Throttle},
		"away":           {errors.New("connection refused"), action.Throttle},
		"invalid":        {apierrors.NewBadRequest("no containers"), action.Fatal},
		"no namespace":   {apierrors.NewNotFound(job, "apps"), action.Fatal},
		"too large":      {apierrors.NewRequestEntityTooLargeError("3 MiB"), action.Fatal},
		"busy":           {apierrors.NewTooManyRequests("wait", 3), action.Throttle},
		"internal error": {apierrors.NewInternalError(errors.New("etcd")), action.Throttle},
	} {
		api := kubetest.Open(kubetest.Kind{GroupVersionResource: kube.Jobs(), Kind: "Job"})
		api.Before(func(kubetest.Request) error { return c.err })
		h := Job{Management: api.Cluster("waybill")}
		if o := h.Do(t.Context(), work(smoke)); o.Kind != c.want || !strings.Contains(o.Error, "create the Job apps/") {
			t.Errorf("%s: create: %+v, want %s", name, o, c.want)
		}
		if apierrors.IsNotFound(c.err) {
			c.want = action.Done // nothing to delete
		}
		if o := h.Stop(t.Context(), work(smoke)); o.Kind != c.want {
			t.Errorf("%s: delete: %+v, want %s", name, o, c.want)
		}
	}
}

// An action of another kind of gate, which no version makes, fails.
func TestAGateOfAnotherKind(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]conductor.Handler{"http": Promotion{}, "job": Job{}, "cel": Expression{}} {
		if o := h.Do(t.Context(), work(`"timeout": 1`)); o.Kind != action.Fatal || !strings.Contains(o.Error, "has no gate") {
			t.Errorf("%s: %+v", name, o)
		}
		if o := h.Do(t.Context(), conductor.Attempt{Action: action.Action{Parameters: []byte(`[]`)}}); o.Kind != action.Fatal {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if o := (Expression{}).Do(t.Context(), work(`"cel": "true"`)); o.Kind != action.Done {
		t.Errorf("cel: %+v", o)
	}
}
