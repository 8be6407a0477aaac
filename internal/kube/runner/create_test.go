package runner

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// errQuota is the answer for an object for which a namespace has no room.
var errQuota = apierrors.NewForbidden(
	schema.GroupResource{Resource: "things"},
	"thing",
	errors.New("exceeded quota: q, requested: things=1, used: things=0, limited: things=0"),
)

// refusing returns a cluster that refuses to make objects of a kind so many times.
func refusing(t *testing.T, refusals map[string]int, with error) *kubetest.API {
	t.Helper()
	api := kubetest.New(t)
	api.Before(func(r kubetest.Request) error {
		if r.Verb != "create" || refusals[r.Resource] == 0 {
			return nil
		}
		refusals[r.Resource]--
		return with
	})
	return api
}

// attemptAt returns an attempt at a step in a cluster.
func attemptAt(api *kubetest.API, sink build.Sink) *podAttempt {
	cluster := api.Cluster("builds")
	r := &Runner{
		Config:  Config{Away: time.Minute},
		cluster: cluster,
		pods:    cluster.Pods(),
		secrets: cluster.Secrets(),
		seen:    newPods(cluster.Pods(), cluster.Events(), ""),
	}
	return &podAttempt{
		runner:  r,
		sink:    sink,
		watched: map[string]bool{},
		pod:     manifest{Config: r.Config, name: "p", namespace: "builds"},
	}
}

// TestAQuotaIsWaitedFor of pods and of Secrets.
func TestAQuotaIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"pods", "secrets"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				sink := &recorder{}
				a := attemptAt(refusing(t, map[string]int{kind: 3}, errQuota), sink)
				if err := a.create(t.Context()); err != nil || a.waits != "" {
					t.Errorf("%v, the pod waits for %q", err, a.waits)
				}
				pod, err := a.runner.pods.Get(t.Context(), "p", metav1.GetOptions{})
				if err != nil || string(pod.GetUID()) != a.uid {
					t.Errorf("pod %q, want %v, %v", a.uid, pod, err)
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
				a := attemptAt(refusing(t, map[string]int{"pods": 3}, c.err), &recorder{})
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
		r := attemptAt(refusing(t, map[string]int{"pods": 1}, c.err), nil).runner
		r.Owner = c.owner
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
