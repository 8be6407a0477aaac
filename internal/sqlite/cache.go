package sqlite

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: entries of the payload cache, dismissals and subscribers.

// noAnswer is the condition that the action of an existing entry no longer answers, so that
// excluded may replace the entry. A job stops answering when it ended otherwise than well, when its
// version is older, or when its invalid_after has passed. An idempotency key stops answering at the
// age of queue.IdempotencyAge.
const noAnswer = `c.scope = 'payload' AND EXISTS (SELECT 1 FROM thread_done d WHERE d.id = c.action_id
		AND (d.status NOT IN (5, 9) OR c.version < excluded.version OR c.invalid_after <= ?))
	OR c.scope = 'idempotency' AND c.created_at <= ?`

// PointCache points the keys of entries to their actions where no other action answers, and returns
// the keys that it pointed elsewhere. Looking and writing are one statement.
func (t *tx) PointCache(entries []queue.CacheEntry, always bool) ([]action.ID, error) {
	var pointed []action.ID
	for _, e := range entries {
		found, err := rows(t, scanID, `INSERT INTO cache_entry AS c (key, scope, name, version, body_hash, action_id, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET name = excluded.name, version = excluded.version, body_hash = excluded.body_hash,
				action_id = excluded.action_id, created_at = excluded.created_at, invalid_after = NULL
			WHERE ? OR `+noAnswer+` RETURNING key`,
			id(e.Key), e.Scope, e.Name, e.Version, e.Body, id(e.ActionID), micros(e.CreatedAt), always,
			micros(t.now), micros(t.now.Add(-queue.IdempotencyAge)))
		if err != nil {
			return nil, err
		}
		pointed = append(pointed, found...)
	}
	return pointed, nil
}

// cacheColumns are the columns of an entry, in the order of scanCache.
const cacheColumns = `key, scope, name, version, body_hash, action_id, invalid_after, created_at`

// scanCache reads cacheColumns.
func scanCache(s scanner) (e queue.CacheEntry, err error) {
	err = s.Scan(ident{&e.Key}, &e.Scope, &e.Name, &e.Version, &e.Body, ident{&e.ActionID}, moment{&e.InvalidAfter}, moment{&e.CreatedAt})
	return e, err
}

// CacheEntries reads by key where keys is not nil, of both scopes, else by query.
func (t *tx) CacheEntries(keys []action.ID, q queue.CacheQuery) ([]queue.CacheEntry, error) {
	if keys != nil {
		return rows(t, scanCache, `SELECT `+cacheColumns+` FROM cache_entry WHERE key IN (`+listed+`)`, idList(keys))
	}
	where, args := []string{`scope = 'payload'`}, []any{}
	if q.Name != "" {
		where, args = append(where, `name = ?`), append(args, q.Name)
	}
	if !q.After.IsZero() {
		where, args = append(where, `key > ?`), append(args, id(q.After))
	}
	return rows(t, scanCache, `SELECT `+cacheColumns+` FROM cache_entry WHERE `+strings.Join(where, ` AND `)+` ORDER BY key LIMIT ?`,
		append(args, limit(q.Limit))...)
}

// SetInvalidAfter writes the time of the entry under e.Key, where e.ActionID is zero or the
// entry's.
func (t *tx) SetInvalidAfter(e queue.CacheEntry) error {
	_, err := t.exec(`UPDATE cache_entry SET invalid_after = ?1 WHERE key = ?2 AND scope = 'payload' AND (?3 IS NULL OR action_id = ?3)`,
		micros(e.InvalidAfter), id(e.Key), id(e.ActionID))
	return err
}

// InsertDismissal stores that a principal dismissed an action now, unless one has before.
func (t *tx) InsertDismissal(i action.ID, by string) error {
	_, err := t.exec(`INSERT INTO dismissal (id, dismissed_at, dismissed_by) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		id(i), micros(t.now), by)
	return err
}

// InsertSubscriber adds a subscriber to a live job.
func (t *tx) InsertSubscriber(job action.ID, s queue.Subscriber) error {
	_, err := t.exec(`INSERT INTO subscriber (action_id, id, success_uri, in_progress_uri, failed_uri, created_at) VALUES (?, ?, ?, ?, ?, ?)`,
		id(job), id(s.ID), s.SuccessURI, s.InProgressURI, s.FailedURI, micros(t.now))
	return err
}

// Subscribers reads the subscribers that were added to jobs, in the order of their ids.
func (t *tx) Subscribers(jobs []action.ID) (map[action.ID][]queue.Subscriber, error) {
	added := map[action.ID][]queue.Subscriber{}
	_, err := rows(t, func(s scanner) (job action.ID, err error) {
		var one queue.Subscriber
		err = s.Scan(ident{&job}, ident{&one.ID}, &one.SuccessURI, &one.InProgressURI, &one.FailedURI)
		added[job] = append(added[job], one)
		return job, err
	}, `SELECT action_id, id, success_uri, in_progress_uri, failed_uri FROM subscriber WHERE action_id IN (`+listed+
		`) ORDER BY action_id, id`, idList(jobs))
	return added, err
}

// DeleteSubscribers removes all that were added to jobs.
func (t *tx) DeleteSubscribers(jobs []action.ID) error {
	_, err := t.exec(`DELETE FROM subscriber WHERE action_id IN (`+listed+`)`, idList(jobs))
	return err
}
