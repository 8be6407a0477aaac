//go:build services

package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// enqueued stores an action and returns its id.
func enqueued(t *testing.T, l *ledger.Ledger) action.ID {
	t.Helper()
	made, err := l.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop"})
	if err != nil {
		t.Fatal(err)
	}
	return made[0].ID
}

// recorded reads the actions whose events come after a position, until the wanted one is among them. Transactions of other tests of the
// same server may delay it.
func recorded(t *testing.T, l *ledger.Ledger, after queue.EventPosition, wanted action.ID) (ids []action.ID, end queue.EventPosition) {
	t.Helper()
	end = after
	for patience := time.Now().Add(time.Minute); ; {
		events, err := l.EventsAfter(t.Context(), end, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			ids, end = append(ids, e.ActionID), e.Position
		}
		if slices.Contains(ids, wanted) || time.Now().After(patience) {
			return ids, end
		}
		if err := l.Wait(t.Context(), store.TopicAction, time.Now().Add(20*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNothingAppearsBehindAReader: what commits after a transaction that began before it waits for that one, and both are read.
func TestNothingAppearsBehindAReader(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	l := ledger.New(open(t, url), ledger.Options{})
	from, err := l.EventsEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slow := connect(t, url)
	lateID := action.DerivedID(time.Now(), t.Name())
	if _, err := slow.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(t.Context(), `INSERT INTO event (action_id, created_at, seq, status, attempt, spent, at, source)
		VALUES ($1, uuid_v7_time($1), 1, 3, 1, 0, now() - interval '1 hour', 'slow')`, lateID.String()); err != nil {
		t.Fatal(err)
	}
	quick := enqueued(t, l)
	early, err := l.EventsAfter(t.Context(), from, 1000)
	if err != nil || slices.ContainsFunc(early, func(e queue.RecordedEvent) bool { return e.ActionID == quick }) {
		t.Errorf("an event was read before an older transaction ended: %v, %v", early, err)
	}
	writer, err := l.OpenWriter(t.Context())
	if err != nil || writer.Since.IsZero() || writer.By == "" {
		t.Errorf("the open transaction is not named: %+v, %v", writer, err)
	}
	if _, err := slow.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if ids, _ := recorded(t, l, from, quick); !slices.Contains(ids, lateID) || !slices.Contains(ids, quick) {
		t.Errorf("read %v, want the late event of %s and that of %s", ids, lateID, quick)
	}
}

// TestARestoredClusterStartsANewEra: a cluster that counts its transactions from the beginning records behind what was recorded.
func TestARestoredClusterStartsANewEra(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	l := ledger.New(open(t, url), ledger.Options{})
	old := enqueued(t, l)
	execute(t, url, `INSERT INTO event (action_id, created_at, seq, status, attempt, spent, at, source, tx)
		SELECT id, created_at, 1, 3, 1, 0, now(), 'of another cluster', (1::bigint << 40) FROM action`)
	_, end := recorded(t, l, queue.EventPosition{}, old)
	if end.Tx >= 1<<40 {
		t.Fatalf("position %d is not reached yet, and was read", end.Tx)
	}
	for range 2 { // the second start changes nothing
		l = ledger.New(open(t, url), ledger.Options{})
	}
	quick := enqueued(t, l)
	ids, last := recorded(t, l, end, quick)
	if want := []action.ID{old, quick}; !slices.Equal(ids, want) {
		t.Errorf("read %v, want %v", ids, want)
	}
	if last.Tx>>48 != 1 {
		t.Errorf("the new event is of era %d, want 1", last.Tx>>48)
	}
}
