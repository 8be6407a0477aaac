package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// open locks the mirror, or returns an error of class Later if another operation has it.
func (o *session) open() error {
	path := lockOf(o.dir)
	lock, err := openLock(path)
	if err != nil {
		return fmt.Errorf("lock the mirror: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return &Error{Class: Later, Reason: InUse, Text: "another operation uses the mirror of the repository"}
		}
		return fmt.Errorf("lock the mirror: %w", err)
	}
	o.lock = lock
	now := time.Now()
	_ = os.Chtimes(path, now, now) // time of the last use, which Sweep reads
	_ = os.RemoveAll(o.private)    // keys that a crash has left
	return nil
}

func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

// close forgets the keys and unlocks the mirror.
func (o *session) close() {
	_ = os.RemoveAll(o.private)
	unlock(o.lock)
}

// unlock ends a lock. To close the file is not enough: a program that this process starts at the same moment has a copy of it for
// an instant, and keeps the lock as long.
func unlock(lock *os.File) {
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
	_ = lock.Close()
}

// prepare makes the mirror if there is none, or if it has gathered too many fetches.
func (o *session) prepare(ctx context.Context) error {
	packs, err := fs.Glob(os.DirFS(o.dir), "objects/pack/*.pack")
	if err != nil || len(packs) > mostPacks {
		if err := os.RemoveAll(o.dir); err != nil {
			return fmt.Errorf("delete an old mirror: %w", err)
		}
	}
	if err := o.writeKeys(nil); err != nil {
		return err
	}
	if err := o.measure(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(o.dir, "config")); err == nil {
		return nil
	}
	o.isNew, o.room = true, o.store.MostBytes
	temporary := o.dir + ".new"
	if err := errors.Join(os.RemoveAll(temporary), os.RemoveAll(o.dir)); err != nil {
		return fmt.Errorf("make a mirror: %w", err)
	}
	_, err = o.run(ctx, call{arguments: []string{"init", "--quiet", "--bare", "--template="}, environ: []string{"GIT_DIR=" + temporary}})
	if err == nil {
		err = os.Rename(temporary, o.dir)
	}
	if err != nil {
		return fmt.Errorf("make a mirror: %w", err)
	}
	return nil
}
