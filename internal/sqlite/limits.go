package sqlite

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: the limiters of lanes, and the slots that instances lease.

// limiterColumns are the columns of a limiter, in the order of scanLimiter.
const limiterColumns = `key, configured, burst, slots, slowed, slowed_at, tokens, refilled_at, window_at, ok, bad, peak,
	paused_by, pause_until, disabled_at, reason, span_us`

// scanLimiter reads limiterColumns.
func scanLimiter(s scanner) (r queue.LimiterRow, err error) {
	var span int64
	err = s.Scan(&r.Key, &r.Configured, &r.Burst, &r.Slots, &r.Slowed, moment{&r.SlowedAt}, &r.Tokens, moment{&r.RefilledAt},
		moment{&r.WindowAt}, &r.OK, &r.Bad, &r.Peak, &r.PausedBy, moment{&r.PauseUntil}, moment{&r.DisabledAt}, &r.Reason, &span)
	r.Window = action.Duration(time.Duration(span) * time.Microsecond)
	return r, err
}

// LockLimiters creates the limiters that are missing and reads all by key. It needs no lock: the
// transaction is the only one that writes.
func (t *tx) LockLimiters(keys []string) ([]queue.LimiterRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	wanted, err := list(keys)
	if err != nil {
		return nil, err
	}
	if _, err := t.exec(`INSERT INTO limiter (key) SELECT value FROM json_each(?) WHERE true ON CONFLICT DO NOTHING`, wanted); err != nil {
		return nil, err
	}
	return rows(t, scanLimiter, `SELECT `+limiterColumns+` FROM limiter WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key`, wanted)
}

// Limiters reads by key: all, or those that are slowed, paused or disabled.
func (t *tx) Limiters(troubled bool) ([]queue.LimiterRow, error) {
	if !troubled {
		return rows(t, scanLimiter, `SELECT `+limiterColumns+` FROM limiter ORDER BY key`)
	}
	return rows(t, scanLimiter, `SELECT `+limiterColumns+` FROM limiter INDEXED BY limiter_troubled
		WHERE slowed > 0 OR paused_by <> '' OR disabled_at IS NOT NULL ORDER BY key`)
}

// PutLimiters writes rows that exist.
func (t *tx) PutLimiters(limiters []queue.LimiterRow) error {
	for _, r := range limiters {
		_, err := t.exec(`UPDATE limiter SET configured = ?2, burst = ?3, slots = ?4, slowed = ?5, slowed_at = ?6, tokens = ?7, refilled_at = ?8,
			window_at = ?9, ok = ?10, bad = ?11, peak = ?12, paused_by = ?13, pause_until = ?14, disabled_at = ?15, reason = ?16, span_us = ?17 WHERE key = ?1`,
			r.Key, r.Configured, r.Burst, r.Slots, r.Slowed, micros(r.SlowedAt), r.Tokens, micros(r.RefilledAt),
			micros(r.WindowAt), r.OK, r.Bad, r.Peak, r.PausedBy, micros(r.PauseUntil), micros(r.DisabledAt), r.Reason,
			time.Duration(r.Window).Microseconds())
		if err != nil {
			return err
		}
	}
	return nil
}

// DeleteLimiters removes limiters. Foreign keys remove the slots that instances lease.
func (t *tx) DeleteLimiters(keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	unwanted, err := list(keys)
	if err == nil {
		_, err = t.exec(`DELETE FROM limiter WHERE key IN (SELECT value FROM json_each(?))`, unwanted)
	}
	return err
}

// SlotLeases reads the slots that are leased; keys nil: of all limiters. It removes leases of other
// processes first, which are dead: one process at a time runs roles on a file.
func (t *tx) SlotLeases(keys []string, self action.ID) ([]queue.SlotLeaseRow, error) {
	if !self.IsZero() {
		if _, err := t.exec(`DELETE FROM limiter_hold WHERE instance_id IS NOT ?`, id(self)); err != nil {
			return nil, err
		}
	}
	scan := func(s scanner) (h queue.SlotLeaseRow, err error) {
		err = s.Scan(&h.Key, ident{&h.Instance}, &h.Slots, &h.Wanted)
		return h, err
	}
	if keys == nil {
		return rows(t, scan, `SELECT key, instance_id, slots, wanted FROM limiter_hold ORDER BY key`)
	}
	wanted, err := list(keys)
	if err != nil {
		return nil, err
	}
	return rows(t, scan, `SELECT key, instance_id, slots, wanted FROM limiter_hold WHERE key IN (SELECT value FROM json_each(?))`, wanted)
}

// PutSlotLeases writes the slots that instances lease or want. A lease of nothing has no row.
func (t *tx) PutSlotLeases(holds []queue.SlotLeaseRow) error {
	for _, h := range holds {
		query := `INSERT INTO limiter_hold (key, instance_id, slots, wanted) VALUES (?1, ?2, ?3, ?4)
			ON CONFLICT DO UPDATE SET slots = excluded.slots, wanted = excluded.wanted`
		if h.SlotLease == (queue.SlotLease{}) {
			query = `DELETE FROM limiter_hold WHERE key = ?1 AND instance_id = ?2 AND ?3 = 0 AND ?4 = 0`
		}
		if _, err := t.exec(query, h.Key, id(h.Instance), h.Slots, h.Wanted); err != nil {
			return err
		}
	}
	return nil
}
