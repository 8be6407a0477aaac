package promoter_test

import (
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestAHundredLooksAtAPipelineAtRestCauseNothing counts the effects of the process: calls of the Git host, reads included, Git's own
// operations, which are calls of the host too, writes to clusters and commits to the log. A resync is such a look.
func TestAHundredLooksAtAPipelineAtRestCauseNothing(t *testing.T) {
	t.Parallel()
	w := newFleetWorld(t)
	w.live()
	w.awaitBaseline()
	w.carry("6.1.0")
	w.wantEffects("6.1.0", "without a fault", effectsOfOne())
	w.awaitRest()
	w.lookAgain(10) // those of the last changes are among them
	var calls atomic.Int64
	w.mu.Lock()
	w.fault = func(http.Handler, http.ResponseWriter, *http.Request) bool {
		calls.Add(1)
		return false
	}
	l := w.line
	w.mu.Unlock()
	l.arm(0)
	w.lookAgain(100)
	made := slices.DeleteFunc(l.made(), func(call string) bool { return call == "share" }) // the conductor returns its share of a limit
	if len(made) > 0 || calls.Load() > 0 {
		t.Errorf("at rest the process made the effects %q, and %d calls of the host", made, calls.Load())
	}
	w.carry("6.2.0") // it still promotes, and is counted
	if len(l.made()) == 0 || calls.Load() == 0 {
		t.Errorf("a promotion made the effects %q, and %d calls of the host", l.made(), calls.Load())
	}
}

// awaitRest waits until no attempt is live.
func (w *fleetWorld) awaitRest() {
	w.t.Helper()
	log := w.ledger.NewWaiter()
	for deadline := time.Now().Add(patience); ; {
		live, err := w.ledger.Actions(w.t.Context(), queue.ActionQuery{LiveOnly: true, Limit: 1})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(live) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("still live: %+v", live)
		}
		_ = log.Wait(w.t.Context(), store.TopicAction, time.Now().Add(time.Second))
	}
}

// lookAgain has the process look at the pipeline n times, as its metadata change.
func (w *fleetWorld) lookAgain(n int) {
	w.t.Helper()
	w.mu.Lock()
	looks := w.looks
	w.mu.Unlock()
	objects, log := w.management.Resource(pipelines).Namespace("apps"), w.ledger.NewWaiter()
	for i := range n {
		one, err := objects.Get(w.t.Context(), "podinfo", metav1.GetOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		one.SetAnnotations(map[string]string{"look": strconv.Itoa(i)})
		before := looks()
		if _, err := objects.Update(w.t.Context(), one, metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); looks() == before; {
			if time.Now().After(deadline) {
				w.t.Fatalf("no look follows change %d", i)
			}
			_ = log.Wait(w.t.Context(), store.TopicPromotion, time.Now().Add(5*time.Millisecond))
		}
	}
}
