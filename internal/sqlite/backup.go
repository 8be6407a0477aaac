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
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Backup writes a copy of the log in the file from to the file to, and checks the copy. Other connections may work in
// the meantime; the copy is one state of the log. The file to must not exist. It appears once the copy is complete.
//
// The copy is made by VACUUM INTO. SQLite's online backup would start again with each commit of
// another process.
func Backup(ctx context.Context, from, to string) error {
	exists := fault.New(fault.Invalid, "%s exists already", to).WithHint("name a new file; a backup replaces nothing")
	if _, err := os.Lstat(to); err == nil {
		return exists
	}
	partial := to + ".partial"
	if err := copyLog(ctx, from, partial); err != nil {
		return errors.Join(err, removed(partial))
	}
	if err := rename(partial, to); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = exists
		} else {
			err = fault.New(fault.Unavailable, "write the backup: %w", err)
		}
		return errors.Join(err, removed(partial))
	}
	return file.SyncFolder(filepath.Dir(to))
}

// rename gives a file another name that no file has; otherwise the error is fs.ErrExist. It
// reserves the name by an empty file first, since not every file system has hard links.
func rename(from, to string) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), os.Rename(from, to)); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// copyLog writes a copy of a log into a new file and checks it.
func copyLog(ctx context.Context, from, to string) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fault.New(fault.Unavailable, "write the backup: %w", err)
	}
	defer f.Close()
	source := &Driver{path: from}
	if err := source.using("ro", func(db *sql.DB) error {
		_, err := schemaIn(ctx, db, from)
		if err != nil {
			return err
		}
		if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
			return (&Driver{path: to}).explain("copy the log", err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fault.New(fault.Unavailable, "write the backup: %w", err)
	}
	return check(ctx, to)
}

// using opens the file on one connection, runs use on it, and closes it.
func (d *Driver) using(mode string, use func(*sql.DB) error) error {
	db, err := d.one(mode)
	if err != nil {
		return err
	}
	return errors.Join(d.explain("read", use(db)), db.Close())
}

// one opens the file on one connection. What is to be read and cannot be written is read as by openToRead.
func (d *Driver) one(mode string) (*sql.DB, error) {
	query := url.Values{"mode": {mode}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyAfter.Milliseconds())}}
	path, err := filepath.Abs(d.path)
	if err != nil {
		return nil, err
	}
	for {
		db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		if query.Has("immutable") || mode != "ro" || !d.isSettled() {
			return db, nil
		}
		if _, err := db.ExecContext(context.Background(), "SELECT count(*) FROM sqlite_schema"); !refusesWrites(err) {
			return db, nil
		}
		_ = db.Close() // nothing was done with it
		query.Set("immutable", "1")
	}
}

// schemaIn returns the schema of a file; fault.Invalid when the file is not a log.
func schemaIn(ctx context.Context, db *sql.DB, path string) (schema int, err error) {
	var isLog bool
	err = db.QueryRowContext(ctx, "SELECT count(*) = 2 FROM sqlite_schema WHERE type = 'table' AND name IN ('meta', 'entry')").Scan(&isLog)
	if damaged, ok := errors.AsType[*sqlite.Error](err); err != nil && (!ok || damaged.Code()&0xff != sqlite3.SQLITE_NOTADB) {
		return 0, err
	}
	if !isLog {
		return 0, fault.New(fault.Invalid, "%s is not a log of Waybill", path)
	}
	err = db.QueryRowContext(ctx, "SELECT schema FROM meta").Scan(&schema)
	return schema, err
}

// check reads every page of a file; fault.Corrupt when one is damaged.
func check(ctx context.Context, path string) error {
	return (&Driver{path: path}).using("ro", func(db *sql.DB) error {
		var found string
		if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found); err != nil {
			return err
		}
		if found != "ok" {
			return fault.New(fault.Corrupt, "%s is damaged: %s", path, found)
		}
		return nil
	})
}

// Restore replaces the log in the file to by the log of a backup, and keeps the old one in the file
// kept, which the caller names. kept is unused when no log is there yet. No other process may have
// the log open. The restored log has the newest schema.
//
// The order is copy, renew, set aside, rename. A crash before the last step leaves the old log in
// place or in kept, and never half of a log in to.
func Restore(ctx context.Context, from, to, kept string) error {
	fresh := to + ".restored"
	if err := copyLog(ctx, from, fresh); err != nil {
		return errors.Join(err, removed(fresh))
	}
	if err := checkShape(ctx, fresh, from); err != nil { // before anything is written, which would run its triggers
		return errors.Join(err, removed(fresh))
	}
	if err := renew(ctx, fresh, from, eraOf(ctx, to)); err != nil {
		return errors.Join(err, removed(fresh))
	}
	if err := setAside(ctx, to, kept); err != nil {
		return errors.Join(err, removed(fresh))
	}
	if err := os.Rename(fresh, to); err != nil {
		err = fault.New(fault.Unavailable, "put the restored log in place: %w", err)
		return errors.Join(err, putBack(kept, to), removed(fresh))
	}
	return file.SyncFolder(filepath.Dir(to))
}

// eraOf returns the era of the log in a file; 0 when none can be read, since a restore may well
// replace a log that is damaged.
func eraOf(ctx context.Context, path string) (era int64) {
	if _, err := os.Stat(path); err != nil {
		return 0
	}
	_ = (&Driver{path: path}).using("ro", func(db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT tx >> ? FROM meta", queue.EraBits).Scan(&era)
	})
	return era
}

// renew migrates a copy to the newest schema, checks the digests of its entries, and starts a new era of recorded positions, above that
// of the log that it replaces. Readers of the event stream may have seen positions that the backup
// does not have, and new events must come after those.
func renew(ctx context.Context, path, name string, replaced int64) error {
	d, err := Open(ctx, path)
	if err != nil {
		return err
	}
	if err := d.checkDigests(ctx, name); err != nil {
		return errors.Join(err, d.Close())
	}
	conn, err := d.take(ctx)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	_, err = conn.ExecContext(ctx, "UPDATE meta SET tx = (max(tx >> ?1, ?2) + 1) << ?1", queue.EraBits, replaced)
	if err == nil { // afterwards the file alone is the log
		err = drained(ctx, conn, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	d.writer <- conn
	return errors.Join(d.explain("start a new era", err), d.Close())
}

// checkDigests returns fault.Corrupt, which calls the log by a name, if an entry does not have the digest that it was written with.
func (d *Driver) checkDigests(ctx context.Context, name string) error {
	var faults []string
	err := d.Read(ctx, store.ForQueue, func(t store.Rows) (err error) {
		faults, err = journal.CheckDigests(t.(*tx))
		return err
	})
	if err == nil && len(faults) > 0 {
		err = fault.New(fault.Corrupt, "%s was edited: %s", name, strings.Join(faults, "; ")).WithHint("use a backup that was not edited")
	}
	return err
}

// setAside renames the log of a file and the files that SQLite keeps beside it, so that another
// file can take its place.
func setAside(ctx context.Context, path, kept string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	old := &Driver{path: path}
	err := old.using("rw", func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "PRAGMA journal_mode = delete") // needs the file for itself, and empties the WAL into it
		return err
	})
	if fault.Is(err, fault.LedgerUnavailable) || ctx.Err() != nil {
		return fault.New(fault.Unavailable, "another process has %s open", path).
			WithHint("end every waybill process of this home, then restore again")
	}
	if err := rename(path, kept); err != nil {
		return fault.New(fault.Unavailable, "keep the old log as %s: %w", kept, err)
	}
	for _, suffix := range []string{"-wal", "-shm"} { // left by a damaged log, or by a log whose file was replaced
		if err := os.Rename(path+suffix, kept+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fault.New(fault.Unavailable, "keep the old log as %s: %w", kept, err), putBack(kept, path))
		}
	}
	return nil
}

// putBack undoes setAside.
func putBack(kept, path string) error {
	var faults []error
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(kept+suffix, path+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// removed removes a file and what SQLite may have left beside it.
func removed(path string) error {
	var faults []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}
