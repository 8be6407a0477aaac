package watch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/watch"
	"github.com/waybill-dev/waybill/internal/loop"
)

// bench runs a queue and notes its work, with the time since the start.
type bench struct {
	*watch.Queue[string]
	start time.Time
	done  context.CancelFunc

	mutex sync.Mutex
	notes []string
}

func (b *bench) note(format string, args ...any) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.notes = append(b.notes, fmt.Sprintf("%s ", time.Since(b.start))+fmt.Sprintf(format, args...))
}

// newBench runs a queue until the test ends.
func newBench(t *testing.T, workers int, handle func(ctx context.Context, name string) (time.Duration, error)) *bench {
	t.Helper()
	b := &bench{start: time.Now()}
	b.Queue = watch.NewQueue(
		watch.QueueConfig[string]{Workers: workers, Retry: loop.Backoff{First: time.Second, Most: 5 * time.Second, Even: true},
			Handle: func(ctx context.Context, name string) (time.Duration, error) {
				b.note("begin %s", name)
				return handle(ctx, name)
			},
			Failed: func(name string, err error, again time.Duration) { b.note("%s: %v, again in %s", name, err, again) },
		},
	)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(ctx)
	}()
	b.done = func() {
		cancel()
		<-ended
	}
	t.Cleanup(b.done)
	return b
}

func (b *bench) want(t *testing.T, want ...string) {
	t.Helper()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if diff := cmp.Diff(want, b.notes); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

// TestANameHasOneWorker: a name that is added while it is handled is handled once more, however often it was added.
func TestANameHasOneWorker(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		b := newBench(t, 3, func(context.Context, string) (time.Duration, error) {
			<-time.After(time.Second)
			return 0, nil
		})
		b.Add("a")
		b.Add("a")
		synctest.Wait()
		b.Add("a")
		b.Add("a")
		<-time.After(time.Minute)
		b.want(t, "0s begin a", "1s begin a")
	})
}

// TestFailuresArePaced: delays double up to the most and begin again after a success; a delay that
// the handler names counts for itself.
func TestFailuresArePaced(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		tries := 0
		b := newBench(t, 1, func(context.Context, string) (time.Duration, error) {
			switch tries++; tries {
			case 5:
				return time.Minute, errors.New("later")
			case 6, 8:
				return 0, nil
			}
			return 0, errors.New("away")
		})
		b.Add("a")
		<-time.After(time.Hour)
		b.Add("a")
		<-time.After(time.Hour)
		b.want(
			t,
			"0s begin a",
			"0s a: away, again in 1s",
			"1s begin a",
			"1s a: away, again in 2s",
			"3s begin a",
			"3s a: away, again in 4s",
			"7s begin a",
			"7s a: away, again in 5s",
			"12s begin a",
			"12s a: later, again in 1m0s",
			"1m12s begin a",
			"1h0m0s begin a",
			"1h0m0s a: away, again in 1s",
			"1h0m1s begin a",
		)
	})
}

// TestAFailedNameWaits however often it is added, until its object is gone.
func TestAFailedNameWaits(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		tries := 0
		b := newBench(t, 1, func(context.Context, string) (time.Duration, error) {
			if tries++; tries == 3 {
				return 0, nil
			}
			return time.Minute, errors.New("away")
		})
		b.Add("a")
		<-time.After(10 * time.Second)
		b.Add("a")
		<-time.After(time.Minute)
		b.Forget("a")
		b.Add("a")
		synctest.Wait()
		b.want(
			t,
			"0s begin a",
			"0s a: away, again in 1m0s",
			"1m0s begin a",
			"1m0s a: away, again in 1m0s",
			"1m10s begin a",
		)
	})
}

// TestAPanicIsAFailure of the name, which is handled again; no other name notices.
func TestAPanicIsAFailure(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		panics := true
		var handled []string
		b := newBench(t, 1, func(_ context.Context, name string) (time.Duration, error) {
			if name == "bad" && panics {
				panics = false
				panic("nil flow")
			}
			handled = append(handled, name)
			return 0, nil
		})
		b.Add("bad")
		b.Add("good")
		<-time.After(2 * time.Second)
		b.done()
		if want := []string{"good", "bad"}; !cmp.Equal(handled, want) {
			t.Errorf("handled %q, want %q", handled, want)
		}
		if all := fmt.Sprint(b.notes); !strings.Contains(all, "bad: panicked: nil flow\n") || !strings.Contains(all, "queue_test.go") {
			t.Errorf("the failure does not name the panic and its place: %s", all)
		}
	})
}

// TestAQueueEndsWithItsWork: work that is cut off has not failed, and names in line are left.
func TestAQueueEndsWithItsWork(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		b := newBench(t, 1, func(ctx context.Context, _ string) (time.Duration, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		b.Add("a")
		b.Add("b")
		synctest.Wait()
		b.done()
		b.want(t, "0s begin a")
	})
}

func TestMemoryIsKeptUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	var m watch.Memory[int]
	*m.Of("a")++
	*m.Of("a")++
	if got := *m.Of("a"); got != 2 || *m.Of("b") != 0 {
		t.Errorf("kept %d", got)
	}
	if got := m.Forget("a"); got == nil || *got != 2 || *m.Of("a") != 0 {
		t.Errorf("forgot %v", got)
	}
	if got := m.Forget("c"); got != nil {
		t.Errorf("forgot %v", got)
	}
}
