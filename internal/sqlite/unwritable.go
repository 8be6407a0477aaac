package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/waybill-dev/waybill/internal/fault"
)

// ToRead has Open open the file to be read alone where its disk is full or takes no writes. Every write then
// fails with the reason.
func ToRead() Option { return func(d *Driver) { d.toRead = true } }

// Ways to read a file that cannot be written.
const (
	readOnly  = "mode=ro"             // takes part in the locks of processes that have the file open, and reads what is in its write-ahead log
	immutable = "mode=ro&immutable=1" // needs no file beside it, and sees no write-ahead log
)

// openToRead opens a file that cannot be written for the given reason. It makes no file beside it.
func (d *Driver) openToRead(ctx context.Context, refusal error) error {
	failed := d.readWith(ctx, readOnly)
	if refusesWrites(failed) {
		if !d.isSettled() {
			return fault.New(fault.Unavailable,
				"the newest entries of %s are in %s-wal, which cannot be read where nothing can be written", d.path, d.path).
				WithHint("copy %s to a disk that has room, and name the copy with --home", filepath.Dir(d.path))
		}
		failed = d.readWith(ctx, immutable)
	}
	d.refusal = d.unwritable(refusal)
	return failed
}

// isSettled reports whether the file has all that was committed, and nothing of it is in the write-ahead log.
func (d *Driver) isSettled() bool {
	log, err := os.Stat(d.path + "-wal")
	return errors.Is(err, fs.ErrNotExist) || err == nil && log.Size() == 0
}

// readWith makes the connections of readers in one of the ways, and reads the schema.
func (d *Driver) readWith(ctx context.Context, way string) error {
	d.way = way
	conn, err := sql.Open("sqlite", d.source(true))
	if err != nil {
		return err
	}
	defer conn.Close()
	first, err := conn.Conn(ctx)
	if err != nil {
		return err
	}
	defer first.Close()
	have, err := schemaOf(ctx, first)
	switch {
	case err != nil:
		return err
	case have > newest:
		return d.tooNew(have, newest)
	case have < newest:
		return fault.New(fault.Unavailable,
			"%s was written by an older Waybill, and cannot be brought up to date where it cannot be written", d.path).
			WithHint("read it with the older version, or give it a disk that has room and takes writes")
	}
	return d.openReaders(ctx)
}

// refusesWrites reports whether an error of Open may be about writes alone.
func refusesWrites(err error) bool {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return errors.Is(path.Err, syscall.EROFS) || errors.Is(path.Err, syscall.ENOSPC) ||
			errors.Is(path.Err, syscall.EDQUOT) || errors.Is(path.Err, fs.ErrPermission)
	}
	coded, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch coded.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR:
		return true
	}
	return false
}

// unwritable returns the error of every write to a file that is only read.
func (d *Driver) unwritable(refusal error) error {
	if path, ok := errors.AsType[*fs.PathError](refusal); ok {
		refusal = path.Err
	}
	if isFull(refusal) {
		return d.full()
	}
	failed := fault.New(fault.Unavailable, "the log %s can be read, but not written: %w", d.path, refusal)
	if errors.Is(refusal, syscall.EROFS) {
		return failed.WithHint("mount the disk of %s to be written", filepath.Dir(d.path))
	}
	return failed.WithHint("let this user write to %s", filepath.Dir(d.path))
}
