package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// scratchLock is held while the process that made a scratch folder lives.
const scratchLock = "lock"

// Scratch makes a folder below root that is this process's alone, for copies of
// a workspace, and removes those of processes that died without doing so.
func Scratch(root string) (string, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", fmt.Errorf("make a scratch folder: %w", err)
	}
	sweep(root)
	dir, err := os.MkdirTemp(root, "")
	if err != nil {
		return "", fmt.Errorf("make a scratch folder: %w", err)
	}
	if err := lockScratch(dir); err != nil {
		return "", errors.Join(fmt.Errorf("make a scratch folder: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

// lockScratch makes the lock of a scratch folder and holds it until the process ends: the descriptor stays open. The
// file gets its name once it is locked, since another process may sweep in the meantime.
func lockScratch(dir string) error {
	path := filepath.Join(dir, scratchLock)
	lock, err := unix.Open(path+".new", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB), os.Rename(path+".new", path)); err != nil {
		return errors.Join(err, unix.Close(lock))
	}
	return nil
}

// sweep removes scratch folders whose lock no process holds. The next sweep tries again what this
// one cannot remove.
func sweep(root string) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		lock, err := unix.Open(filepath.Join(dir, scratchLock), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // just being made, or not ours
		}
		if unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = Remove(dir)
		}
		_ = unix.Close(lock) // nothing was written
	}
}
