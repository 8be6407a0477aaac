package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// keepUnused is the time after its last use for which a mirror stays: pipelines come and go, and a repository that is used again is
// fetched again.
const keepUnused = 7 * 24 * time.Hour

// lockOf returns the path of a mirror's lock. The time of its last change is that of the last use of the mirror.
func lockOf(dir string) string { return strings.TrimSuffix(dir, ".git") + ".lock" }
func keysOf(dir string) string { return strings.TrimSuffix(dir, ".git") + ".keys" }

// Sweep deletes the mirrors in the folder of a Store that no pipeline of any process has used for a week. One in use stays.
func Sweep(folder string) error {
	names, err := fs.Glob(os.DirFS(folder), "*.git") // the name of the folder may have any characters
	for _, name := range names {
		dir := filepath.Join(folder, name)
		if used, statErr := os.Stat(lockOf(dir)); statErr == nil && time.Since(used.ModTime()) < keepUnused {
			continue
		}
		err = errors.Join(err, sweep(dir))
	}
	if err != nil {
		return fmt.Errorf("delete unused mirrors: %w", err)
	}
	return nil
}

// sweep deletes a mirror, unless it is in use. Its lock stays: an operation may be about to take it.
func sweep(dir string) error {
	lock, err := openLock(lockOf(dir))
	if err != nil {
		return err
	}
	defer unlock(lock)
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // an operation has it
	}
	return errors.Join(os.RemoveAll(keysOf(dir)), os.RemoveAll(dir+".new"), os.RemoveAll(dir)) // a crash may have left the first two
}
