package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// tx is one transaction on one connection. A statement whose answer is not read is kept, and is sent to the server with the
// next one that is read, or with the commit: the round trip takes longer than most of them. So the error of one may be
// returned by a later one.
type tx struct {
	ctx      context.Context // context of the transaction; its methods take none
	mode     mode
	conn     *pgxpool.Conn // nil: the pool has it back
	kept     []statement
	begins   int   // number of the first ones of kept that begin the transaction
	sent     bool  // something was sent on conn
	begun    bool  // the server has begun the transaction
	failed   error // no statement is sent any more
	listener *listener
	notifier *notifier
	failover *failover
	signals  []store.Signal // to other processes
	now      time.Time
	floors   *floors
	plans    *[]string // where Explain collects
}

// statement is one that is to be sent.
type statement struct {
	query string
	args  []any
	read  func(pgx.Rows) error // nil: the answer is not read
}

// planned begins every transaction. Its statements begin with a few rows and follow indexes; plans are kept, and one
// that was made while a table was small would read all of it when it is large. What writes is planned once for each
// connection: left to itself the server plans a claim again each time, which takes a fifth of its time. So are reads by
// key, most of whose time was their planning. And a process that freezes or vanishes
// inside a transaction must not keep its rows from those who take over: the server ends it after the time that a call of
// the ledger may take. They are not settings of the connection, since a pooler in between may refuse those.
const planned = `SELECT now() FROM (SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true), set_config('plan_cache_mode', $1, true),
	set_config('idle_in_transaction_session_timeout', '10s', true)) AS settings`

// Values of plan_cache_mode.
const (
	onePlan = "force_generic_plan"
	anyPlan = "auto"
)

// begin keeps the statements that begin the transaction.
func (t *tx) begin() {
	t.keep(t.mode.begin)
	if t.mode.within > 0 {
		t.keep(fmt.Sprintf("SET LOCAL statement_timeout = %d", t.mode.within.Milliseconds()))
	}
	if t.mode.locked > 0 {
		t.keep(fmt.Sprintf("SET LOCAL lock_timeout = %d", t.mode.locked.Milliseconds()))
	}
	t.kept = append(t.kept, statement{planned, []any{t.mode.plans}, func(rows pgx.Rows) error {
		_, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (none struct{}, err error) {
			return none, row.Scan(timeOf{&t.now})
		})
		t.begun = err == nil
		return err
	}})
	t.begins = len(t.kept)
}

func (t *tx) keep(query string, args ...any) {
	t.kept = append(t.kept, statement{query: query, args: args})
}

// commit ends the transaction. What begins it goes before, since that may be sent twice and a commit may not; what notifies
// others of it goes behind, and is sent again when that fails.
func (t *tx) commit() error {
	if !t.begun {
		if err := t.send(); err != nil {
			return err
		}
	}
	committed := false
	payloads := t.notifier.behind(t.signals)
	t.kept = append(t.kept, statement{query: t.mode.end, read: func(rows pgx.Rows) error {
		rows.Close()
		if committed = rows.Err() == nil; committed && len(payloads) > 0 {
			t.notifier.sending(t.signals)
		}
		return rows.Err()
	}})
	if len(payloads) > 0 {
		t.keep(notify, channel, payloads)
	}
	err := t.send()
	if !committed {
		if _, refused := errors.AsType[*pgconn.PgError](err); !refused && len(t.signals) > 0 { // it may be committed all the same
			t.notifier.add(t.signals)
		}
		return err
	}
	if len(t.signals) > 0 && (err != nil || len(payloads) == 0) {
		t.notifier.add(t.signals)
	}
	return nil
}

// Notify notifies other processes once the transaction is committed.
func (t *tx) Notify(signals []store.Signal) { t.signals = signals }

// send sends what is kept, and reads the answers.
func (t *tx) send() error {
	if len(t.kept) == 0 || t.failed != nil {
		return t.failed
	}
	err := t.exchange(t.kept)
	if err != nil && !t.begun && stale(err) && t.ctx.Err() == nil {
		if err = t.beginAgain(); err == nil {
			err = t.exchange(t.kept[t.begins:])
		}
	}
	t.kept, t.failed = t.kept[:0], err
	return err
}

// beginAgain begins on another connection, since this one turned out to be dead, as all of the pool are after a restart of
// the server. Nothing else is sent until the server has answered: what kills its connection is sent twice at most.
func (t *tx) beginAgain() error {
	for tries := 1; ; tries++ {
		t.release()
		conn, err := t.mode.pool.Acquire(t.ctx)
		if err != nil {
			return err
		}
		t.conn = conn
		err = t.exchange(t.kept[:t.begins])
		if err == nil || tries == int(t.mode.pool.Config().MaxConns) || t.ctx.Err() != nil || !stale(err) {
			return err
		}
	}
}

// exchange sends statements at once, and reads their answers.
func (t *tx) exchange(statements []statement) error {
	if len(statements) == 0 {
		return nil
	}
	batch := new(pgx.Batch)
	for _, s := range statements {
		if queued := batch.Queue(s.query, s.args...); s.read != nil {
			queued.Query(func(rows pgx.Rows) error {
				if rows.Err() != nil {
					return rows.Err() // the answer has no columns
				}
				return s.read(rows)
			})
		}
	}
	t.sent = true
	return t.conn.SendBatch(t.ctx, batch).Close()
}

// release gives the connection back to the pool, clean or closed.
func (t *tx) release() {
	if t.conn == nil {
		return
	}
	if t.sent && !t.conn.Conn().IsClosed() && t.conn.Conn().PgConn().TxStatus() != 'I' {
		t.rollBack()
	}
	if t.sent && readOnly(t.conn.Conn().PgConn()) {
		t.failover.notice() // also for those who only read: the rows of a former primary are old
	}
	t.conn.Release()
	t.conn, t.sent = nil, false
}

// rollBack ends the transaction on the server, or the connection.
func (t *tx) rollBack() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 2*time.Second)
	defer cancel()
	if _, err := t.conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = t.conn.Conn().Close(ctx)
	}
}

// Now returns the transaction's time, UTC; zero when it could not begin, and then every statement and the commit fail.
func (t *tx) Now() time.Time {
	if !t.begun {
		_ = t.send() // what it fails with, the transaction does
	}
	return t.now
}

// LedgerID returns this log's own id, made with it.
func (t *tx) LedgerID() (action.ID, error) {
	ids, err := query(t, scanID, "SELECT ledger_id FROM meta")
	if err != nil || len(ids) == 0 {
		return action.ID{}, err
	}
	return ids[0], nil
}

// newer reports that the schema is of a version that does not exist yet.
const newer = "(SELECT schema > %d FROM meta)"

// Probe writes something that leaves nothing behind but a record in the server's log, which the commit has to make durable. It
// reports whether a newer Waybill has migrated the database.
func (t *tx) Probe() (bool, error) {
	found, err := query(t, func(row pgx.Row) (yes bool, err error) {
		var isReadOnly bool
		if err = row.Scan(&yes, &isReadOnly); isReadOnly {
			err = errNoWrites
		}
		return yes, err
	}, "SELECT "+fmt.Sprintf(newer, schema)+", current_setting('transaction_read_only')::boolean")
	if err != nil {
		return false, err
	}
	return len(found) > 0 && found[0], t.do("SELECT pg_logical_emit_message(true, 'waybill', 'probe')")
}

// do runs one statement, whose answer is not read, with a later one.
func (t *tx) do(query string, args ...any) error {
	if err := t.explain(query, args); err != nil {
		return err
	}
	t.keep(query, args...)
	return t.failed
}

// count runs one statement, and returns how many rows it changed.
func (t *tx) count(query string, args ...any) (n int64, err error) {
	err = t.ask(query, args, func(rows pgx.Rows) error {
		rows.Close()
		n = rows.CommandTag().RowsAffected()
		return rows.Err()
	})
	return n, err
}

// ask runs one statement, and those that were kept before it, and has its answer read.
func (t *tx) ask(query string, args []any, read func(pgx.Rows) error) error {
	if err := t.explain(query, args); err != nil {
		return err
	}
	t.kept = append(t.kept, statement{query, args, read})
	return t.send()
}

// query reads every row by scan.
func query[T any](t *tx, scan func(pgx.Row) (T, error), query string, args ...any) (all []T, err error) {
	err = t.ask(query, args, func(rows pgx.Rows) (err error) {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return scan(row) })
		return err
	})
	return all, err
}

// explain collects a statement's plan, under Explain.
func (t *tx) explain(query string, args []any) error {
	if t.plans == nil {
		return nil
	}
	if err := t.send(); err != nil {
		return err
	}
	lines, err := t.conn.Query(t.ctx, "EXPLAIN "+query, args...)
	if err != nil {
		return err
	}
	plan := ""
	_, err = pgx.CollectRows(lines, func(row pgx.CollectableRow) (struct{}, error) {
		var line string
		err := row.Scan(&line)
		plan += line + "\n"
		return struct{}{}, err
	})
	*t.plans = append(*t.plans, plan)
	return err
}
