package sqlite

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: received events.

// InsertInbox stores rows as received now, and returns the keys of those that were not there.
func (t *tx) InsertInbox(all []queue.InboxRow) (inserted []action.ID, err error) {
	for _, r := range all {
		n, err := t.exec(`INSERT INTO inbox (key, action_id, received_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			id(r.Key), id(r.ActionID), micros(t.now))
		if err != nil {
			return nil, err
		}
		if n > 0 {
			inserted = append(inserted, r.Key)
		}
	}
	return inserted, nil
}

// UpdateInbox writes the actions of rows that exist.
func (t *tx) UpdateInbox(all []queue.InboxRow) error {
	args := make([][]any, len(all))
	for i, r := range all {
		args[i] = []any{id(r.ActionID), id(r.Key)}
	}
	return t.each(`UPDATE inbox SET action_id = ? WHERE key = ?`, args)
}

// Inbox reads those rows that exist.
func (t *tx) Inbox(keys []action.ID) ([]queue.InboxRow, error) {
	return rows(t, func(s scanner) (r queue.InboxRow, err error) {
		err = s.Scan(ident{&r.Key}, ident{&r.ActionID})
		return r, err
	}, `SELECT key, action_id FROM inbox WHERE key IN (`+listed+`)`, idList(keys))
}

// ForgetInbox deletes rows of before a moment, the oldest first, and returns how many.
func (t *tx) ForgetInbox(before time.Time, limit int) (int, error) {
	return t.exec(`DELETE FROM inbox WHERE key IN (SELECT key FROM inbox WHERE received_at < ? ORDER BY received_at LIMIT ?)`,
		micros(before), limit)
}

// CountKeys counts live actions whose unique key has a prefix that ends with a slash, at most limit. The
// character after the slash is 0.
func (t *tx) CountKeys(prefix string, limit int) (int, error) {
	n, _, err := row(t, func(s scanner) (n int, err error) { return n, s.Scan(&n) },
		`SELECT count(*) FROM (SELECT 1 FROM thread WHERE unique_key > ? AND unique_key < ? LIMIT ?)`,
		prefix, prefix[:len(prefix)-1]+"0", limit)
	return n, err
}
