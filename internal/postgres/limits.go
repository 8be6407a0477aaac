package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Rows of package queue: the limiters of lanes, and the slots that instances lease.

// limiterColumns are the columns of a limiter, in the order of scanLimiter.
const limiterColumns = `key, configured, burst, slots, slowed, slowed_at, tokens, refilled_at, window_at, ok, bad, peak,
	paused_by, pause_until, disabled_at, reason, span_us`

// scanLimiter reads limiterColumns.
func scanLimiter(row pgx.Row) (r queue.LimiterRow, err error) {
	var span int64
	err = row.Scan(&r.Key, &r.Configured, &r.Burst, &r.Slots, &r.Slowed, timeOf{&r.SlowedAt}, &r.Tokens, timeOf{&r.RefilledAt},
		timeOf{&r.WindowAt}, &r.OK, &r.Bad, &r.Peak, &r.PausedBy, timeOf{&r.PauseUntil}, timeOf{&r.DisabledAt}, &r.Reason, &span)
	r.Window = action.Duration(time.Duration(span) * time.Microsecond)
	return r, err
}

// LockLimiters creates the limiters that are missing, then locks and reads all in the order of
// keys, which are sorted. One order of locks keeps two transactions from a deadlock.
func (t *tx) LockLimiters(keys []string) ([]queue.LimiterRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	const lock = "SELECT " + limiterColumns + " FROM limiter WHERE key = ANY ($1) ORDER BY key FOR UPDATE"
	found, err := query(t, scanLimiter, lock, keys)
	if err != nil || len(found) == len(keys) {
		return found, err
	}
	missing := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return slices.ContainsFunc(found, func(r queue.LimiterRow) bool { return r.Key == key })
	})
	if err := t.do("INSERT INTO limiter (key) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING", missing); err != nil {
		return nil, err
	}
	found, err = query(t, scanLimiter, lock, keys)
	if err == nil && len(found) < len(keys) { // another transaction dropped one in between
		err = store.ErrRace
	}
	return found, err
}

// Limiters reads without a lock, by key: all, or those that are slowed, paused or disabled.
func (t *tx) Limiters(troubled bool) ([]queue.LimiterRow, error) {
	condition := ""
	if troubled {
		condition = " WHERE slowed > 0 OR paused_by <> '' OR disabled_at IS NOT NULL"
	}
	return query(t, scanLimiter, "SELECT "+limiterColumns+" FROM limiter"+condition+" ORDER BY key")
}

// PutLimiters writes rows that exist.
func (t *tx) PutLimiters(rows []queue.LimiterRow) error {
	if len(rows) == 0 {
		return nil
	}
	type limiter = queue.LimiterRow
	return t.do(`UPDATE limiter l SET configured = n.configured, burst = n.burst, slots = n.slots, slowed = n.slowed, slowed_at = n.slowed_at,
			tokens = n.tokens, refilled_at = n.refilled_at, window_at = n.window_at, ok = n.ok, bad = n.bad, peak = n.peak,
			paused_by = n.paused_by, pause_until = n.pause_until, disabled_at = n.disabled_at, reason = n.reason, span_us = n.span_us
		FROM unnest($1::text[], $2::float8[], $3::int[], $4::int[], $5::float8[], $6::timestamptz[], $7::float8[], $8::timestamptz[],
			$9::timestamptz[], $10::int[], $11::int[], $12::float8[], $13::text[], $14::timestamptz[], $15::timestamptz[], $16::text[], $17::bigint[])
			AS n (`+limiterColumns+`)
		WHERE l.key = n.key`,
		column(rows, func(r limiter) string { return r.Key }),
		column(rows, func(r limiter) float64 { return r.Configured }),
		column(rows, func(r limiter) int32 { return int32(r.Burst) }),
		column(rows, func(r limiter) int32 { return int32(r.Slots) }),
		column(rows, func(r limiter) float64 { return r.Slowed }),
		column(rows, func(r limiter) pgtype.Timestamptz { return stamp(r.SlowedAt) }),
		column(rows, func(r limiter) float64 { return r.Tokens }),
		column(rows, func(r limiter) pgtype.Timestamptz { return stamp(r.RefilledAt) }),
		column(rows, func(r limiter) pgtype.Timestamptz { return stamp(r.WindowAt) }),
		column(rows, func(r limiter) int32 { return int32(r.OK) }),
		column(rows, func(r limiter) int32 { return int32(r.Bad) }),
		column(rows, func(r limiter) float64 { return r.Peak }),
		column(rows, func(r limiter) string { return r.PausedBy }),
		column(rows, func(r limiter) pgtype.Timestamptz { return stamp(r.PauseUntil) }),
		column(rows, func(r limiter) pgtype.Timestamptz { return stamp(r.DisabledAt) }),
		column(rows, func(r limiter) string { return r.Reason }),
		column(rows, func(r limiter) int64 { return time.Duration(r.Window).Microseconds() }))
}

// DeleteLimiters removes limiters. Foreign keys remove the slots that instances lease.
func (t *tx) DeleteLimiters(keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return t.do("DELETE FROM limiter WHERE key = ANY ($1)", keys)
}

// SlotLeases reads the slots that living instances lease; keys nil: of all limiters. A lease ends
// with its instance's row, by a foreign key.
func (t *tx) SlotLeases(keys []string, _ action.ID) ([]queue.SlotLeaseRow, error) {
	var f filter
	f.when(keys != nil, "key = ANY (?)", keys)
	return query(t, func(row pgx.Row) (h queue.SlotLeaseRow, err error) {
		err = row.Scan(&h.Key, idOf{&h.Instance}, &h.Slots, &h.Wanted)
		return h, err
	}, "SELECT key, instance_id, slots, wanted FROM limiter_hold"+f.where()+" ORDER BY key", f.arguments...)
}

// PutSlotLeases writes the slots that instances lease or want. A lease of nothing has no row.
func (t *tx) PutSlotLeases(rows []queue.SlotLeaseRow) error {
	none := func(h queue.SlotLeaseRow) bool { return h.SlotLease == (queue.SlotLease{}) }
	some := slices.DeleteFunc(slices.Clone(rows), none)
	nothing := slices.DeleteFunc(slices.Clone(rows), func(h queue.SlotLeaseRow) bool { return !none(h) })
	key := func(h queue.SlotLeaseRow) string { return h.Key }
	instance := func(h queue.SlotLeaseRow) pgtype.UUID { return uuid(h.Instance) }
	if len(nothing) > 0 {
		err := t.do(`DELETE FROM limiter_hold WHERE (key, instance_id) IN (SELECT * FROM unnest($1::text[], $2::uuid[]))`,
			column(nothing, key), column(nothing, instance))
		if err != nil {
			return err
		}
	}
	if len(some) == 0 {
		return nil
	}
	return t.do(`INSERT INTO limiter_hold (key, instance_id, slots, wanted) SELECT * FROM unnest($1::text[], $2::uuid[], $3::int[], $4::int[])
		ON CONFLICT (key, instance_id) DO UPDATE SET slots = excluded.slots, wanted = excluded.wanted`,
		column(some, key), column(some, instance),
		column(some, func(h queue.SlotLeaseRow) int32 { return int32(h.Slots) }),
		column(some, func(h queue.SlotLeaseRow) int32 { return int32(h.Wanted) }))
}
