// Package postgres is the ledger's driver for PostgreSQL 15 and newer. It holds
// SQL beside its scans and nothing of what rows mean; see ledger.Driver.
package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
)

const (
	retries = 6 // of a transaction that the database asks to repeat
	poll    = 5 * time.Second
)

// readTime is how long a statement of Browse may take; the call that it is part of has a little longer.
const readTime = 8 * time.Second

// pools are the connections to the database, opened as they are needed. What must not wait has its own, so that no other
// use of the database can delay it. The listener has one more.
type pools struct {
	beat   *pgxpool.Pool // heartbeats
	notify *pgxpool.Pool // notifications
	turns  *pgxpool.Pool // turns, and what the queue reads
	writes *pgxpool.Pool // everything else that writes
	reads  *pgxpool.Pool // what people and programs ask
}

// openPools makes the pools. All of their connections have the name.
func openPools(ctx context.Context, config *pgxpool.Config, name string) (p pools, err error) {
	for _, one := range []struct {
		pool        **pgxpool.Pool
		connections int32
	}{{&p.beat, 1}, {&p.notify, 1}, {&p.turns, 3}, {&p.writes, 2}, {&p.reads, 4}} {
		own := config.Copy()
		own.MaxConns = one.connections
		own.ConnConfig.RuntimeParams["application_name"] = name
		if *one.pool, err = pgxpool.NewWithConfig(ctx, own); err != nil {
			p.close()
			return pools{}, err
		}
	}
	return p, nil
}

func (p pools) close() {
	for _, pool := range []*pgxpool.Pool{p.beat, p.notify, p.turns, p.writes, p.reads} {
		if pool != nil {
			pool.Close()
		}
	}
}

// Driver is the connections of one process to one database.
type Driver struct {
	pools
	config   *pgx.ConnConfig
	name     string // of all connections of this process, so that others can end them when it is gone
	span     Span
	log      *slog.Logger
	listener *listener
	notifier *notifier
	floors   *floors
	overdue  atomic.Int64 // until when no claim was overdue, in Unix microseconds of the database; 0: nobody has looked
	closing  sync.Once
}

// Options say how a database is used.
type Options struct {
	ListenURL string       // a direct connection, when the database is behind a transaction pooler; "": the same as the others
	Partition Span         // how much time one partition holds; "": Week
	Log       *slog.Logger // default: none
}

// Open is OpenWith without options.
func Open(ctx context.Context, url string) (*Driver, error) { return OpenWith(ctx, url, Options{}) }

// OpenWith connects, brings the schema up to date and listens. The url is what pgx
// takes, such as postgres://waybill@db/waybill. Errors: fault.Unavailable when
// the server or the database is not there; fault.Corrupt when a newer Waybill wrote it.
func OpenWith(ctx context.Context, url string, o Options) (*Driver, error) {
	config, err := configure(url, "the address of the ledger")
	if err != nil {
		return nil, err
	}
	direct := config
	if o.ListenURL != "" {
		if direct, err = configure(o.ListenURL, "the address in ledger.listenUrl"); err != nil {
			return nil, err
		}
	}
	log := obs.Component(o.Log, "ledger")
	if err := migrate(ctx, config.ConnConfig, log); err != nil {
		return nil, err
	}
	pooled, err := behindPooler(ctx, config.ConnConfig)
	if err != nil {
		return nil, unreachable(config.ConnConfig, err)
	}
	config.AfterConnect = takeArrays
	if pooled {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	} else {
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			return errors.Join(takeArrays(ctx, conn), mindNetwork(ctx, conn))
		}
	}
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	self := action.NewID(time.Now(), random).String()
	name := "waybill " + self
	direct.ConnConfig.RuntimeParams["application_name"] = name
	pools, err := openPools(ctx, config, name)
	if err != nil {
		return nil, unreachable(config.ConnConfig, err)
	}
	if err := coded(errors.Join(raiseEra(ctx, pools.writes), warnOfVersion(ctx, pools.writes, log))); err != nil {
		pools.close()
		return nil, err
	}
	if o.Partition == "" {
		o.Partition = Week
	}
	d := &Driver{pools: pools, config: config.ConnConfig, name: name, span: o.Partition, log: log, listener: newListener(direct.ConnConfig, pools.notify, log),
		notifier: newNotifier(pools.notify, self), floors: &floors{lanes: map[string]*floor{}}}
	if err := d.Maintain(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// configure reads an address; what it is called is for the error.
func configure(url, called string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s is wrong: %s", called, withoutPassword(url)).
			WithHint("want postgres://USER@HOST:PORT/DATABASE")
	}
	config.ConnConfig.RuntimeParams["application_name"] = "waybill"
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	return config, nil
}

// mindNetwork has the server end a connection whose other end is gone or takes nothing for as long as an instance may be
// silent. It is set on the connection, since a pooler may refuse it among the parameters of a login.
func mindNetwork(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, fmt.Sprintf("SET tcp_user_timeout = %d", ledger.InstanceLease.Milliseconds()))
	return err
}

// behindPooler makes a first connection, and reports whether a pooler stands between: then the process that answers is
// not the one that the login named. A pooler may give each transaction another connection of the server, on which a
// statement that was prepared by name is not known.
func behindPooler(ctx context.Context, config *pgx.ConnConfig) (bool, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer conn.Close(ctx)
	return answeredByAnother(ctx, conn)
}

// answeredByAnother reports whether the server's process is not the one that the login named.
func answeredByAnother(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var answers uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&answers)
	return answers != conn.PgConn().PID(), err
}

// Name is postgres.
func (*Driver) Name() string { return "postgres" }

// Embedded is false: many processes share the database.
func (*Driver) Embedded() bool { return false }

// Poll is how long a waiter may sleep although nobody wakes it.
func (d *Driver) Poll() time.Duration {
	if d.listener.up() {
		return poll
	}
	return poll / 10
}

// Close ends every connection.
func (d *Driver) Close() error {
	d.closing.Do(func() {
		d.notifier.close()
		d.listener.close()
		d.pools.close()
	})
	return nil
}

// Write runs fn in one transaction and commits when it returns nil.
func (d *Driver) Write(ctx context.Context, fn func(ledger.Tx) error) error {
	return d.write(ctx, d.writes, fn)
}

// WriteTurn is Write on connections that no other write uses.
func (d *Driver) WriteTurn(ctx context.Context, fn func(ledger.Tx) error) error {
	return d.write(ctx, d.turns, fn)
}

func (d *Driver) write(ctx context.Context, pool *pgxpool.Pool, fn func(ledger.Tx) error) error {
	for attempt := 0; ; attempt++ {
		err := d.transact(ctx, mode{pool: pool, begin: beginWrite, plans: onePlan, end: "COMMIT"}, fn)
		if !(repeatable(err) || errors.Is(err, ledger.ErrRace)) || attempt == retries {
			return coded(err)
		}
	}
}

// Read runs fn in a transaction that sees one state and changes nothing.
func (d *Driver) Read(ctx context.Context, fn func(ledger.Tx) error) error {
	return coded(d.transact(ctx, mode{pool: d.turns, begin: beginRead, plans: anyPlan, end: "COMMIT"}, fn))
}

// Browse is Read on connections of its own, and none of its statements takes longer than readTime.
func (d *Driver) Browse(ctx context.Context, fn func(ledger.Tx) error) error {
	return coded(d.transact(ctx, mode{pool: d.reads, begin: beginRead, plans: anyPlan, within: readTime, end: "COMMIT"}, fn))
}

// Explain runs fn in a transaction that is rolled back, and returns the plan of each of its statements: the one that the
// planner prefers, without being told to follow indexes.
func (d *Driver) Explain(ctx context.Context, fn func(ledger.Tx) error) ([]string, error) {
	var plans []string
	err := d.transact(ctx, mode{pool: d.writes, begin: beginWrite, plans: onePlan, end: "ROLLBACK"}, func(t ledger.Tx) error {
		explained := t.(*tx)
		if _, err := explained.conn.Exec(ctx, "RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin; RESET plan_cache_mode"); err != nil {
			return err
		}
		explained.plans = &plans
		return fn(explained)
	})
	return plans, coded(err)
}

// mode says how a transaction is run.
type mode struct {
	pool       *pgxpool.Pool
	begin, end string
	plans      string        // plan_cache_mode
	within     time.Duration // bounds each statement; 0: nothing does
}

const (
	beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED"
	beginRead  = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
)

// transact runs fn between two statements on one connection. What fn or the
// commit fails with is rolled back under a context of its own.
func (d *Driver) transact(ctx context.Context, m mode, fn func(ledger.Tx) error) error {
	conn, t, err := d.begin(ctx, m)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err = fn(t); err == nil {
		_, err = conn.Exec(ctx, m.end)
	}
	if err != nil {
		d.rollBack(context.WithoutCancel(ctx), conn)
	}
	return err
}

// begin starts a transaction. A connection that turns out to be dead, as all of
// the pool are after a restart of the server, is replaced: nothing was begun on it.
func (d *Driver) begin(ctx context.Context, m mode) (*pgxpool.Conn, *tx, error) {
	for tries := 0; ; tries++ {
		conn, err := m.pool.Acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		t := &tx{ctx: ctx, conn: conn.Conn(), listener: d.listener, floors: d.floors}
		start := new(pgx.Batch)
		start.Queue(m.begin)
		if m.within > 0 {
			start.Queue(fmt.Sprintf("SET LOCAL statement_timeout = %d", m.within.Milliseconds()))
		}
		start.Queue(planned, m.plans).QueryRow(func(row pgx.Row) error { return row.Scan(&t.now) })
		if err = conn.SendBatch(ctx, start).Close(); err == nil {
			t.now = t.now.UTC()
			return conn, t, nil
		}
		d.rollBack(context.WithoutCancel(ctx), conn)
		conn.Release()
		if tries == int(m.pool.Config().MaxConns) || ctx.Err() != nil || !stale(err) {
			return nil, nil, err
		}
	}
}

// planned begins every transaction. Its statements begin with a few rows and follow indexes; plans are kept, and one
// that was made while a table was small would read all of it when it is large. What writes is planned once for each
// connection: left to itself the server plans a claim anew each time, which takes a fifth of its time. And a process that freezes or vanishes
// inside a transaction must not keep its rows from those who take over: the server ends it after the time that a call of
// the ledger may take. These are no settings of the connection, since a pooler in between may refuse those.
const planned = `SELECT now() FROM (SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true), set_config('plan_cache_mode', $1, true), set_config('idle_in_transaction_session_timeout', '10s', true)) AS settings`

// Values of plan_cache_mode.
const (
	onePlan = "force_generic_plan"
	anyPlan = "auto"
)

// rollBack gives the connection back clean, or ends it.
func (d *Driver) rollBack(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if conn.Conn().IsClosed() {
		return
	}
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = conn.Conn().Close(ctx)
	}
}

// tx is one transaction on one connection.
type tx struct {
	ctx      context.Context // of the transaction; its methods take none
	conn     *pgx.Conn
	listener *listener
	now      time.Time
	floors   *floors
	plans    *[]string // where Explain collects
}

// Now is the transaction's time, UTC.
func (t *tx) Now() time.Time { return t.now }

// LedgerID is this log's own id, made with it.
func (t *tx) LedgerID() (action.ID, error) {
	ids, err := query(t, scanID, "SELECT ledger_id FROM meta")
	if err != nil || len(ids) == 0 {
		return action.ID{}, err
	}
	return ids[0], nil
}

// newer says that the schema is of a version that does not exist yet.
const newer = "(SELECT schema > %d FROM meta)"

// Newer reports whether a newer Waybill has migrated the database.
func (t *tx) Newer() (bool, error) {
	found, err := query(t, func(row pgx.Row) (yes bool, err error) {
		err = row.Scan(&yes)
		return yes, err
	}, "SELECT "+fmt.Sprintf(newer, schema))
	return len(found) > 0 && found[0], err
}

// exec runs one statement.
func (t *tx) exec(query string, args ...any) (int64, error) {
	if err := t.explain(query, args); err != nil {
		return 0, err
	}
	done, err := t.conn.Exec(t.ctx, query, args...)
	return done.RowsAffected(), err
}

// query reads every row by scan.
func query[T any](t *tx, scan func(pgx.Row) (T, error), query string, args ...any) ([]T, error) {
	if err := t.explain(query, args); err != nil {
		return nil, err
	}
	rows, err := t.conn.Query(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return scan(row) })
}

// explain collects a statement's plan, under Explain.
func (t *tx) explain(query string, args []any) error {
	if t.plans == nil {
		return nil
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
