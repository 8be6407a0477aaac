// Package postgres is the ledger's driver for PostgreSQL 15 and newer. It holds
// SQL beside its scans and nothing of what rows mean; see packages store, queue, journal and token.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/token"
)

const (
	retries = 6 // tries of a transaction that the database refuses for now
	poll    = store.FullPoll
)

// lockTime bounds the wait for a lock in a transaction that callers share. Others hold a row for milliseconds.
const lockTime = time.Second

// readTime bounds a statement of a reader; the call that it is part of has a little longer.
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

func (p pools) close() { p.each((*pgxpool.Pool).Close) }

// reset closes every connection: those in use when they are given back.
func (p pools) reset() { p.each((*pgxpool.Pool).Reset) }

func (p pools) each(do func(*pgxpool.Pool)) {
	for _, pool := range []*pgxpool.Pool{p.beat, p.notify, p.turns, p.writes, p.reads} {
		if pool != nil {
			do(pool)
		}
	}
}

// Driver is the connections of one process to one database.
type Driver struct {
	pools
	config   *pgx.ConnConfig
	name     string // name of all connections of this process, so that others can end them when it is gone
	span     Span
	log      *slog.Logger
	listener *listener
	notifier *notifier
	failover *failover
	floors   *floors
	overdue  atomic.Int64 // time up to which no claim was overdue, in Unix microseconds of the database; 0: not checked yet
	closing  sync.Once
}

// Options configure the use of a database.
type Options struct {
	ListenURL string       // a direct connection, when the database is behind a transaction pooler; "": the same as the others
	Partition Span         // how much time one partition holds; "": Week
	Log       *slog.Logger // default: none
	Metrics   *obs.Ledger  // metrics of notifications; nil: not measured
}

// Open connects, brings the schema up to date and listens. The url is what pgx
// takes, such as postgres://waybill@db/waybill. Errors: fault.Unavailable when
// the server or the database is not there; fault.Corrupt when a newer Waybill wrote it.
func Open(ctx context.Context, url string, o Options) (*Driver, error) {
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
			return errors.Join(takeArrays(ctx, conn), setSession(ctx, conn))
		}
	}
	moves := new(failover)
	moves.watch(config.ConnConfig)
	if direct != config {
		moves.watch(direct.ConnConfig)
	}
	self := action.RandomID(time.Now()).String()
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
	d := &Driver{pools: pools, config: config.ConnConfig, name: name, span: o.Partition, log: log,
		listener: newListener(direct.ConnConfig, pools.notify, log),
		notifier: newNotifier(pools.notify, self), failover: moves, floors: &floors{quick: quickScan, lanes: map[string]*floor{}}}
	moves.begin(func() {
		d.pools.reset()
		d.listener.poke()
	})
	if o.Metrics != nil {
		d.listener.measure(o.Metrics, d.notifier)
	}
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
	preferWritable(config.ConnConfig)
	return config, nil
}

// setSession has the server end a connection whose other end is gone or takes nothing for as long as an instance may be
// silent, and run single statements as READ COMMITTED whatever the default of the database or the role is. It is set on
// the connection, since a pooler may refuse it among the parameters of a login.
func setSession(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, fmt.Sprintf("SET tcp_user_timeout = %d; SET default_transaction_isolation = 'read committed'",
		queue.InstanceLease.Milliseconds()))
	return err
}

// behindPooler makes a first connection, and reports whether a pooler is in between: then the process that answers is
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

// Name returns "postgres".
func (*Driver) Name() string { return "postgres" }

// Embedded returns false: many processes share the database.
func (*Driver) Embedded() bool { return false }

// Poll returns how long a waiter may sleep without a signal.
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

// Write runs fn in one transaction and commits when it returns nil. Turns have connections that no other write uses.
func (d *Driver) Write(ctx context.Context, use store.Use, fn func(store.Rows) error) error {
	m := mode{pool: d.writes, begin: beginWrite, plans: onePlan, end: "COMMIT"}
	switch use {
	case store.ForTurns:
		m.pool = d.turns
	case store.ForGroups:
		m.locked = lockTime
	}
	for attempt := 0; ; attempt++ {
		err := d.transact(ctx, m, fn)
		again := repeatable(err) || errors.Is(err, store.ErrRace) || attempt == 0 && refusesWrites(err)
		if !again || attempt == retries {
			return coded(err)
		}
	}
}

// Read runs fn in a transaction that sees one state and changes nothing. Readers have connections of their own, and none of
// their statements takes longer than readTime. Their reads by key are planned once: to plan the read of one action over all
// partitions takes longer than to execute it.
func (d *Driver) Read(ctx context.Context, use store.Use, fn func(store.Rows) error) error {
	m := mode{pool: d.turns, begin: beginRead, plans: anyPlan, end: "COMMIT"}
	switch use {
	case store.ForReaders:
		m.pool, m.within, m.plans = d.reads, readTime, onePlan
	case store.ForLists:
		m.pool, m.within = d.reads, readTime
	}
	return coded(d.transact(ctx, m, fn))
}

// QueueRows returns the rows of package queue in a transaction of this driver.
func (*Driver) QueueRows(r store.Rows) (queue.Rows, queue.CacheRows, queue.HostRows) {
	t := r.(*tx)
	return t, t, t
}

// BuildRows returns the rows of package builds in a transaction of this driver.
func (*Driver) BuildRows(r store.Rows) (builds.Rows, builds.PasswordRows) {
	return r.(*tx), r.(*tx)
}

// PromotionRows returns the rows of package promotions in a transaction of this driver.
func (*Driver) PromotionRows(r store.Rows) promotions.Rows { return r.(*tx) }

// ServiceRows returns the rows of package services in a transaction of this driver.
func (*Driver) ServiceRows(r store.Rows) services.Rows { return r.(*tx) }

// JournalRows returns the rows of package journal in a transaction of this driver.
func (*Driver) JournalRows(r store.Rows) journal.Rows { return r.(*tx) }

// TokenRows returns the rows of package token in a transaction of this driver.
func (*Driver) TokenRows(r store.Rows) token.Rows { return r.(*tx) }

// Explain runs fn in a transaction that is rolled back, and returns the plan of each of its statements: the one that the
// planner prefers, without the settings that make it follow indexes.
func (d *Driver) Explain(ctx context.Context, fn func(store.Rows) error) ([]string, error) {
	var plans []string
	err := d.transact(ctx, mode{pool: d.writes, begin: beginWrite, plans: onePlan, end: "ROLLBACK"}, func(t store.Rows) error {
		explained := t.(*tx)
		if err := explained.send(); err != nil {
			return err
		}
		if _, err := explained.conn.Exec(ctx,
			"RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin; RESET plan_cache_mode"); err != nil {
			return err
		}
		explained.plans = &plans
		return fn(explained)
	})
	return plans, coded(err)
}

// mode configures a transaction.
type mode struct {
	pool       *pgxpool.Pool
	begin, end string
	plans      string        // plan_cache_mode
	within     time.Duration // bounds each statement; 0: nothing does
	locked     time.Duration // bounds each wait for a lock; 0: nothing does
}

// inReadCommitted begins the transactions of package pgx.
var inReadCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

const (
	beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED"
	beginRead  = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
)

// transact runs fn in one transaction. What fn or the commit fails with is rolled back under a context of its own.
func (d *Driver) transact(ctx context.Context, m mode, fn func(store.Rows) error) error {
	conn, err := m.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	t := &tx{ctx: ctx, mode: m, conn: conn, listener: d.listener, notifier: d.notifier, failover: d.failover, floors: d.floors}
	defer t.release()
	t.begin()
	if err = fn(t); t.failed != nil {
		err = t.failed // whatever fn made of it
	}
	if err == nil {
		err = t.commit()
	}
	return err
}
