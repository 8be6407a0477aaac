package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Span is the time that one partition covers: an action, its history and its end are in the partition of the action's
// id.
type Span string

// The spans.
const (
	Day   Span = "day"
	Week  Span = "week" // week of ISO 8601
	Month Span = "month"
)

// partitioned are the tables that have partitions, each with the same ones.
var partitioned = []string{"action", "event", "thread_done"}

const (
	ahead  = 4  // partitions that are ready beyond the current one
	behind = 60 // partitions at most that are made for a time in which no instance ran, for ticks that are made up for
)

// start returns the beginning of the period of a moment, UTC.
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

// next returns the beginning of the period after the one that begins at start, or back periods before it.
func (s Span) next(start time.Time, n int) time.Time {
	switch s {
	case Day:
		return start.AddDate(0, 0, n)
	case Month:
		return start.AddDate(0, n, 0)
	}
	return start.AddDate(0, 0, 7*n)
}

// name returns the name of the period of a moment, as in the names of its partitions, such as 2026w47.
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
}

// parts lists the partitions that are attached, oldest first.
func parts(ctx context.Context, q querier) ([]part, error) {
	rows, err := q.Query(ctx, `SELECT p.relname, c.relname,
			(regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)'))[1]::timestamptz,
			(regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)'))[1]::timestamptz
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
		WHERE i.inhparent = ANY ($1::text[]::regclass[]) AND c.relkind = 'r' ORDER BY 4, 1`, partitioned)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p part, err error) {
		err = row.Scan(&p.table, &p.name, timeOf{&p.from}, timeOf{&p.to})
		return p, err
	})
}

// querier is a connection, a transaction or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Maintain makes the partitions of now and ahead, each as a plain table that is then attached, which takes a weaker
// lock than making it in place. A default partition would not do: it would keep others from being detached. The first
// ever is that of the period before now, for ids that are a little older than their rows. When the span has changed
// the first new one is cut to begin where the last old one ends.
func (d *Driver) Maintain(ctx context.Context) error {
	err := pgx.BeginTxFunc(ctx, d.writes, inReadCommitted, func(t pgx.Tx) error {
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

// missing returns the partitions that a table lacks at a moment.
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

const (
	retainFor  = 10 * time.Minute       // one call of Retain; after it, another process may take its turn
	dropWait   = 500 * time.Millisecond // wait for the locks of a drop, and so the time for which it may hold up users of the tables
	dropWithin = time.Minute            // how long one drop is tried again because a lock was not free
	endWithin  = 5 * time.Second        // bounds recording that this process is done
)

// Retain drops the partitions that end before a moment and have no live action, each period in a transaction of its own:
// everything about its actions is there, or nothing is. While a long transaction uses the tables nothing is dropped, and the
// error is fault.LedgerUnavailable; the next call tries again. One process at a time does it.
func (d *Driver) Retain(ctx context.Context, before time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, retainFor, fmt.Errorf("dropping partitions took longer than %s", retainFor))
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, d.config) // what may wait for minutes takes no connection from others
	if err != nil {
		return coded(err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	var mine bool
	err = c.QueryRow(ctx, `WITH turn AS (UPDATE meta SET retaining_until = now() + $1::interval
		WHERE retaining_until <= now() RETURNING 1) SELECT EXISTS (SELECT 1 FROM turn)`, retainFor).Scan(&mine)
	if err != nil || !mine {
		return coded(err)
	}
	err = retain(ctx, c, before, d.log)
	last, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), endWithin, fmt.Errorf("PostgreSQL did not answer within %s", endWithin))
	defer stop()
	_, ended := d.writes.Exec(last, "UPDATE meta SET retaining_until = now()") // c may be closed
	return coded(errors.Join(err, ended))
}

// retain drops one period after the other, the oldest first.
func retain(ctx context.Context, c *pgx.Conn, before time.Time, log *slog.Logger) error {
	there, err := parts(ctx, c)
	if err != nil {
		return err
	}
	for len(there) > 0 && !there[0].to.After(before) {
		n := 1 // tables of the same period
		for n < len(there) && there[n].from.Equal(there[0].from) {
			n++
		}
		period := there[:n]
		there = there[n:]
		lives, err := oneLive(ctx, c, period[0].from, period[0].to)
		if err != nil {
			return err
		}
		if lives.Valid {
			continue
		}
		err = patiently(ctx, log.With(obs.KeyName, "the drop of partition "+period[0].name), dropWithin,
			func() error { return drop(ctx, c, period) })
		if err != nil && !errors.Is(err, errPinned) {
			return fmt.Errorf("drop partition %s: %w", period[0].name, err)
		}
	}
	return dropDetached(ctx, c)
}

// drop deletes the partitions of one period and the rows that refer to its actions, in one transaction. The locks on
// the tables are taken last and briefly. What they wait for ends on its own or after dropWait, a deadlock included.
func drop(ctx context.Context, c *pgx.Conn, period []part) error {
	from, to := period[0].from, period[0].to
	return pgx.BeginTxFunc(ctx, c, inReadCommitted, func(t pgx.Tx) error {
		if _, err := t.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", dropWait.Milliseconds())); err != nil {
			return err
		}
		low, high := uuid(queue.LowestID(from)), uuid(queue.LowestID(to))
		for _, statement := range []string{"DELETE FROM cache_entry WHERE action_id >= $1 AND action_id < $2",
			"DELETE FROM dismissal WHERE id >= $1 AND id < $2"} {
			if _, err := t.Exec(ctx, statement, low, high); err != nil {
				return err
			}
		}
		var all, names []string
		for _, table := range partitioned {
			all = append(all, "ONLY "+pgx.Identifier{table}.Sanitize())
		}
		for _, p := range period {
			names = append(names, pgx.Identifier{p.name}.Sanitize())
		}
		if _, err := t.Exec(ctx, "LOCK TABLE "+strings.Join(all, ", ")+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		lives, err := oneLive(ctx, t, from, to) // an action may have come since the first look; behind the lock none does
		if err != nil {
			return err
		}
		if lives.Valid {
			return errPinned
		}
		_, err = t.Exec(ctx, "DROP TABLE "+strings.Join(names, ", "))
		return err
	})
}

// errPinned rolls a drop back: a live action keeps the period.
var errPinned = errors.New("a live action is of this period")

// partitionName matches the name of a table that is or was a partition.
var partitionName = regexp.MustCompile(`^(action|event|thread_done)_[0-9]{4}(w[0-9]{2}|m[0-9]{2}|[0-9]{4})$`)

// dropDetached drops what an earlier version, which detached before it dropped, has left behind.
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

// oneLive returns a live action with an id of the period; zero: no such action.
func oneLive(ctx context.Context, q querier, from, to time.Time) (pgtype.UUID, error) {
	rows, err := q.Query(ctx, "SELECT id FROM thread WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 1",
		uuid(queue.LowestID(from)), uuid(queue.LowestID(to)))
	if err != nil {
		return pgtype.UUID{}, err
	}
	id, err := pgx.CollectOneRow(rows, pgx.RowTo[pgtype.UUID])
	if errors.Is(err, pgx.ErrNoRows) {
		return pgtype.UUID{}, nil
	}
	return id, err
}

// Partitions returns which partitions are ready, and which older ones live actions keep.
func (d *Driver) Partitions(ctx context.Context, before time.Time) (found queue.Partitions, err error) {
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
			found.Pinned = append(found.Pinned, queue.Pinned{Name: p.name, Action: lives.Bytes})
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
		from, to, folder+"/", folder+"0") // folder + "0" follows folder + "/"
	return len(found) > 0 && found[0], err
}

// noPartition returns the error of a row whose time has no partition; the detail names the time.
func noPartition(detail string, err error) error {
	at := "its time"
	if m := regexp.MustCompile(`\(created_at\) = \(([^)]+)\)`).FindStringSubmatch(detail); m != nil {
		at = m[1]
	}
	return fault.New(fault.LedgerUnavailable, "%w of the ledger covers %s: %w", queue.ErrNoPartition, at, err).
		WithHint("processes that run roles make them, at their start and hourly; look at their logs")
}
