// Package sqlite keeps a log in one file, on one machine. The process that has waybill.lock runs the roles. Other
// processes read, watch, and record what people request.
//
// Each query is beside its scan, in the same order as in package postgres. The type tx implements
// the rows of every package above; the first comment of a file names the package whose rows it has:
//
//   - queue: actions, threads, list, recorded, cache, limits, instances, hosthome, status, retain
//   - journal: structure, entries
//   - builds: builds
//   - promotions: promotions
//   - token: tokens
//   - store: sqlite, tx, migrate, errors, backup
//
// There is one writer connection. It takes SQLite's write lock at the start of its transaction (BEGIN IMMEDIATE), so
// a transaction that has begun never waits for another and never deadlocks. Readers see one state each and block no
// writer.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/token"
)

// Numbers of reads that may run beside the writer.
const (
	queueReads  = 1
	browseReads = 4 // requests of people and programs
)

// lookEvery is the pause between two searches for commits of other processes.
const lookEvery = time.Second

// Driver is the database in one file.
type Driver struct {
	path    string
	write   *sql.DB
	read    *readers
	browse  *readers
	writer  chan *sql.Conn // holds the one connection that writes while no transaction uses it
	kept    kept           // statements of that connection
	opened  bool           // whether that connection was made
	watch   *sql.Conn
	stop    context.CancelFunc
	stopped sync.WaitGroup
	closed  atomic.Bool
	paths   paths
	newer   atomic.Bool // whether a newer Waybill has migrated the file
	toRead  bool        // whether it may be opened where it cannot be written
	way     string      // query of the file's URL; "": it is written as well
	refusal error       // why it cannot be written; nil: it can
	clock   func() time.Time
}

// Open opens the file, creates it if necessary, and brings its schema up to date. The folder must
// exist. The error is fault.Corrupt for a damaged file and for one that a newer Waybill wrote, and
// fault.Unavailable for what the system refuses.
func Open(ctx context.Context, path string, options ...Option) (*Driver, error) {
	d := newDriver(path, options)
	failed := d.open(ctx)
	if failed == nil {
		return d, nil
	}
	explained := d.explain("open the database", failed)
	_ = d.Close() // closes what was opened so far; the first error is returned
	if !d.toRead || !refusesWrites(failed) {
		return nil, explained
	}
	d = newDriver(path, options)
	if err := d.openToRead(ctx, failed); err != nil {
		_ = d.Close()
		if _, coded := errors.AsType[*fault.Error](err); coded {
			return nil, err
		}
		return nil, explained
	}
	return d, nil
}

func newDriver(path string, options []Option) *Driver {
	d := &Driver{path: path, writer: make(chan *sql.Conn, 1), kept: newKept(mostKept), paths: paths{byID: map[int64]string{}}, clock: time.Now}
	for _, set := range options {
		set(d)
	}
	return d
}

// Option changes what Open makes.
type Option func(*Driver)

// WithClock has the database take its time from another clock than the process's. A simulation sets it
// forward and back.
func WithClock(clock func() time.Time) Option { return func(d *Driver) { d.clock = clock } }

// open prepares the file and makes the connections of readers.
func (d *Driver) open(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	return d.openReaders(ctx)
}

func (d *Driver) openReaders(ctx context.Context) error {
	pool, err := sql.Open("sqlite", d.source(true))
	if err != nil {
		return err
	}
	d.read = newReaders(pool, queueReads)
	if d.watch, err = pool.Conn(ctx); err != nil {
		return err
	}
	if pool, err = sql.Open("sqlite", d.source(true)); err != nil {
		return err
	}
	d.browse = newReaders(pool, browseReads)
	return nil
}

// prepare makes the connection that writes. It creates the file and its schema where they are
// missing.
func (d *Driver) prepare(ctx context.Context) (err error) {
	done, err := d.alone(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := d.touch(); err != nil {
		return err
	}
	if d.write, err = sql.Open("sqlite", d.source(false)); err != nil {
		return err
	}
	d.write.SetMaxOpenConns(1)
	conn, err := d.write.Conn(ctx)
	if err != nil {
		return err
	}
	d.writer <- conn
	d.opened = true
	return d.migrate(ctx, conn)
}

// alone waits until no process, this one included, prepares a file of the folder; done lets the
// next one do so. SQLite's own locks would be correct, but they are unfair: when many processes
// create one file, an unlucky one waits for longer than busyAfter.
func (d *Driver) alone(ctx context.Context) (done func() error, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, busyAfter, d.busy())
	defer cancel()
	folder := flock.New(filepath.Dir(d.path), flock.SetFlag(os.O_RDONLY|unix.O_DIRECTORY)) // a pipe would be waited for
	locked, err := folder.TryLockContext(ctx, 5*time.Millisecond)
	switch {
	case locked:
		return folder.Unlock, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// touch creates the file, readable by this user alone, and returns what the system refuses in its
// own words. It does not open a file that exists: closing it would release the locks that another
// connection of this process has on it.
func (d *Driver) touch() error {
	f, err := os.OpenFile(d.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Stat(d.path); err != nil {
		return err
	} else if info.IsDir() {
		return &fs.PathError{Op: "open", Path: d.path, Err: unix.EISDIR}
	} else if !info.Mode().IsRegular() { // SQLite would wait for a pipe
		return &fs.PathError{Op: "open", Path: d.path, Err: errors.New("not a regular file")}
	}
	if err := unix.Access(d.path, unix.R_OK|unix.W_OK); err != nil {
		return &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	return nil
}

// busyAfter bounds a call's wait for a file that other processes keep locked.
const busyAfter = 10 * time.Second

// walSize is the size in bytes to which the write-ahead log shrinks after a long reader kept it
// from being reused.
const walSize = 16 << 20

// source returns the data source name: the file, and the pragmas of each connection.
func (d *Driver) source(readOnly bool) string {
	busy := fmt.Sprintf("busy_timeout(%d)", busyAfter.Milliseconds())
	pragmas := url.Values{"_pragma": {busy, "auto_vacuum(incremental)", "journal_mode(wal)", "synchronous(full)",
		"secure_delete(fast)", fmt.Sprintf("journal_size_limit(%d)", walSize), "foreign_keys(1)"}}
	if readOnly {
		pragmas["_pragma"] = []string{busy, "query_only(1)"}
	}
	path := d.path
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	query := pragmas.Encode()
	if d.way != "" {
		query += "&" + d.way
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}

// Name returns sqlite.
func (d *Driver) Name() string { return "sqlite" }

// Embedded returns true: one process at a time runs roles on a file.
func (d *Driver) Embedded() bool { return true }

// errClosed is the error of every call after Close.
var errClosed = fault.New(fault.Unavailable, "the database is closed")

// take waits for the writer connection.
func (d *Driver) take(ctx context.Context) (*sql.Conn, error) {
	if d.refusal != nil {
		return nil, d.refusal
	}
	select {
	case conn, ok := <-d.writer:
		if !ok {
			return nil, errClosed
		}
		return conn, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Write runs fn in one transaction. There is one writer, whatever the use.
func (d *Driver) Write(ctx context.Context, _ store.Use, fn func(store.Rows) error) error {
	return d.writing(ctx, nil, true, fn)
}

// writing runs fn on the writer connection. It commits the changes if keep is set and fn returns
// nil, else it undoes them.
func (d *Driver) writing(ctx context.Context, plans *[]string, keep bool, fn func(store.Rows) error) (err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer func() { d.writer <- conn }()
	committed := false
	defer func() {
		if !committed { // even after a BEGIN that failed: its context may have ended when the transaction had begun
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // the first error is returned
		}
	}()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return d.explain("begin", err)
	}
	t := &tx{ctx: ctx, driver: d, conn: conn, kept: d.kept, writes: true, now: d.now(), plans: plans}
	if err := fn(t); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return d.explain("commit", err)
	}
	committed = true
	if t.erases { // else the log is emptied later
		_ = drained(context.WithoutCancel(ctx), conn, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return nil
}

// Read runs fn on one state of the database. Readers have connections of their own.
func (d *Driver) Read(ctx context.Context, use store.Use, fn func(store.Rows) error) error {
	from := d.read
	if use == store.ForReaders || use == store.ForLists {
		from = d.browse
	}
	r, err := from.take(ctx)
	if err != nil {
		return d.explain("read", err)
	}
	defer func() { from.free <- r }()
	conn := r.conn
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }() // nothing was written; as in writing
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return d.explain("read", err)
	}
	return fn(&tx{ctx: ctx, driver: d, conn: conn, kept: r.kept, now: d.now()})
}

// Explain returns the query plans of what fn does, and undoes it.
func (d *Driver) Explain(ctx context.Context, fn func(store.Rows) error) ([]string, error) {
	var plans []string
	err := d.writing(ctx, &plans, false, fn)
	return plans, err
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

// Listen checks once a second whether another process has committed. SQLite reports that something
// changed, not what, so it signals every topic.
func (d *Driver) Listen(changed func(store.Signal)) {
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.stopped.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		last := int64(0)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			version, err := d.version(ctx)
			if err != nil || version == last {
				continue
			}
			last = version
			if schema, err := schemaOf(ctx, d.watch); err == nil {
				d.newer.Store(schema > newest)
			}
			for _, topic := range store.Topics() {
				changed(store.Signal{Topic: topic})
			}
		}
	})
}

// version returns a number that changes with every commit of another connection. Only values of one
// connection can be compared, so all reads are on watch.
func (d *Driver) version(ctx context.Context) (version int64, err error) {
	err = d.watch.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version)
	return version, err
}

// Poll returns how long a waiter sleeps without a signal.
func (d *Driver) Poll() time.Duration { return store.FullPoll }

// Maintain does nothing: a file has no partitions to make ahead.
func (d *Driver) Maintain(context.Context) error { return nil }

// Guard does nothing: waybill.lock guards the one instance.
func (d *Driver) Guard(context.Context, action.ID) (int64, error) { return 0, nil }

// Guarded returns true, since Guard binds nothing.
func (d *Driver) Guarded() bool { return true }

// Close ends every connection, after the transaction that is in progress. Closing again does nothing.
func (d *Driver) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	if d.stop != nil {
		d.stop()
	}
	d.stopped.Wait()
	var errs []error
	if d.watch != nil {
		errs = append(errs, d.watch.Close())
	}
	for _, all := range []*readers{d.read, d.browse} {
		if all != nil {
			errs = append(errs, all.close())
		}
	}
	if d.opened {
		if conn, ok := <-d.writer; ok { // waits for the transaction that is in progress
			close(d.writer)
			errs = append(errs, d.kept.close(), conn.Close())
		}
	}
	if d.write != nil {
		errs = append(errs, d.write.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", d.path, err)
	}
	return nil
}

// now returns the time as it is stored.
func (d *Driver) now() time.Time { return d.clock().UTC().Truncate(time.Microsecond) }
