//go:build services

package postgres_test

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue"
)

// TestADumpIsRestoredAndCompleted: a dump that is made while the log is written is restored into a new database, where every action that
// it has is completed, and a stream of events resumes.
func TestADumpIsRestoredAndCompleted(t *testing.T) {
	t.Parallel()
	url, dump := pgtest.URL(t), filepath.Join(t.TempDir(), "waybill.dump")
	l := ledger.New(open(t, url), ledger.Options{})
	const before = 50
	for range before {
		enqueued(t, l)
	}
	done := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				enqueued(t, l)
			}
		}
	})
	run(t, "pg_dump", "--format=custom", "--file="+dump, url)
	close(done)
	writers.Wait()

	target := pgtest.URL(t)
	run(t, "pg_restore", "--exit-on-error", "--no-owner", "--dbname="+target, dump)
	restored := ledger.New(open(t, target), ledger.Options{})
	host := queue.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host", Handlers: []string{"noop"}, Heartbeat: time.Minute}
	if err := restored.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	from, err := restored.EventsEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	completed := 0
	var last action.ID
	for {
		turned, err := restored.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "noop", N: 100}})
		if err != nil {
			t.Fatal(err)
		}
		if len(turned.Claimed) == 0 {
			break
		}
		var ends []queue.Completion
		for _, c := range turned.Claimed {
			ends, last = append(ends, queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: action.Outcome{Kind: action.Done}}), c.ID
		}
		if _, err := restored.CompleteAndClaim(t.Context(), host, ends, nil); err != nil {
			t.Fatal(err)
		}
		completed += len(ends)
	}
	if completed < before {
		t.Errorf("%d actions were completed, want at least %d", completed, before)
	}
	recorded(t, restored, from, last)
}

// run runs a program of PostgreSQL.
func run(t *testing.T, name string, arguments ...string) {
	t.Helper()
	program, err := pgtest.Program(name)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, said)
	}
}
