package results_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// begun returns a store of a build that runs, and a reader of it.
func begun(t *testing.T) (*results.Store, *results.Reader) {
	t.Helper()
	store, err := results.Create(filepath.Join(t.TempDir(), "1"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() }) // closed already, perhaps
	if err := store.Describe(results.Build{ID: "1", Plan: &build.Plan{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Update(0, build.Update{Status: build.Running, Timestamp: time.Now()}); err != nil {
		t.Fatal(err)
	}
	r, err := results.Open(store.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return store, r
}

func TestRemoveTakesTheResultsAlone(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"own folder": false, "folder with other files": true} {
		store, r := begun(t)
		if err := r.Remove(); !fault.Is(err, fault.Refused) {
			t.Errorf("%s: while a worker writes: %v", name, err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		note := filepath.Join(r.Dir(), "note")
		if other {
			if err := os.WriteFile(note, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Remove(); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(r.Dir())
		if other && (len(left) != 1 || left[0].Name() != "note") || !other && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
		if err := r.Remove(); err != nil { // as another process may at the same time
			t.Errorf("%s: once more: %v", name, err)
		}
	}
}

func TestCancelNotifiesAWorkerOnce(t *testing.T) {
	t.Parallel()
	_, r := begun(t)
	broken := errors.New("no such process")
	if err := r.Cancel(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want that of notify", err)
	}
	asked := 0
	notify := func() error { asked++; return nil }
	err := r.Cancel(func() error {
		if err := r.Cancel(notify); !fault.Is(err, fault.Refused) {
			t.Errorf("while it is being asked: %v", err)
		}
		return notify()
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Cancel(notify); !fault.Is(err, fault.Refused) || asked != 1 {
		t.Errorf("again: %v; asked %d times", err, asked)
	}
}

func TestWaitEndTellsALostBuildFromAnEndedOne(t *testing.T) {
	t.Parallel()
	store, r := begun(t)
	ended := make(chan error, 1)
	go func() {
		_, err := store.Update(0, build.Update{Status: build.Canceled, Timestamp: time.Now()})
		ended <- err
	}()
	final, err := r.WaitEnd(t.Context())
	if err := errors.Join(err, <-ended); err != nil || final == nil || final.Status != build.Canceled {
		t.Errorf("got %v, %v", final, err)
	}
	store, r = begun(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if final, err := r.WaitEnd(t.Context()); final != nil || err != nil {
		t.Errorf("without a worker: %v, %v", final, err)
	}
}

// TestAWorkerThatEndsMeanwhileHasNotLostItsBuild: it writes the end and dies while the status is read, which takes a while since it
// is large.
func TestAWorkerThatEndsMeanwhileHasNotLostItsBuild(t *testing.T) {
	t.Parallel()
	store, r := begun(t)
	path := filepath.Join(r.Dir(), "steps", "0", "status.json")
	running, err := os.ReadFile(path)
	if err := errors.Join(err, os.WriteFile(path, append(bytes.Repeat([]byte(" "), 8<<20), running...), 0o600)); err != nil {
		t.Fatal(err)
	}
	first, last := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		for {
			update, alive, err := r.State()
			switch {
			case err == nil && update.Status == build.Running && alive:
				select {
				case first <- struct{}{}:
				default:
				}
				continue
			case err == nil && update.Status != build.Completed:
				err = fmt.Errorf("got %+v, alive: %t", update, alive)
			}
			last <- err
			return
		}
	}()
	select {
	case <-first:
	case err := <-last:
		t.Fatal(err)
	}
	ended := bytes.ReplaceAll(running, []byte(build.Running), []byte(build.Completed))
	err = errors.Join(os.WriteFile(path+".new", ended, 0o600), os.Rename(path+".new", path), store.Close())
	if err := errors.Join(err, <-last); err != nil {
		t.Error(err)
	}
}
