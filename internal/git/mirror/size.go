package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of a mirror. One of depth one holds the files of a few branches, which are far below the usual bound in a GitOps repository.
const (
	usualSize = 2 << 30
	leastRoom = 64 << 10 // room of the index and the trees of an edit
)

// sizeOf returns the size of all files in a folder, but for those that are left over, which it deletes; 0 without a folder.
func sizeOf(dir string, isLeft func(path string) bool) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if isLeft(path) {
			return os.Remove(path)
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("measure the mirror: %w", err)
	}
	return bytes, nil
}

// measure deletes the parts of packs and the locks that a killed git has left, and finds the room that the mirror has before its bound.
func (o *session) measure() error {
	part := filepath.Join(o.dir, "objects", "pack", "tmp_")
	size, err := sizeOf(o.dir, func(path string) bool { return strings.HasPrefix(path, part) || strings.HasSuffix(path, ".lock") })
	o.room = max(o.store.MostBytes-size, leastRoom)
	return err
}

// checkSize returns an error if a fetch has reached the bound of the mirror: a part of a pack takes all of the room, since git was not
// allowed to write more, or the mirror is larger, as it may be where no process is bounded.
func (o *session) checkSize() error {
	size, err := sizeOf(o.dir, func(string) bool { return false })
	if err == nil && size >= o.store.MostBytes {
		err = o.tooLarge()
	}
	return err
}

func (o *session) tooLarge() error {
	return fatal(TooLarge, "the repository is too large: the newest commits of its branches take more than %d MiB", o.store.MostBytes>>20)
}

// isTooLarge reports whether an operation has failed because the mirror reached its bound.
func isTooLarge(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == TooLarge
}
