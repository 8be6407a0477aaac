package conductor_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
)

// TestADeferredCompletionIsTriedAgain: its work is not done again, and no other completion waits for
// it.
func TestADeferredCompletionIsTriedAgain(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var away atomic.Bool
		var runs atomic.Int64
		away.Store(true)
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { runs.Add(1); return done() })
		held := f.add(action.Action{Handler: "work"})
		f.mu.Lock()
		f.holds = func(id action.ID) bool { return id == held && away.Load() }
		f.mu.Unlock()
		add(f, 9, "work/a")
		settle(time.Minute)
		if got := f.count(action.Successful); got != 9 {
			t.Errorf("%d other actions are done, want 9", got)
		}
		away.Store(false)
		settle(2 * time.Second)
		if got := f.get(held).Status; got != action.Successful || runs.Load() != 10 {
			t.Errorf("the deferred action is %s after %d runs", got, runs.Load())
		}
		stop()
	})
}

// TestADeferredCompletionIsNotPutOffByOthers: while other ends keep being deferred, one that can be
// planned again is recorded.
func TestADeferredCompletionIsNotPutOffByOthers(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var away atomic.Bool
		away.Store(true)
		held := f.add(action.Action{Handler: "work"})
		f.mu.Lock()
		f.holds = func(id action.ID) bool { return id != held || away.Load() }
		f.mu.Unlock()
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { return done() })
		settle(100 * time.Millisecond)
		away.Store(false)
		for range 20 {
			f.add(action.Action{Handler: "work", Lane: "work/b"})
			settle(500 * time.Millisecond)
		}
		if got := f.get(held).Status; got != action.Successful {
			t.Errorf("the deferred action is %s after ten seconds", got)
		}
		f.mu.Lock()
		f.holds = nil
		f.mu.Unlock()
		stop()
	})
}

// TestADeferredCompletionKeepsNoProcessAlive: another instance gives the claim back later.
func TestADeferredCompletionKeepsNoProcessAlive(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.holds = func(action.ID) bool { return true }
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { return done() })
		f.add(action.Action{Handler: "work"})
		settle(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %s to end", took)
		}
	})
}

// fakeBlobs is a blob store that answers as a test wants.
type fakeBlobs struct {
	blob.Store
	get func(key string) (string, error)
}

func (s fakeBlobs) Get(_ context.Context, key string) (io.ReadCloser, int64, error) {
	text, err := s.get(key)
	return io.NopCloser(strings.NewReader(text)), int64(len(text)), err
}

// TestBigParametersAreFetched: the handler sees them as any others; while they cannot be had
// nothing is spent.
func TestBigParametersAreFetched(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var away atomic.Bool
		away.Store(true)
		var seen atomic.Value
		blobs := fakeBlobs{get: func(key string) (string, error) {
			switch {
			case key == "gone":
				return "", fault.New(fault.NotFound, "object %s not found", key)
			case away.Load():
				return "", errors.New("the store is away")
			}
			return `{"big": true}`, nil
		}}
		stop := run(t, f, func(_ context.Context, a conductor.Attempt) action.Outcome {
			seen.Store(string(a.Action.Parameters))
			return done()
		}, func(c *conductor.Config) { c.Blobs = blobs })
		big, gone := f.add(action.Action{Handler: "work", ParametersRef: "there"}), f.add(action.Action{Handler: "work", ParametersRef: "gone"})
		settle(time.Minute)
		if got := f.get(gone).outcomes; len(got) != 1 || got[0].Kind != action.Fatal || got[0].Code != "parameters_lost" {
			t.Errorf("parameters that are gone: %+v", got)
		}
		for _, o := range f.get(big).outcomes {
			if o.Kind != action.RetryAfter || o.Code != "parameters_unavailable" || o.At.IsZero() {
				t.Errorf("parameters that are away: %+v", o)
			}
		}
		away.Store(false)
		settle(10 * time.Minute)
		if f.get(big).Status != action.Successful || seen.Load() != `{"big": true}` {
			t.Errorf("%s with %v", f.get(big).Status, seen.Load())
		}
		stop()
	})
}
