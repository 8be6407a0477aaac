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
	// The descriptor stays open until the process ends, and with it the lock.
	lock, err := unix.Open(filepath.Join(dir, scratchLock), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		err = unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("make a scratch folder: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
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
