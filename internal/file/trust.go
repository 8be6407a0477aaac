package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrForeign reports a file that belongs to neither this user nor root.
var ErrForeign = errors.New("it belongs to another user")

// ReadRegular reads a regular file or a link to one, of any user, up to one byte beyond the limit.
func ReadRegular(path string, limit int64) ([]byte, error) {
	return ReadChecked(path, limit, func(fs.FileInfo) error { return nil })
}

// ReadChecked works like ReadRegular, and reads nothing of a file for which check returns an error. check is called
// with the opened file, which its owner cannot exchange any more.
func ReadChecked(path string, limit int64, check func(fs.FileInfo) error) ([]byte, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := check(info); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// OthersMayUse reports whether users other than this process's may read or change a file. A file of another user that
// this process reads by its group is a Secret that Kubernetes mounts.
func OthersMayUse(info fs.FileInfo) bool {
	others := fs.FileMode(0o077)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		others = 0o037
	}
	return info.Mode().Perm()&others != 0
}

// Plain returns the faults of a file, without the operation and the path.
func Plain(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
