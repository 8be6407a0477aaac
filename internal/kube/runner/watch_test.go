package runner

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// watched is a pod that a node has.
type watched struct {
	*podAttempt
	api   *kubetest.API
	notes *recorder
}

// newPod makes the pod.
func newPod(t *testing.T) *watched {
	t.Helper()
	w := &watched{api: kubetest.New(t), notes: &recorder{}}
	w.podAttempt = attemptAt(w.api, w.notes)
	if err := w.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	bind := []byte(`{"spec": {"nodeName": "node"}}`)
	if _, err := w.runner.pods.Patch(t.Context(), "p", types.MergePatchType, bind, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// newWatched makes the pod and follows it until the test ends.
func newWatched(t *testing.T) *watched {
	t.Helper()
	w := newPod(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.runner.seen.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// reports sets the pod's status, as kubelet does.
func (w *watched) reports(t *testing.T, status string) {
	t.Helper()
	patch := []byte(`{"status": ` + status + `}`)
	if _, err := w.runner.pods.Patch(t.Context(), "p", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Error(err)
	}
}

// observed begins to observe the pod. The context ends with the reason of the pod's end.
func (w *watched) observed(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	go w.observe(ctx, cancel)
	return ctx
}

// ends returns why the pod ended.
func (w *watched) ends(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

const bothEnded = `"containerStatuses": [{"name": "step", "state": {"terminated": {"exitCode": 143}}}, {"name": "results", "state": {"terminated": {"exitCode": 3}}}]`

// TestTheReasonOfAPodComesAfterItsEnd: kubelet ends the containers of a pod that it evicts, and
// reports why only then.
func TestTheReasonOfAPodComesAfterItsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ended bool
		late  time.Duration // delay of the reason; 0: it does not come
		want  string        // the error; "": the step has its exit status
	}{
		"evicted":                     {true, 5 * time.Second, "Evicted: low on disk"},
		"ended without a reason":      {true, 0, ""},
		"ended by itself in that way": {false, 5 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				shim := &fakeShim{stopped: make(chan struct{}), ended: c.ended}
				close(shim.stopped)
				w := newWatched(t)
				ctx := w.observed(t)
				w.reports(t, `{"phase": "Running", `+bothEnded+`}`)
				if err := w.await(ctx, (*pod).began); err != nil {
					t.Fatal(err)
				}
				if c.late > 0 {
					w.api.Hold()
					w.reports(t, `{"phase": "Failed", "reason": "Evicted", "message": "low on disk"}`)
					time.AfterFunc(c.late, w.api.Release)
				}
				end, reason, err := w.read(ctx, shim.serve(t))
				switch {
				case c.want != "" && (err == nil || err.Error() != c.want):
					t.Errorf("got %+v, %v, want %s", end, err, c.want)
				case c.want == "" && (err != nil || reason != "" || end.Code != 143):
					t.Errorf("got %+v, %q, %v", end, reason, err)
				}
			})
		})
	}
}

// TestAPodIsGoneHoweverItIsSeen: by its deletion, by a list after a watch that was away, or by a
// look at a pod that was never seen.
func TestAPodIsGoneHoweverItIsSeen(t *testing.T) {
	t.Parallel()
	now := int64(0)
	atOnce := metav1.DeleteOptions{GracePeriodSeconds: &now}
	for name, c := range map[string]struct {
		followed bool
		late     bool                // events are held back
		then     func(*kubetest.API) // called after the deletion
	}{
		"event":      {true, false, func(*kubetest.API) {}},
		"late event": {true, true, func(api *kubetest.API) { time.AfterFunc(time.Hour, api.Release) }},
		"list":       {true, true, (*kubetest.API).Forget},
		"never seen": {false, false, func(*kubetest.API) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				w := newPod(t)
				if c.followed {
					w = newWatched(t)
					if err := w.await(t.Context(), func(*pod) bool { return true }); err != nil {
						t.Fatal(err)
					}
				}
				ctx := w.observed(t)
				if c.late {
					w.api.Hold()
				}
				if err := w.runner.pods.Delete(t.Context(), "p", atOnce); err != nil {
					t.Fatal(err)
				}
				c.then(w.api)
				if err := w.ends(ctx); err == nil || err.Error() != "Deleted: the pod is gone" {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestARepeatedEventIsNotedOnce in the log of the step.
func TestARepeatedEventIsNotedOnce(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		w.runner.PullDeadline = time.Hour
		ctx := w.observed(t)
		w.reports(
			t,
			`{"containerStatuses": [{"name": "step", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]}`,
		)
		for range 3 {
			<-time.After(time.Minute)
			w.api.Repeat()
		}
		if err := w.ends(ctx); err == nil || err.Error() != "ImagePull: not found (for 1h0m0s)" {
			t.Errorf("got %v", err)
		}
		if len(w.notes.notes) != 1 {
			t.Errorf("noted %q", w.notes.notes)
		}
	})
}

// TestAPodIsRemovedWithoutItsNode after a time; another pod of its name stays.
func TestAPodIsRemovedWithoutItsNode(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w, began := newWatched(t), time.Now()
		if err := w.remove(t.Context(), forceAfter); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < forceAfter || took > forceAfter+time.Minute {
			t.Errorf("it took %s", took)
		}
		if _, err := w.runner.pods.Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the pod: %v", err)
		}
		first := w.uid
		if err := w.create(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := w.uid
		w.uid = first
		if err := w.remove(t.Context(), forceAfter); err != nil {
			t.Error(err)
		}
		if pod, err := w.runner.pods.Get(t.Context(), "p", metav1.GetOptions{}); err != nil ||
			string(pod.GetUID()) != second {
			t.Errorf("the other pod: %v, %v", pod, err)
		}
	})
}

// TestAPodThatStaysIsNamed: another client holds it.
func TestAPodThatStaysIsNamed(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		hold := []byte(`{"metadata": {"finalizers": ["waybill.dev/test"]}}`)
		if _, err := w.runner.pods.Patch(t.Context(), "p", types.MergePatchType, hold, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.remove(t.Context(), forceAfter); err == nil ||
			err.Error() != "delete pod p: it still exists after 3m0s" {
			t.Errorf("got %v", err)
		}
	})
}

// TestAnInterruptedWatchIsNoted, and the pod is followed when it works again.
func TestAnInterruptedWatchIsNoted(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		if err := w.await(t.Context(), func(*pod) bool { return true }); err != nil {
			t.Fatal(err)
		}
		ctx := w.observed(t)
		var away atomic.Bool
		away.Store(true)
		w.api.Before(func(r kubetest.Request) error {
			if away.Load() && r.Resource == "pods" && (r.Verb == "watch" || r.Verb == "list") {
				return errors.New("away")
			}
			return nil
		})
		w.api.Cut()
		<-time.After(time.Minute)
		away.Store(false)
		w.reports(t, `{"phase": "Failed", "reason": "Evicted", "message": "low on disk"}`)
		if err := w.ends(ctx); err == nil || err.Error() != "Evicted: low on disk" {
			t.Errorf("got %v", err)
		}
		if len(w.notes.notes) == 0 || !strings.HasPrefix(w.notes.notes[0], "watching pods was interrupted: ") {
			t.Errorf("noted %q", w.notes.notes)
		}
	})
}
