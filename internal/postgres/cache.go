package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: entries of the payload cache, dismissals and subscribers.

// noAnswer is the condition that the action of the existing entry c no longer answers, so that
// excluded may replace the entry. A job stops answering when it ended otherwise than well, when its
// version is older, or when its invalid_after has passed. An idempotency key stops answering at the
// age $9.
//
// An action that the statement cannot see yet was stored by a concurrent transaction, so it is live
// and answers.
const noAnswer = `c.scope = 'payload' AND EXISTS (SELECT FROM thread_done d WHERE d.id = c.action_id AND d.created_at = uuid_v7_time(c.action_id)
		AND (d.status NOT IN (5, 9) OR c.version < excluded.version OR c.invalid_after <= now()))
	OR c.scope = 'idempotency' AND c.created_at <= now() - $9::interval`

// PointCache points the keys of entries to their actions where no other action answers, and
// returns the keys that it pointed elsewhere. ON CONFLICT DO UPDATE locks every entry. The caller
// sorts entries by key and ORDER BY position keeps that order, so that two transactions do not
// deadlock.
func (t *tx) PointCache(entries []queue.CacheEntry, always bool) ([]action.ID, error) {
	return query(t, scanID, `INSERT INTO cache_entry AS c (key, scope, name, version, body_hash, action_id, created_at)
		SELECT key, scope, name, version, body, action, at
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::bytea[], $6::uuid[], $7::timestamptz[]) WITH ORDINALITY
			AS n (key, scope, name, version, body, action, at, position) ORDER BY position
		ON CONFLICT (key) DO UPDATE SET name = excluded.name, version = excluded.version, body_hash = excluded.body_hash,
			action_id = excluded.action_id, created_at = excluded.created_at, invalid_after = NULL
		WHERE $8 OR `+noAnswer+` RETURNING key`,
		column(entries, func(e queue.CacheEntry) pgtype.UUID { return uuid(e.Key) }),
		column(entries, func(e queue.CacheEntry) string { return string(e.Scope) }),
		column(entries, func(e queue.CacheEntry) string { return e.Name }),
		column(entries, func(e queue.CacheEntry) int32 { return int32(e.Version) }),
		column(entries, func(e queue.CacheEntry) []byte { return e.Body }),
		column(entries, func(e queue.CacheEntry) pgtype.UUID { return uuid(e.ActionID) }),
		column(entries, func(e queue.CacheEntry) pgtype.Timestamptz { return stamp(e.CreatedAt) }),
		always, pgtype.Interval{Microseconds: queue.IdempotencyAge.Microseconds(), Valid: true})
}

// cacheColumns are the columns of an entry, in the order of scanCache.
const cacheColumns = "key, scope, name, version, body_hash, action_id, invalid_after, created_at"

// scanCache reads cacheColumns.
func scanCache(row pgx.Row) (e queue.CacheEntry, err error) {
	var scope string
	err = row.Scan(idOf{&e.Key}, &scope, &e.Name, &e.Version, &e.Body, idOf{&e.ActionID}, timeOf{&e.InvalidAfter}, timeOf{&e.CreatedAt})
	e.Scope = queue.CacheScope(scope)
	return e, err
}

// CacheEntries reads by key where keys is not nil, of both scopes, else by query.
func (t *tx) CacheEntries(keys []action.ID, q queue.CacheQuery) ([]queue.CacheEntry, error) {
	if keys != nil {
		return query(t, scanCache, "SELECT "+cacheColumns+" FROM cache_entry WHERE key = ANY ($1)", uuids(keys))
	}
	f := filter{conditions: []string{"scope = 'payload'"}}
	f.when(q.Name != "", "name = ?", q.Name)
	f.when(!q.After.IsZero(), "key > ?", uuid(q.After))
	limited := f.limit(q.Limit)
	return query(t, scanCache, "SELECT "+cacheColumns+" FROM cache_entry"+f.where()+" ORDER BY key"+limited, f.arguments...)
}

// SetInvalidAfter writes the time of the entry under e.Key, where e.ActionID is zero or the entry's.
func (t *tx) SetInvalidAfter(e queue.CacheEntry) error {
	return t.do(`UPDATE cache_entry SET invalid_after = $1 WHERE key = $2 AND scope = 'payload' AND ($3::uuid IS NULL OR action_id = $3)`,
		stamp(e.InvalidAfter), uuid(e.Key), uuid(e.ActionID))
}

// InsertDismissal stores that a principal dismissed an action now, unless one has before.
func (t *tx) InsertDismissal(id action.ID, by string) error {
	return t.do("INSERT INTO dismissal (id, dismissed_at, dismissed_by) VALUES ($1, now(), $2) ON CONFLICT DO NOTHING", uuid(id), by)
}

// ForgetRequests deletes idempotency keys of before a moment, the oldest first, and returns how
// many.
func (t *tx) ForgetRequests(before time.Time, limit int) (int, error) {
	n, err := t.count(`DELETE FROM cache_entry WHERE key = ANY (ARRAY(SELECT key FROM cache_entry WHERE scope = 'idempotency' AND created_at < $1
		ORDER BY created_at LIMIT $2))`, before, limit)
	return int(n), err
}

// InsertSubscriber adds a subscriber to a live job.
func (t *tx) InsertSubscriber(job action.ID, s queue.Subscriber) error {
	return t.do(
		"INSERT INTO subscriber (action_id, id, success_uri, in_progress_uri, failed_uri, created_at) VALUES ($1, $2, $3, $4, $5, now())",
		uuid(job), uuid(s.ID), s.SuccessURI, s.InProgressURI, s.FailedURI)
}

// Subscribers reads the subscribers that were added to jobs, in the order of their ids.
func (t *tx) Subscribers(jobs []action.ID) (map[action.ID][]queue.Subscriber, error) {
	added := map[action.ID][]queue.Subscriber{}
	_, err := query(t, func(row pgx.Row) (job action.ID, err error) {
		var s queue.Subscriber
		err = row.Scan(idOf{&job}, idOf{&s.ID}, &s.SuccessURI, &s.InProgressURI, &s.FailedURI)
		added[job] = append(added[job], s)
		return job, err
	},
		"SELECT action_id, id, success_uri, in_progress_uri, failed_uri FROM subscriber WHERE action_id = ANY ($1) ORDER "+
			"BY action_id, id", uuids(jobs))
	return added, err
}

// DeleteSubscribers removes all that were added to jobs.
func (t *tx) DeleteSubscribers(jobs []action.ID) error {
	return t.do("DELETE FROM subscriber WHERE action_id = ANY ($1)", uuids(jobs))
}
