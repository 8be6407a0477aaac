package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: received events.

// inboxKeys and inboxActions are the columns of rows, as arguments of a statement.
func inboxKeys(rows []queue.InboxRow) *array {
	return ids(rows, func(r *queue.InboxRow) action.ID { return r.Key })
}

func inboxActions(rows []queue.InboxRow) *array {
	return ids(rows, func(r *queue.InboxRow) action.ID { return r.ActionID })
}

// InsertInbox stores rows as received now, and returns the keys of those that were not there. ORDER BY keeps the order of the
// rows, so that two transactions do not deadlock.
func (t *tx) InsertInbox(rows []queue.InboxRow) ([]action.ID, error) {
	return query(t, scanID, `INSERT INTO inbox (key, action_id, received_at)
		SELECT key, action, now() FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS n (key, action, position) ORDER BY position
		ON CONFLICT DO NOTHING RETURNING key`, inboxKeys(rows), inboxActions(rows))
}

// UpdateInbox writes the actions of rows that exist.
func (t *tx) UpdateInbox(rows []queue.InboxRow) error {
	if len(rows) == 0 {
		return nil
	}
	return t.do(`UPDATE inbox i SET action_id = n.action FROM unnest($1::uuid[], $2::uuid[]) AS n (key, action) WHERE i.key = n.key`,
		inboxKeys(rows), inboxActions(rows))
}

// Inbox reads those rows that exist.
func (t *tx) Inbox(keys []action.ID) ([]queue.InboxRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return query(t, func(row pgx.Row) (r queue.InboxRow, err error) {
		err = row.Scan(idOf{&r.Key}, idOf{&r.ActionID})
		return r, err
	}, "SELECT key, action_id FROM inbox WHERE key = ANY ($1)", uuids(keys))
}

// ForgetInbox deletes rows of before a moment, the oldest first, and returns how many.
func (t *tx) ForgetInbox(before time.Time, limit int) (int, error) {
	n, err := t.count(`DELETE FROM inbox WHERE key = ANY (ARRAY(SELECT key FROM inbox WHERE received_at < $1
		ORDER BY received_at LIMIT $2))`, before, limit)
	return int(n), err
}

// CountKeys counts live actions whose unique key has a prefix that ends with a slash, at most limit. The
// character after the slash is 0.
func (t *tx) CountKeys(prefix string, limit int) (int, error) {
	counted, err := query(t, func(row pgx.Row) (n int, err error) { return n, row.Scan(&n) },
		`SELECT count(*)::int FROM (SELECT FROM thread WHERE unique_key LIKE 'event/%'
		AND unique_key COLLATE "C" > $1 AND unique_key COLLATE "C" < $2 LIMIT $3) n`, prefix, prefix[:len(prefix)-1]+"0", limit)
	if err != nil {
		return 0, err
	}
	return counted[0], nil
}
