package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestRetentionTakesSmallPieces: no writer waits for more than a piece, and the room goes back to the disk,
// also in a file that was made without a way to.
func TestRetentionTakesSmallPieces(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"incremental", "none"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d, err := Open(t.Context(), filepath.Join(t.TempDir(), "waybill.db"))
			if err != nil {
				t.Fatal(err)
			}
			l := ledger.New(d, ledger.Options{})
			defer l.Close()
			if mode == "none" {
				pragma(t, d, "PRAGMA auto_vacuum = none")
				pragma(t, d, "VACUUM")
			}
			fill(t, l, 700)
			before := pragma(t, d, "PRAGMA page_count")
			bound := queue.LowestID(time.Now().AddDate(0, 0, -90))
			if n := d.retainOnce(t, bound); n == 0 || n > piece {
				t.Fatalf("the first piece has %d rows", n)
			}
			if err := d.Retain(t.Context(), bound.Time()); err != nil {
				t.Fatal(err)
			}
			if n := d.retainOnce(t, bound); n != 0 {
				t.Errorf("%d rows were left", n)
			}
			if after := pragma(t, d, "PRAGMA page_count"); after > before/4 {
				t.Errorf("the file had %d pages, and has %d", before, after)
			}
		})
	}
}

// fill stores actions of long ago that have ended.
func fill(t *testing.T, l *ledger.Ledger, n int) {
	t.Helper()
	var many []action.Action
	for i := range n {
		many = append(many, action.Action{ID: action.DerivedID(time.Now().AddDate(0, 0, -100), fmt.Sprint(i)), Kind: "job", Handler: "noop",
			Parameters: []byte(`"` + strings.Repeat("x", 2000) + `"`)})
	}
	if _, err := l.Enqueue(t.Context(), many...); err != nil {
		t.Fatal(err)
	}
	owner := queue.Instance{ID: action.DerivedID(time.Now(), "owner")}
	if err := l.Join(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	turned, err := l.CompleteAndClaim(t.Context(), owner, nil, []queue.Want{{Lane: "noop", N: n}})
	if err != nil {
		t.Fatal(err)
	}
	var ends []queue.Completion
	for _, c := range turned.Claimed {
		ends = append(ends, queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: action.Outcome{Kind: action.Done}})
	}
	if _, err := l.CompleteAndClaim(t.Context(), owner, ends, nil); err != nil {
		t.Fatal(err)
	}
}

func (d *Driver) retainOnce(t *testing.T, bound action.ID) (deleted int) {
	t.Helper()
	err := d.Write(t.Context(), store.ForQueue, func(x store.Rows) (err error) {
		deleted, err = x.(*tx).retain(bound[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return deleted
}

// pragma runs a pragma on the writer and returns its number, if it has one.
func pragma(t *testing.T, d *Driver, statement string) (value int) {
	t.Helper()
	conn, err := d.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { d.writer <- conn }()
	rows, err := conn.QueryContext(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestRetentionTakesWholeActions: whatever is between two pieces, an action has all of its history or is gone.
func TestRetentionTakesWholeActions(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "waybill.db"))
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(d, ledger.Options{})
	defer l.Close()
	fill(t, l, 300)
	err = d.Write(t.Context(), store.ForQueue, func(x store.Rows) error {
		t := x.(*tx)
		_, err := t.exec(
			`INSERT INTO cache_entry (key, scope, name, version, action_id, created_at) SELECT id, 'payload', 'p', 1, id, 1 FROM action`)
		if err == nil {
			_, err = t.exec(`INSERT INTO dismissal SELECT id, 1, 'ana' FROM action`)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pieces := 0
	for bound := queue.LowestID(time.Now().AddDate(0, 0, -90)); d.retainOnce(t, bound) > 0; pieces++ {
		left := pragma(t, d, "SELECT count(*) FROM action")
		for _, table := range []string{"thread_done", "cache_entry", "dismissal", "event WHERE status = 5"} {
			if n := pragma(t, d, "SELECT count(*) FROM "+table); n != left {
				t.Errorf("behind piece %d: %d actions, %d rows of %s", pieces, left, n, table)
			}
		}
	}
	if pieces < 2 {
		t.Errorf("%d pieces", pieces)
	}
}
