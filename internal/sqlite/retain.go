package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Retention of package queue's rows, in pieces.

// piece is the number of rows that one transaction deletes, so that no other writer waits long for it.
const piece = 500

// Retain deletes actions that were created before a moment, in pieces, each in a transaction of its
// own, and returns their room to the disk. Live actions stay, whatever their age.
//
// Triggers refuse to delete history. Retain first records the bound below which they allow it.
func (d *Driver) Retain(ctx context.Context, before time.Time) error {
	bound := queue.LowestID(before)
	for {
		deleted := 0
		err := d.Write(ctx, store.ForQueue, func(t store.Rows) (err error) {
			deleted, err = t.(*tx).retain(bound[:])
			return err
		})
		if err != nil || deleted == 0 {
			return err
		}
		if err := d.shrink(ctx); err != nil {
			return err
		}
	}
}

// retain deletes about a piece: whole actions, each with its history, its end and what refers to
// it. An action that is larger than a piece is a piece of its own.
func (t *tx) retain(bound []byte) (deleted int, err error) {
	if _, err := t.exec(`UPDATE meta SET retained = ?1 WHERE retained < ?1`, bound); err != nil {
		return 0, err
	}
	const most = 5 // rows that an action has besides its events: itself, its end, a dismissal, two entries of the cache
	type old struct {
		id   action.ID
		rows int
	}
	found, err := rows(t, func(s scanner) (o old, err error) {
		err = s.Scan(ident{&o.id}, &o.rows)
		o.rows += most
		return o, err
	}, `SELECT a.id, (SELECT count(*) FROM event e WHERE e.action_id = a.id) FROM action a
		WHERE a.id < ? AND NOT EXISTS (SELECT 1 FROM thread t WHERE t.id = a.id) ORDER BY a.id LIMIT ?`, bound, piece/most)
	if err != nil {
		return 0, err
	}
	var gone []action.ID
	for room := piece; len(found) > 0 && (len(gone) == 0 || found[0].rows <= room); found = found[1:] {
		gone, room = append(gone, found[0].id), room-found[0].rows
	}
	for _, from := range []string{"event WHERE action_id", "thread_done WHERE id", "cache_entry WHERE action_id",
		"dismissal WHERE id", "action WHERE id"} {
		n, err := t.exec(`DELETE FROM `+from+` IN (`+listed+`)`, idList(gone))
		if deleted += n; err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// ForgetRequests deletes idempotency keys of before a moment, the oldest first, and returns how
// many.
func (t *tx) ForgetRequests(before time.Time, limit int) (int, error) {
	return t.exec(`DELETE FROM cache_entry WHERE key IN (SELECT key FROM cache_entry WHERE scope = 'idempotency' AND created_at < ?
		ORDER BY created_at LIMIT ?)`, micros(before), limit)
}

// shrink returns free pages to the disk. A file that an earlier version made cannot do that until
// it is rewritten as a whole, which shrink does once.
func (d *Driver) shrink(ctx context.Context) error {
	conn, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer func() { d.writer <- conn }()
	var mode int
	if err := conn.QueryRowContext(ctx, "PRAGMA auto_vacuum").Scan(&mode); err != nil {
		return d.explain("shrink", err)
	}
	statement := "PRAGMA incremental_vacuum"
	if mode == 0 {
		statement = "PRAGMA auto_vacuum = incremental; VACUUM"
	}
	return d.explain("shrink", drained(ctx, conn, statement))
}

// drained runs a statement that works as its rows are read.
func drained(ctx context.Context, conn *sql.Conn, statement string) error {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns the error
	for rows.Next() {                   // each row is a page
	}
	return rows.Err()
}

// Partitions returns nothing: a file has no partitions.
func (d *Driver) Partitions(context.Context, time.Time) (queue.Partitions, error) {
	return queue.Partitions{}, nil
}

// HasActions reports whether an action of a period exists, or one that still refers to a blob below
// a folder.
func (t *tx) HasActions(from, to time.Time, folder string) (bool, error) {
	low, high := queue.LowestID(from), queue.LowestID(to)
	held, _, err := row(t, func(s scanner) (yes bool, err error) {
		err = s.Scan(&yes)
		return yes, err
	}, `SELECT EXISTS (SELECT 1 FROM action WHERE id >= ? AND id < ?)
		OR EXISTS (SELECT 1 FROM action WHERE parameters_ref <> '' AND parameters_ref >= ? AND parameters_ref < ?)`, low[:],
		high[:], folder+"/", folder+"0")
	return held, err
}
