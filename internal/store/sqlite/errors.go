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

// explain gives an error of the database its code and says what to do about it.
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
		return d.unusable(path.Err)
	}
	coded, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", doing, err)
	}
	switch coded.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fault.New(fault.Corrupt, "%s is damaged: %w", d.path, err).
			WithHint("move the file away, with its -wal and -shm beside it, and restore a copy or start again")
	case sqlite3.SQLITE_FULL:
		return fault.New(fault.LedgerUnavailable, "disk is full: %s cannot grow", d.path).WithHint("make room; nothing committed is lost")
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

func (d *Driver) busy() error {
	return fault.New(fault.LedgerUnavailable, "%s is busy: another process has been writing for %s", d.path, busyAfter)
}

// ioError is a full disk where the system says so in its own way.
func (d *Driver) ioError(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fault.New(fault.LedgerUnavailable, "disk is full: %s cannot grow", d.path).WithHint("make room; nothing committed is lost")
	}
	return fault.New(fault.LedgerUnavailable, "%s cannot be read or written: %w", d.path, err).
		WithHint("is the disk full or failing? df %s", filepath.Dir(d.path))
}

func (d *Driver) unusable(cause error) error {
	return fault.New(fault.Unavailable, "the ledger %s cannot be opened: %w", d.path, cause).
		WithHint("check that the folder exists and may be written by this user")
}
