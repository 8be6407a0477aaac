package store_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

var (
	errAway  = errors.New("the database is away")
	errWrong = errors.New("wrong call")
)

// ledger runs transactions when it is open, and notes the calls of each.
type ledger struct {
	open chan struct{}
	away bool

	mu    sync.Mutex
	saved [][]string
}

func (l *ledger) run(_ context.Context, calls []string) error {
	<-l.open
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return errAway
	}
	for _, call := range calls {
		switch call {
		case "wrong":
			return errWrong
		case "panics":
			panic("nil row")
		}
	}
	l.saved = append(l.saved, append([]string(nil), calls...))
	return nil
}

// share has callers share transactions of a group of at most three, and returns their errors. The first call runs alone.
func share(ctx context.Context, l *ledger, calls ...string) map[string]error {
	g := store.NewGroup(store.GroupConfig[string]{Name: "store", Most: 3, AtOnce: 1, Weight: func(string) int { return 1 }, Run: l.run,
		Common: func(err error) bool { return errors.Is(err, errAway) }})
	answers := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(func() {
			err := g.Do(ctx, call)
			mu.Lock()
			defer mu.Unlock()
			answers[call] = err
		})
		synctest.Wait()
	}
	close(l.open)
	all.Wait()
	g.Close()
	return answers
}

// TestCallsShareTransactions while one runs; none waits for others to come.
func TestCallsShareTransactions(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		l := &ledger{open: make(chan struct{})}
		for call, err := range share(t.Context(), l, "a", "b", "c", "d", "e") {
			if err != nil {
				t.Errorf("%s: %v", call, err)
			}
		}
		if len(l.saved) != 3 || len(l.saved[0]) != 1 || len(l.saved[1]) != 3 || len(l.saved[2]) != 1 {
			t.Errorf("transactions: %v, want 1, 3 and 1 calls", l.saved)
		}
	})
}

// TestAFaultIsItsCallsAlone: the rest of its transaction is stored, and a panic does not end the process.
func TestAFaultIsItsCallsAlone(t *testing.T) {
	t.Parallel()
	for _, faulty := range []string{"wrong", "panics"} {
		bubbletest.Test(t, func(t *testing.T) {
			l := &ledger{open: make(chan struct{})}
			answers := share(t.Context(), l, "a", "b", faulty, "c")
			if err := answers[faulty]; err == nil || faulty == "panics" && !strings.Contains(err.Error(), "panicked: nil row") {
				t.Errorf("%s: %v", faulty, err)
			}
			for _, call := range []string{"a", "b", "c"} {
				if answers[call] != nil {
					t.Errorf("%s: %v", call, answers[call])
				}
			}
			if len(l.saved) != 3 {
				t.Errorf("transactions: %v, want a, b and c alone", l.saved)
			}
		})
	}
}

// TestADatabaseThatIsAwayAnswersAll with one attempt.
func TestADatabaseThatIsAwayAnswersAll(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		l := &ledger{open: make(chan struct{}), away: true}
		for call, err := range share(t.Context(), l, "a", "b", "c") {
			if !errors.Is(err, errAway) {
				t.Errorf("%s: %v", call, err)
			}
		}
	})
}

// TestAContextThatEndsLeavesTheOthers: its caller gets the cause; a context that had ended stores nothing.
func TestAContextThatEndsLeavesTheOthers(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		l := &ledger{open: make(chan struct{})}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errWrong)
		if err := share(ctx, l, "a")["a"]; !errors.Is(err, errWrong) || len(l.saved) > 0 {
			t.Errorf("got %v, and the transactions %v", err, l.saved)
		}
	})
}

// TestACallThatNoCallerWaitsForIsNotRun: its caller has an error, and may have it done elsewhere. One that is in a transaction may be done
// late.
func TestACallThatNoCallerWaitsForIsNotRun(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		l := &ledger{open: make(chan struct{})}
		g := store.NewGroup(store.GroupConfig[string]{Name: "store", Most: 3, AtOnce: 1, Weight: func(string) int { return 1 }, Run: l.run})
		var all sync.WaitGroup
		do := func(ctx context.Context, call string, want error) {
			all.Go(func() {
				if err := g.Do(ctx, call); !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", call, err, want)
				}
			})
			synctest.Wait()
		}
		left, leave := context.WithCancelCause(t.Context())
		do(left, "begun", errWrong)
		do(left, "waits", errWrong)
		do(t.Context(), "stays", nil)
		leave(errWrong)
		synctest.Wait()
		close(l.open)
		all.Wait()
		g.Close()
		if want := [][]string{{"begun"}, {"stays"}}; !reflect.DeepEqual(l.saved, want) {
			t.Errorf("transactions: %v, want %v", l.saved, want)
		}
	})
}

// TestACallWhoseCallerLeftIsNotRunAlone after the transaction that it shared has failed.
func TestACallWhoseCallerLeftIsNotRunAlone(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		left, leave := context.WithCancelCause(t.Context())
		var ran [][]string
		first := make(chan struct{})
		g := store.NewGroup(store.GroupConfig[string]{Name: "store", Most: 3, AtOnce: 1, Weight: func(string) int { return 1 },
			Common: func(error) bool { return false },
			Run: func(_ context.Context, calls []string) error {
				ran = append(ran, calls)
				if len(ran) == 1 {
					<-first
					return nil
				}
				if len(calls) > 1 {
					leave(errWrong)
					synctest.Wait()
					return errWrong
				}
				return nil
			}})
		var all sync.WaitGroup
		for _, c := range []struct {
			ctx  context.Context
			call string
			want error
		}{{t.Context(), "first", nil}, {left, "leaves", errWrong}, {t.Context(), "stays", nil}} {
			all.Go(func() {
				if err := g.Do(c.ctx, c.call); !errors.Is(err, c.want) {
					t.Errorf("%s: got %v, want %v", c.call, err, c.want)
				}
			})
			synctest.Wait()
		}
		close(first)
		all.Wait()
		g.Close()
		if want := [][]string{{"first"}, {"leaves", "stays"}, {"stays"}}; !reflect.DeepEqual(ran, want) {
			t.Errorf("transactions: %v, want %v", ran, want)
		}
	})
}

// TestNoCallWaitsLongerThanCallTimeout for a database that hangs.
func TestNoCallWaitsLongerThanCallTimeout(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		l := &ledger{open: make(chan struct{})}
		g := store.NewGroup(store.GroupConfig[string]{Name: "store", Most: 3, AtOnce: 1, Weight: func(string) int { return 1 }, Run: l.run})
		begun := time.Now()
		var all sync.WaitGroup
		for _, call := range []string{"a", "b"} {
			all.Go(func() {
				if err := g.Do(t.Context(), call); !fault.Is(err, fault.LedgerUnavailable) {
					t.Errorf("%s: got %v, want %s", call, err, fault.LedgerUnavailable)
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took != store.CallTimeout {
			t.Errorf("the calls waited %s", took)
		}
		close(l.open)
		g.Close()
	})
}
