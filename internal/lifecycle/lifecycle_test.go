package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
)

// waits returns a role that runs until it is stopped, and notes the order in which that happens.
func waits(name string, order *[]string) Role {
	return Role{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		*order = append(*order, name)
		return context.Cause(ctx)
	}}
}

func TestRunStopsInReverseOrderWhenTheContextEnds(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var order []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- Run(ctx, waits("conductor", &order), waits("deployer", &order), waits("api", &order)) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("got %v, want none: the roles were stopped", err)
		}
		if diff := cmp.Diff([]string{"api", "deployer", "conductor"}, order); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRunDrainsAllWhenOneFails(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var order []string
		broken := errors.New("port in use")
		late := errors.New("could not flush")
		err := Run(t.Context(),
			waits("conductor", &order),
			Role{Name: "deployer", Run: func(ctx context.Context) error { <-ctx.Done(); return late }},
			Role{Name: "api", Run: func(context.Context) error { return broken }},
		)
		if !errors.Is(err, broken) || !errors.Is(err, late) {
			t.Errorf("got %v, want both errors", err)
		}
		if diff := cmp.Diff("deployer: could not flush\napi: port in use", err.Error()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"conductor"}, order); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRunEndsWhenARoleHasNothingMoreToDo(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var order []string
		err := Run(t.Context(), waits("conductor", &order), Role{Name: "ship", Run: func(context.Context) error { return nil }})
		if err != nil || len(order) != 1 {
			t.Errorf("got %v after stopping %v, want the conductor stopped and no error", err, order)
		}
	})
}

func TestSignalsDrainFirstAndExitThen(t *testing.T) {
	exited := make(chan int, 1)
	ctx, stop := signals(t.Context(), func(status int) { exited <- status })
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !fault.Is(cause, fault.Interrupted) || !errors.Is(cause, ErrTerminated) {
		t.Errorf("cause %v, want interrupted, by SIGTERM", cause)
	}
	if err := self.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := <-exited; status != fault.ExitInterrupted {
		t.Errorf("exit status %d, want %d", status, fault.ExitInterrupted)
	}
}

func TestStoppingSignalsTwiceIsHarmless(t *testing.T) {
	ctx, stop := signals(t.Context(), func(int) {})
	stop()
	stop()
	if ctx.Err() == nil {
		t.Error("the context lasts after stop")
	}
}

func TestTheHomeHasOneHolder(t *testing.T) {
	home := t.TempDir()
	first, err := Lock(home)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(home)
	held, ok := errors.AsType[*Held](err)
	if !ok || held.PID != os.Getpid() || held.Since.IsZero() || !fault.Is(err, fault.Unavailable) {
		t.Fatalf("got %v, want unavailable, held by this process", err)
	}
	if !strings.HasPrefix(held.Error(), "another Waybill (pid ") || !strings.HasSuffix(held.Error(), "runs the home "+home) {
		t.Errorf("text %q", held)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(home)
	if err != nil {
		t.Fatalf("after Unlock: %v", err)
	}
	again.Unlock()
}

func TestAHolderThatCannotBeReadIsUnknown(t *testing.T) {
	home := t.TempDir()
	lock, err := Lock(home)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := os.WriteFile(filepath.Join(home, LockFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Lock(home)
	if got, want := err.Error(), "another Waybill runs the home "+home; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLockingAMissingHomeSaysSo(t *testing.T) {
	home := filepath.Join(t.TempDir(), "gone")
	_, err := Lock(home)
	if err == nil || !strings.Contains(err.Error(), "lock the home "+home) || fault.HintOf(err) == "" {
		t.Errorf("got %v, hint %q", err, fault.HintOf(err))
	}
}

// TestARemovedLockFileIsTakenAgain: the holder notices, and one whose home was taken by then ends.
func TestARemovedLockFileIsTakenAgain(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	first, err := Lock(home)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, LockFile)
	if err := errors.Join(first.retake(), os.Remove(path), first.retake()); err != nil {
		t.Fatal(err)
	}
	if second, err := Lock(home); err == nil {
		t.Fatal("a second process has the home", second.Unlock())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := Lock(home)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Unlock() }()
	ended := make(chan error, 1)
	go func() { ended <- first.Keep(t.Context()) }()
	if err := <-ended; !fault.Is(err, fault.Unavailable) {
		t.Errorf("Keep: %v", err)
	}
}

// TestAKeptHomeShowsThatItsHolderRuns: one that does not keep it, as of an earlier version, is never taken for silent.
func TestAKeptHomeShowsThatItsHolderRuns(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if held := Holder(home); held != nil {
		t.Fatalf("a home that no process has: %+v", held)
	}
	lock, err := Lock(home)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	if held := Holder(home); held == nil || !held.Heard.IsZero() || held.Silent() {
		t.Errorf("before it was kept: %+v", held)
	}
	done, stop := context.WithCancel(t.Context())
	stop()
	if err := lock.Keep(done); err != nil {
		t.Fatal(err)
	}
	if held := Holder(home); held == nil || held.Heard.IsZero() || held.Silent() {
		t.Errorf("since it is kept: %+v", held)
	}
	path, past := filepath.Join(home, LockFile), time.Now().Add(-time.Hour).Truncate(time.Second)
	text := fmt.Sprintf(`{"pid":42,"since":%q,"kept":true}`, past.Add(-time.Hour).Format(time.RFC3339))
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, past, past)); err != nil {
		t.Fatal(err)
	}
	if held := Holder(home); held == nil || !held.Heard.Equal(past) || !held.Silent() ||
		!strings.Contains(held.Error(), "has not been heard from since") {
		t.Errorf("an hour after it was kept: %+v", held)
	}
	if err := lock.retake(); err != nil {
		t.Fatal(err)
	}
	if held := Holder(home); held == nil || held.Silent() {
		t.Errorf("kept again: %+v", held)
	}
}
