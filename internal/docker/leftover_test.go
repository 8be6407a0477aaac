package docker

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// leave puts a container, a network and a volume of a worker into the Engine.
func (e *fakeEngine) leave(name string, of labels) {
	e.containers["c-"+name] = &fakeContainer{made: container.CreateRequest{Config: &container.Config{Labels: of}}}
	e.others["networks"]["n-"+name] = of
	e.others["volumes"]["v-"+name] = of
}

// TestWhatAWorkerLeftIsRemovedByTheNext: and nothing of one that lives, or whose lock cannot be seen here.
func TestWhatAWorkerLeftIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e := newFakeEngine(t)
		dir := t.TempDir()
		killed, alive := newTestWorker(t, dir), newTestWorker(t, dir)
		e.leave("killed", killed.labels())
		e.leave("alive", alive.labels())
		e.leave("unlabeled", labels{labelInstance: alive.instance})
		if err := killed.lock.Close(); err != nil { // as when a process is killed
			t.Fatal(err)
		}
		r, remarks, err := NewRunner(t.Context(), e.Engine, Config{Workers: dir})
		if err != nil || len(remarks) != 0 {
			t.Fatal(remarks, err)
		}
		slices.Sort(e.removed)
		if diff := cmp.Diff([]string{"c-killed", "n-killed", "v-killed"}, e.removed); diff != "" {
			t.Error(diff)
		}
		if _, err := os.Stat(killed.lockOf(killed.id)); !os.IsNotExist(err) {
			t.Errorf("the lock of the worker that is gone: %v", err)
		}
		if _, err := os.Stat(alive.lockOf(alive.id)); err != nil {
			t.Errorf("the lock of the worker that lives: %v", err)
		}
		if _, err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatCannotBeRemovedIsARemark: the lock stays, so that the next worker tries again.
func TestWhatCannotBeRemovedIsARemark(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"DELETE /containers/c-killed", "DELETE /networks/n-killed", "DELETE /volumes/v-killed",
		"GET /containers/json", "GET /networks", "GET /volumes"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				e := newFakeEngine(t)
				dir := t.TempDir()
				killed := newTestWorker(t, dir)
				e.leave("killed", killed.labels())
				if err := killed.lock.Close(); err != nil {
					t.Fatal(err)
				}
				e.faults[call] = func(w http.ResponseWriter, _ *http.Request) bool {
					refuse(w, http.StatusInternalServerError, "the disk is full")
					return true
				}
				r, remarks, err := NewRunner(t.Context(), e.Engine, Config{Workers: dir})
				if err != nil || len(remarks) != 1 ||
					!strings.HasPrefix(
						remarks[0],
						"what an earlier build left in the Docker Engine is not removed: ",
					) ||
					!strings.Contains(remarks[0], "the disk is full") {
					t.Errorf("%q, %v", remarks, err)
				}
				if _, err := os.Stat(killed.lockOf(killed.id)); err != nil {
					t.Errorf("the lock: %v", err)
				}
				if _, err := r.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestGoneIsRemoved: an object that others have removed at the same time is not an error.
func TestGoneIsRemoved(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e := newFakeEngine(t)
		for _, call := range []string{"DELETE /networks/n-killed", "DELETE /volumes/v-killed", "DELETE /containers/c-killed"} {
			e.faults[call] = func(w http.ResponseWriter, _ *http.Request) bool {
				refuse(w, http.StatusNotFound, "not found")
				return true
			}
		}
		e.leave("killed", labels{labelInstance: "host/x"})
		if err := e.Sweep(t.Context(), "host"); err != nil {
			t.Error(err)
		}
	})
}

// TestASweepIsOfOneHost: a name that begins as another does is not that.
func TestASweepIsOfOneHost(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e := newFakeEngine(t)
		e.leave("ours", labels{labelInstance: "pod-1/a"})
		e.leave("longer", labels{labelInstance: "pod-11/a"})
		e.leave("other", labels{labelInstance: "pod-2/pod-1/a"})
		e.leave("none", labels{})
		if err := e.Sweep(t.Context(), "pod-1"); err != nil {
			t.Fatal(err)
		}
		slices.Sort(e.removed)
		if diff := cmp.Diff([]string{"c-ours", "n-ours", "v-ours"}, e.removed); diff != "" {
			t.Error(diff)
		}
		e.leave("ours", labels{labelInstance: "pod-1/a"})
		e.faults["DELETE /containers/c-ours"] = func(w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, http.StatusInternalServerError, "no")
			return true
		}
		e.removed = nil
		if err := e.Sweep(t.Context(), "pod-1"); err == nil || len(e.removed) != 2 {
			t.Errorf("after a container that stays: %v, removed %q", err, e.removed)
		}
	})
}
