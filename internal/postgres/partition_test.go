//go:build services

package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
)

func TestPartitionsStandAhead(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if err := open(t, url).Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := connect(t, url)
	for _, table := range []string{"action", "event", "thread_done"} {
		var covered bool
		err := db.QueryRow(t.Context(), `SELECT count(*) = 6 AND bool_or(relname = $1 || to_char(now() AT TIME ZONE 'UTC', '_IYYY"w"IW'))
			FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::regclass`, table).Scan(&covered)
		if err != nil || !covered {
			t.Errorf("%s: last week, this one and four ahead should be there (%v)", table, err)
		}
	}
}

// TestSpansFollowEachOther: whatever the span is changed to, every moment has one partition, and none has two.
func TestSpansFollowEachOther(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, span := range []postgres.Span{postgres.Week, postgres.Month, postgres.Day, postgres.Week} {
		d, err := postgres.Open(t.Context(), url, postgres.Options{Partition: span})
		if err != nil {
			t.Fatalf("%s: %v", span, err)
		}
		if err := d.Maintain(t.Context()); err != nil { // changes nothing
			t.Errorf("%s: %v", span, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		bounds := boundsOf(t, url, "action")
		for i, b := range bounds[1:] {
			if before := bounds[i]; before.to != b.from {
				t.Errorf("%s: after %+v comes %+v", span, before, b)
			}
		}
		if other := boundsOf(t, url, "event"); !slices.Equal(bounds, other) {
			t.Errorf("%s: action has %v, event %v", span, bounds, other)
		}
	}
	l := ledger.New(open(t, url), ledger.Options{})
	if _, err := l.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop"}); err != nil {
		t.Error(err)
	}
}

type bound struct{ from, to string }

func boundsOf(t *testing.T, url, table string) []bound {
	t.Helper()
	rows, err := connect(t, url).Query(t.Context(), `SELECT m[1], m[2] FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid,
		regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(.*)''\) TO \(''(.*)''\)') m WHERE i.inhparent = $1::regclass ORDER BY 1`,
		table)
	if err != nil {
		t.Fatal(err)
	}
	bounds, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b bound, err error) {
		err = row.Scan(&b.from, &b.to)
		return b, err
	})
	if err != nil || len(bounds) < 2 {
		t.Fatalf("%v, %v", bounds, err)
	}
	return bounds
}

func TestEnqueueNamesTheMissingPartition(t *testing.T) {
	t.Parallel()
	l := ledger.New(open(t, pgtest.URL(t)), ledger.Options{})
	far := time.Now().UTC().AddDate(0, 0, 100)
	_, err := l.Enqueue(t.Context(), action.Action{ID: action.DerivedID(far, "x"), Kind: "job", Handler: "noop"})
	if !fault.Is(err, fault.LedgerUnavailable) ||
		!strings.Contains(err.Error(), "no partition of the ledger covers "+far.Format(time.DateOnly)) {
		t.Errorf("got %v", err)
	}
}

// TestAMissingPartitionRefusesOnlyItsOwnAction: other callers share the transaction, and are not refused with it.
func TestAMissingPartitionRefusesOnlyItsOwnAction(t *testing.T) {
	t.Parallel()
	l := ledger.New(open(t, pgtest.URL(t)), ledger.Options{})
	long := time.Now().UTC().AddDate(0, 0, -200)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 40 {
				_, err := l.Tick(t.Context(), "nightly", long, action.Action{Kind: "job", Handler: "noop"})
				if !errors.Is(err, queue.ErrNoPartition) {
					t.Errorf("a tick of %s: got %v", long.Format(time.DateOnly), err)
				}
			}
		})
	}
	for range 16 {
		all.Go(func() {
			for range 40 {
				if _, err := l.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop"}); err != nil {
					t.Errorf("another caller: %v", err)
				}
			}
		})
	}
	all.Wait()
}

// TestDetachedPartitionsAreDropped: earlier versions detached a partition before they dropped it, and may have been killed in between.
func TestDetachedPartitionsAreDropped(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	d := open(t, url)
	from := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -200)
	past(t, url, from, from.AddDate(0, 0, 7))
	past(t, url, from.AddDate(0, 0, 7), from.AddDate(0, 0, 14))
	execute(t, url, "ALTER TABLE event DETACH PARTITION "+pastName("event", from))
	if err := d.Retain(t.Context(), time.Now().AddDate(0, 0, -90)); err != nil {
		t.Fatal(err)
	}
	var left int
	err := connect(t, url).QueryRow(t.Context(),
		"SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE '%'||$1", pastName("", from)).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d tables are left, %v", left, err)
	}
	if bounds := boundsOf(t, url, "action"); bounds[0].from < from.AddDate(0, 0, 14).Format(time.DateOnly) {
		t.Errorf("the oldest partition is %+v", bounds[0])
	}
}

func TestOneProcessRetains(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	from := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -400)
	first := open(t, url)
	for i := range 8 {
		past(t, url, from.AddDate(0, 0, 7*i), from.AddDate(0, 0, 7*i+7))
	}
	var all sync.WaitGroup
	for _, d := range []*postgres.Driver{first, open(t, url), open(t, url)} {
		all.Go(func() {
			if err := d.Retain(t.Context(), time.Now().AddDate(0, 0, -90)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(boundsOf(t, url, "thread_done")); n != 6 {
		t.Errorf("%d partitions are left, want 6", n)
	}
}

// past makes partitions for a period long ago.
func past(t *testing.T, url string, from, to time.Time) {
	t.Helper()
	for _, table := range []string{"action", "event", "thread_done"} {
		execute(t, url, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')", pastName(table, from), table,
			from.Format(time.RFC3339), to.Format(time.RFC3339)))
	}
}

func pastName(table string, from time.Time) string {
	year, week := from.ISOWeek()
	return fmt.Sprintf("%s_%04dw%02d", table, year, week)
}
