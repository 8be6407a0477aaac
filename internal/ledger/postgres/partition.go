package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// Span is how much time one partition holds: an action, its history and its end lie in the one of the action's id.
type Span string

// The spans.
const (
	Day   Span = "day"
	Week  Span = "week" // of ISO 8601
	Month Span = "month"
)

// Spans lists them.
func Spans() []string { return []string{string(Day), string(Week), string(Month)} }

// partitioned are the tables that have partitions, each with the same ones.
var partitioned = []string{"action", "event", "thread_done"}

const (
	ahead  = 4  // partitions that stand ready beyond the one of now
	behind = 60 // partitions at most that are made for a time in which nobody ran, for what is caught up with
)

// start is the beginning of the period that a moment lies in, UTC.
func (s Span) start(at time.Time) time.Time {
	y, m, d := at.UTC().Date()
	switch s {
	case Day:
	case Month:
		d = 1
	default:
		d -= (int(at.UTC().Weekday()) + 6) % 7 // Monday
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// next is the beginning of the period after the one that begins at start, or back periods before it.
func (s Span) next(start time.Time, n int) time.Time {
	switch s {
	case Day:
		return start.AddDate(0, 0, n)
	case Month:
		return start.AddDate(0, n, 0)
	}
	return start.AddDate(0, 0, 7*n)
}

// name is what partitions of the period that a moment lies in are called, such as 2026w47.
func (s Span) name(at time.Time) string {
	switch s {
	case Day:
		return at.UTC().Format("20060102")
	case Month:
		return at.UTC().Format("2006m01")
	}
	year, week := s.start(at).ISOWeek()
	return fmt.Sprintf("%04dw%02d", year, week)
}

// part is one partition of a table.
type part struct {
	table, name string
	from, to    time.Time
	pending     bool // a detaching of it was interrupted
}

// parts lists the partitions that are attached, oldest first.
func parts(ctx context.Context, q querier) ([]part, error) {
	rows, err := q.Query(ctx, `SELECT p.relname, c.relname, i.inhdetachpending,
			(regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)'))[1]::timestamptz,
			(regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)'))[1]::timestamptz
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
		WHERE i.inhparent = ANY ($1::text[]::regclass[]) AND c.relkind = 'r' ORDER BY 4, 1`, partitioned)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p part, err error) {
		err = row.Scan(&p.table, &p.name, &p.pending, timeOf{&p.from}, timeOf{&p.to})
		return p, err
	})
}

// querier is a connection, a transaction or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Maintain makes the partitions of now and ahead, each as a plain table that is then attached, which takes a weaker
// lock than making it in place. There is no default partition: it would keep others from being detached. The first
// ever is that of the period before now, for ids that are a little older than their rows. When the span has changed
// the first new one is cut to begin where the last old one ends.
func (d *Driver) Maintain(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, d.writes, func(t pgx.Tx) error {
		var now time.Time
		if err := t.QueryRow(ctx, "SELECT now() FROM pg_advisory_xact_lock($1)", int64(partitionLock)).Scan(&now); err != nil {
			return err
		}
		there, err := parts(ctx, t)
		if err != nil {
			return err
		}
		for _, table := range partitioned {
			for _, p := range d.span.missing(table, there, now) {
				if err := p.create(ctx, t); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return coded(err)
}

// missing are the partitions that a table lacks at a moment.
func (s Span) missing(table string, there []part, now time.Time) []part {
	current := s.start(now)
	from, until := s.next(current, -1), s.next(current, ahead+1)
	for i, p := range slices.DeleteFunc(slices.Clone(there), func(p part) bool { return p.table != table }) {
		if i == 0 || p.to.After(from) {
			from = p.to // the newest one's end
		}
	}
	if earliest := s.next(current, -behind); from.Before(earliest) {
		from = earliest
	}
	var parts []part
	for from.Before(until) {
		to := s.next(s.start(from), 1)
		parts = append(parts, part{table: table, name: table + "_" + s.name(from), from: from, to: to})
		from = to
	}
	return parts
}

// create makes a partition.
func (p part) create(ctx context.Context, t pgx.Tx) error {
	name, table := pgx.Identifier{p.name}.Sanitize(), pgx.Identifier{p.table}.Sanitize()
	if _, err := t.Exec(ctx, "CREATE TABLE "+name+" (LIKE "+table+" INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"); err != nil {
		return fmt.Errorf("make partition %s: %w", p.name, err)
	}
	const moment = "2006-01-02 15:04:05+00"
	_, err := t.Exec(ctx, fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')", table, name,
		p.from.UTC().Format(moment), p.to.UTC().Format(moment)))
	return err
}

// Retain drops the partitions that end before a moment and have no live action: detached without holding up anybody,
// then dropped. What was interrupted is finished by the next call; one process at a time does it.
func (d *Driver) Retain(ctx context.Context, before time.Time) error {
	c, err := pgx.ConnectConfig(ctx, d.config) // what may wait for minutes takes no connection from others
	if err != nil {
		return coded(err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	var mine bool
	err = c.QueryRow(ctx, `WITH turn AS (UPDATE meta SET retaining_until = now() + interval '10 minutes'
		WHERE retaining_until <= now() RETURNING 1) SELECT EXISTS (SELECT 1 FROM turn)`).Scan(&mine)
	if err != nil || !mine {
		return coded(err)
	}
	err = retain(ctx, c, before)
	_, ended := c.Exec(context.WithoutCancel(ctx), "UPDATE meta SET retaining_until = now()")
	return coded(errors.Join(err, ended))
}

// retain looks at the tables of one period in the order of partitioned.
func retain(ctx context.Context, c *pgx.Conn, before time.Time) error {
	there, err := parts(ctx, c)
	if err != nil {
		return err
	}
	for _, p := range there {
		if p.to.After(before) {
			continue
		}
		if lives, err := oneLive(ctx, c, p.from, p.to); err != nil || lives.Valid {
			if err != nil {
				return err
			}
			continue
		}
		if err := forget(ctx, c, p); err != nil {
			return err
		}
		if err := p.detach(ctx, c); err != nil {
			return err
		}
	}
	return dropDetached(ctx, c)
}

// forget deletes what only speaks of a partition's actions, while they are still there.
func forget(ctx context.Context, c *pgx.Conn, p part) error {
	from, to := uuid(ledger.LowestID(p.from)), uuid(ledger.LowestID(p.to))
	for _, statement := range []string{"DELETE FROM cache_entry WHERE action_id >= $1 AND action_id < $2", "DELETE FROM dismissal WHERE id >= $1 AND id < $2"} {
		if _, err := c.Exec(ctx, statement, from, to); err != nil {
			return err
		}
	}
	return nil
}

// detachTime bounds the wait for transactions that use a table when a partition of it is detached; what is cut off is
// finished by the next call.
const detachTime = time.Minute

// detach takes a partition out of its table; nobody who reads or writes the table waits for it.
func (p part) detach(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, detachTime, fmt.Errorf("somebody has used %s for %s without a break", p.table, detachTime))
	defer cancel()
	how := "CONCURRENTLY"
	if p.pending {
		how = "FINALIZE"
	}
	_, err := c.Exec(ctx, "ALTER TABLE "+pgx.Identifier{p.table}.Sanitize()+" DETACH PARTITION "+pgx.Identifier{p.name}.Sanitize()+" "+how)
	if err != nil {
		return fmt.Errorf("detach partition %s: %w", p.name, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// partitionName is what a table is called that is or was a partition.
var partitionName = regexp.MustCompile(`^(action|event|thread_done)_[0-9]{4}(w[0-9]{2}|m[0-9]{2}|[0-9]{4})$`)

// dropDetached drops what was detached now or by a process that was killed behind it.
func dropDetached(ctx context.Context, c *pgx.Conn) error {
	rows, err := c.Query(ctx, `SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition
		AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'action'::regclass)
		AND relname LIKE ANY (ARRAY['action\_%', 'event\_%', 'thread\_done\_%'])`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if !partitionName.MatchString(name) {
			continue
		}
		if _, err := c.Exec(ctx, "DROP TABLE "+pgx.Identifier{name}.Sanitize()); err != nil {
			return fmt.Errorf("drop partition %s: %w", name, err)
		}
	}
	return nil
}

// oneLive is some live action whose id lies in a period; zero: there is none.
func oneLive(ctx context.Context, q querier, from, to time.Time) (pgtype.UUID, error) {
	rows, err := q.Query(ctx, "SELECT id FROM thread WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 1",
		uuid(ledger.LowestID(from)), uuid(ledger.LowestID(to)))
	if err != nil {
		return pgtype.UUID{}, err
	}
	id, err := pgx.CollectOneRow(rows, pgx.RowTo[pgtype.UUID])
	if errors.Is(err, pgx.ErrNoRows) {
		return pgtype.UUID{}, nil
	}
	return id, err
}

// Partitions says what stands ready, and what a live action keeps although it is older than a moment.
func (d *Driver) Partitions(ctx context.Context, before time.Time) (found ledger.Partitions, err error) {
	var now time.Time
	if err := d.reads.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return found, coded(err)
	}
	there, err := parts(ctx, d.reads)
	if err != nil {
		return found, coded(err)
	}
	for _, p := range there {
		if p.table != "action" {
			continue
		}
		if p.from.After(now) {
			found.Ahead++
		}
		if p.to.After(before) {
			continue
		}
		lives, err := oneLive(ctx, d.reads, p.from, p.to)
		if err != nil {
			return found, coded(err)
		}
		if lives.Valid {
			found.Pinned = append(found.Pinned, ledger.Pinned{Name: p.name, Action: lives.Bytes})
		}
	}
	return found, nil
}

// HasActions reports whether there may be an action in a period, or one that still refers to what is stored under a key.
func (t *tx) HasActions(from, to time.Time, folder string) (bool, error) {
	found, err := query(t, func(row pgx.Row) (yes bool, err error) {
		err = row.Scan(&yes)
		return yes, err
	}, `SELECT EXISTS (SELECT 1 FROM action WHERE created_at >= $1 AND created_at < $2)
		OR EXISTS (SELECT 1 FROM action WHERE parameters_ref <> '' AND parameters_ref >= $3 COLLATE "C" AND parameters_ref < $4 COLLATE "C")`,
		from, to, folder+"/", folder+"0") // which follows folder + "/"
	return len(found) > 0 && found[0], err
}

// noPartition is the error of a row whose time has no partition; the detail names the time.
func noPartition(detail string, err error) error {
	at := "its time"
	if m := regexp.MustCompile(`\(created_at\) = \(([^)]+)\)`).FindStringSubmatch(detail); m != nil {
		at = m[1]
	}
	return fault.New(fault.LedgerAway, "%w of the ledger covers %s: %w", ledger.ErrNoPartition, at, err).
		WithHint("processes that run roles make them, at their start and hourly; look at their logs")
}
