//go:build services

package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestReadersDelayNoQueue: while far more readers than there are connections for them read without an end, the instance
// lives, claims, ends and stores. The readers that find no room are refused, and may try again.
func TestReadersDelayNoQueue(t *testing.T) {
	t.Parallel()
	driver := open(t, pgtest.URL(t))
	l := ledger.New(driver, ledger.Options{})
	host := joined(t, l, "host-a", 0)
	read, done := make(chan struct{}), make(chan struct{})
	var readers sync.WaitGroup
	defer readers.Wait()
	defer close(done)
	for range 24 {
		readers.Go(func() {
			_ = driver.Read(context.Background(), store.ForReaders, func(store.Rows) error { // those that wait for a connection end with the driver
				select {
				case read <- struct{}{}:
				case <-done:
				}
				<-done
				return nil
			})
		})
	}
	for range 4 {
		<-read
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := l.Enqueue(ctx, action.Action{Kind: "job", Handler: "noop", Policy: action.DefaultPolicy()}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Pulse(ctx, host, true); err != nil {
			t.Fatal(err)
		}
		turned, err := l.CompleteAndClaim(ctx, host, nil, []queue.Want{{Lane: "noop", N: 1}})
		if err != nil || len(turned.Claimed) != 1 {
			t.Fatalf("claimed %d: %v", len(turned.Claimed), err)
		}
		cancel()
	}
}

// TestLongReadsAreEnded: the database itself ends what a reader waits for no longer.
func TestLongReadsAreEnded(t *testing.T) {
	t.Parallel()
	driver := open(t, pgtest.URL(t))
	var limits []string
	type run = func(context.Context, store.Use, func(store.Rows) error) error
	for _, as := range []struct {
		run run
		use store.Use
	}{{driver.Read, store.ForReaders}, {driver.Read, store.ForQueue}, {driver.Write, store.ForQueue}} {
		err := as.run(t.Context(), as.use, func(tx store.Rows) error {
			limit, err := tx.(interface {
				Setting(name string) (string, error)
			}).Setting("statement_timeout")
			limits = append(limits, limit)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if limits[0] != "8s" || limits[1] != "0" || limits[2] != "0" {
		t.Errorf("statement_timeout is %q for readers, for the queue's reads and writes", limits)
	}
}

// TestDeadInstancesLoseTheirConnections: an instance that is frozen in a transaction loses it, and its locks, to the instance
// that declares it dead.
func TestDeadInstancesLoseTheirConnections(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	l, other := ledger.New(open(t, url), ledger.Options{}), ledger.New(open(t, url), ledger.Options{})
	joined(t, l, "host-a", 200*time.Millisecond)
	watcher := joined(t, other, "host-b", 200*time.Millisecond)
	if _, err := l.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop", Policy: action.DefaultPolicy()}); err != nil {
		t.Fatal(err)
	}
	backend := connect(t, url) // one more of the frozen process, which the server would leave alone forever
	if _, err := backend.Exec(t.Context(), `SELECT set_config('application_name', application, false) FROM instance WHERE name = 'host-a';
		BEGIN; SELECT FROM thread FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	for alive := true; alive; {
		if _, err := other.Pulse(t.Context(), watcher, true); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Rescue(t.Context(), watcher.ID, nil); err != nil {
			t.Fatal(err)
		}
		instances, err := other.Instances(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		alive = len(instances) > 1
	}
	turned, err := other.CompleteAndClaim(t.Context(), watcher, nil, []queue.Want{{Lane: "noop", N: 1}})
	for err == nil && len(turned.Claimed) == 0 { // a connection takes a moment to end
		turned, err = other.CompleteAndClaim(t.Context(), watcher, nil, []queue.Want{{Lane: "noop", N: 1}})
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := backend.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("the frozen transaction was committed")
	}
	if _, err := l.Now(t.Context()); err != nil { // it connects again
		t.Error(err)
	}
}

// joined returns an instance that has joined, with so much time between its heartbeats.
func joined(t *testing.T, l *ledger.Ledger, name string, heartbeat time.Duration) queue.Instance {
	t.Helper()
	now, err := l.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host := queue.Instance{ID: action.DerivedID(now, t.Name(), name), Name: name, Heartbeat: heartbeat}
	if err := l.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	return host
}
