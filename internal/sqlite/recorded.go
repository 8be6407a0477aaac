package sqlite

import "github.com/waybill-dev/waybill/internal/queue"

// Rows of package queue: the stream of all events, in the order in which they were recorded.

// position returns the recorded position of this transaction. The first call takes it.
func (t *tx) position() (int64, error) {
	if t.recorded != 0 {
		return t.recorded, nil
	}
	taken, _, err := row(t, scanPosition, `UPDATE meta SET tx = tx + 1 WHERE one = 1 RETURNING tx`)
	t.recorded = taken
	return taken, err
}

// scanPosition reads a column of positions.
func scanPosition(s scanner) (position int64, err error) {
	err = s.Scan(&position)
	return position, err
}

// EventsAfter reads the events of all actions after a position. One transaction writes at a time,
// so every visible event is final: none can appear before it later.
func (t *tx) EventsAfter(after queue.EventPosition, limit int) ([]queue.RecordedEvent, error) {
	scan := func(s scanner) (e queue.RecordedEvent, err error) {
		err = s.Scan(&e.Position.Tx, ident{&e.ActionID}, &e.Seq, &e.Status, &e.Attempt, &e.Spent, moment{&e.At}, &e.Source, moment{&e.Until},
			&e.Code, &e.Error, &e.Ref)
		e.Position.Action, e.Position.Seq = e.ActionID, e.Seq
		return e, err
	}
	return rows(t, scan, `SELECT tx, action_id, seq, status, attempt, spent, at, source, until, code, error, ref FROM event
			WHERE tx >= ?1 AND (tx, action_id, seq) > (?1, ?2, ?3)
		UNION ALL SELECT tx, id, 0, 1, 0, 0, enqueued_at, created_by, NULL, '', '', '' FROM action
			WHERE tx >= ?1 AND (tx, id, 0) > (?1, ?2, ?3)
		ORDER BY tx, action_id, seq LIMIT ?4`, after.Tx, after.Action[:], after.Seq, limit)
}

// EventsEnd returns the position of the next transaction that records something.
func (t *tx) EventsEnd() (int64, error) {
	last, _, err := row(t, scanPosition, `SELECT tx FROM meta`)
	return last + 1, err
}
