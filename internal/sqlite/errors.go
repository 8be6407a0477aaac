package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/waybill-dev/waybill/internal/fault"
)

// explain returns an error of the database with its code and a hint. doing is the work that failed.
// Errors that have a code, and those of an ended context, stay as they are.
func (d *Driver) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, coded := errors.AsType[*fault.Error](err); coded {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if d.closed.Load() {
		return errClosed
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		if isFull(path.Err) {
			return d.full()
		}
		return d.unusable(path.Err)
	}
	coded, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if isFull(err) {
		return d.full()
	}
	switch coded.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fault.New(fault.Corrupt, "%s is damaged: %w", d.path, err).
			WithHint("move the file away, with its -wal and -shm beside it, and then restore a backup or start with an empty log")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return d.busy()
	case sqlite3.SQLITE_IOERR:
		return d.ioError(err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return d.unusable(err)
	case sqlite3.SQLITE_INTERRUPT:
		return fmt.Errorf("%s: %w", doing, context.Canceled)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// busy returns the error of a lock that another process has not released within busyAfter.
func (d *Driver) busy() error {
	return fault.New(fault.LedgerUnavailable, "%s is busy: another process has been writing for %s", d.path, busyAfter)
}

// isFull reports whether an error is that of a full disk. SQLite reports some as I/O errors: the system's error is then ENOSPC,
// or the small file that its processes share could not be made.
func isFull(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	coded, ok := errors.AsType[*sqlite.Error](err)
	return ok && (coded.Code()&0xff == sqlite3.SQLITE_FULL || coded.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}

// full returns the error of a full disk.
func (d *Driver) full() error {
	return fault.New(fault.LedgerUnavailable, "disk is full: %s cannot grow", d.path).WithHint("make room; nothing committed is lost")
}

// ioError returns the error of a disk that cannot be read or written.
func (d *Driver) ioError(err error) error {
	return fault.New(fault.LedgerUnavailable, "%s cannot be read or written: %w", d.path, err).
		WithHint("is the disk full or failing? df %s", filepath.Dir(d.path))
}

// unusable returns the error of a file that cannot be opened.
func (d *Driver) unusable(cause error) error {
	return fault.New(fault.Unavailable, "the database %s cannot be opened: %w", d.path, cause).
		WithHint("check that the folder exists and may be written by this user")
}
