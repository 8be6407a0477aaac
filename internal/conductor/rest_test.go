//go:build services

package conductor_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestAConductorAtRestAsksOnceAHeartbeat counts statements (T9); `bench idle` counts them for
// minutes.
func TestAConductorAtRestAsksOnceAHeartbeat(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	d, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(d, ledger.Options{})
	t.Cleanup(func() { _ = l.Close() })
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(t.Context())) })
	if _, err := db.Exec(t.Context(), "CREATE EXTENSION pg_stat_statements"); err != nil {
		t.Fatal(err)
	}
	handlers := map[string]conductor.Handler{}
	for _, name := range []string{"a", "b", "c"} {
		handlers[name] = noop.Handler{}
	}
	c := conductor.New(l.NewWaiter(),
		conductor.Config{Instance: queue.Instance{Name: "test", Heartbeat: 50 * time.Millisecond}, Handlers: handlers})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	defer func() {
		stop()
		<-ended
	}()
	beatsUntil(t, db, l, 10)
	beats, others := statements(t, db)
	more, othersLater := beatsUntil(t, db, l, beats+40)
	// A measurement each 15 s takes five statements, and this machine may be slow.
	if asked := othersLater - others; asked > (more-beats)/5 {
		t.Errorf("%d statements beside %d heartbeats, want a few", asked, more-beats)
	}
}

// beatsUntil waits for so many heartbeats, and counts all statements as statements does.
func beatsUntil(t *testing.T, db *pgx.Conn, l *ledger.Ledger, n int) (beats, others int) {
	t.Helper()
	for view := l.NewWaiter(); ; {
		if beats, others = statements(t, db); beats >= n {
			return beats, others
		}
		if err := view.Wait(t.Context(), store.TopicEntry, time.Now().Add(100*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
}

// statements counts those of this database: heartbeats, and others but its own.
func statements(t *testing.T, db *pgx.Conn) (beats, others int) {
	t.Helper()
	err := db.QueryRow(t.Context(), `SELECT coalesce(sum(calls) FILTER (WHERE query LIKE 'WITH self AS (UPDATE instance%'), 0)::bigint,
			coalesce(sum(calls) FILTER (WHERE query NOT LIKE 'WITH self AS (%' AND query NOT LIKE '%pg_stat_statements%'), 0)::bigint
		FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database()`).Scan(&beats, &others)
	if err != nil {
		t.Fatal(err)
	}
	return beats, others
}
