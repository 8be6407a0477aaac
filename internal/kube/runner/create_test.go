package runner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/kube"
)

// full is a kind of object of which a namespace takes none until some requests were refused.
type full struct {
	dynamic.ResourceInterface
	refusals int
	with     error
}

var errQuota = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "thing", errors.New("exceeded quota: q, requested: things=1, used: things=0, limited: things=0"))

func (f *full) Create(_ context.Context, object *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string) (*unstructured.Unstructured, error) {
	if f.refusals--; f.refusals >= 0 {
		return nil, f.with
	}
	object.SetUID("uid")
	return object, nil
}

// TestAQuotaIsWaitedFor of pods and of Secrets.
func TestAQuotaIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, refusals := range map[string][2]int{"pods": {3, 0}, "Secrets": {0, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				sink := &recorder{}
				r := &Runner{Config: Config{Away: time.Minute}, pods: &full{refusals: refusals[0], with: errQuota}, secrets: &full{refusals: refusals[1], with: errQuota}}
				a := &podAttempt{runner: r, sink: sink, watched: map[string]bool{}, pod: manifest{Config: r.Config, name: "p", namespace: "builds"}}
				if err := a.create(t.Context()); err != nil || a.uid != "uid" || a.waits != "" {
					t.Errorf("%v, pod %q, which waits for %q", err, a.uid, a.waits)
				}
				if want := []string{"Quota: " + errQuota.Error()}; !slices.Equal(sink.notes, want) {
					t.Errorf("noted: %q, want %q", sink.notes, want)
				}
			})
		})
	}
}

// TestWhatIsTriedAgain when the cluster refuses to make a pod.
func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		again bool
	}{
		"server error":      {apierrors.NewInternalError(errors.New("no leader")), true},
		"too many requests": {apierrors.NewTooManyRequests("later", 1), true},
		"unknown account":   {apierrors.NewUnauthorized("Unauthorized"), true},
		"conflict":          {apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "q", errors.New("modified")), true},
		"no rights":         {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no")), false},
		"not a pod":         {apierrors.NewBadRequest("no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				r := &Runner{Config: Config{Away: time.Minute}, pods: &full{refusals: 3, with: c.err}, secrets: &full{}}
				a := &podAttempt{runner: r, sink: &recorder{}, watched: map[string]bool{}, pod: manifest{Config: r.Config, name: "p", namespace: "builds"}}
				if err := a.create(t.Context()); (err == nil) != c.again {
					t.Errorf("tried again: %t, want %t; %v", err == nil, c.again, err)
				}
			})
		})
	}
}

// TestWhatTheBeginningBears: a worker in the cluster begins its build while the API server is away for a moment.
func TestWhatTheBeginningBears(t *testing.T) {
	t.Parallel()
	inside := &Owner{Name: "worker", UID: "uid"}
	for name, c := range map[string]struct {
		owner *Owner
		err   error
		bears bool
	}{
		"server error":                 {inside, apierrors.NewInternalError(errors.New("no leader")), true},
		"no connection":                {inside, errors.New("connection refused"), true},
		"no rights":                    {inside, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no")), false},
		"unknown account":              {inside, apierrors.NewUnauthorized("Unauthorized"), false},
		"no connection, on a computer": {nil, errors.New("connection refused"), false},
		"quota, on a computer":         {nil, errQuota, true},
	} {
		r := &Runner{Config: Config{Owner: c.owner}, cluster: &kube.Cluster{Namespace: "builds"}, pods: &full{refusals: 1, with: c.err}}
		if problems := r.Check(t.Context(), []build.PlanStep{{Stage: "test", Name: "unit"}}); (len(problems) == 0) != c.bears {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// TestAPodSaysWhatItWaitsFor until it does not.
func TestAPodSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	a := &podAttempt{sink: &recorder{}, watched: map[string]bool{}}
	for _, look := range []struct {
		v     verdict
		began bool
		want  string
	}{
		{verdict{Outcome: wait, Text: "Unschedulable: 1 Insufficient cpu"}, false, "Unschedulable: 1 Insufficient cpu"},
		{verdict{Outcome: wait, Text: "ImagePull: not found", Patience: defaultPullDeadline}, false, "ImagePull: not found"},
		{verdict{}, false, ""},
		{verdict{Outcome: wait, Text: "the service ended"}, true, ""},
	} {
		if _, err := a.act(look.v, look.began, map[string]trouble{}); err != nil || a.waits != look.want {
			t.Errorf("%+v: it waits for %q, want %q; %v", look.v, a.waits, look.want, err)
		}
	}
}
