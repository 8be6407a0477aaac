package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// LockFile is the lock's name in the home. On the embedded log its holder is the one process that
// runs roles.
const LockFile = "waybill.lock"

// HomeLock is the home, locked by this process. It ends with the process, however that ends.
type HomeLock struct {
	home string
	file *flock.Flock
	at   os.FileInfo // the lock file when it was taken
}

// Held reports that another process has the home.
type Held struct {
	Home  string    `json:"-"`
	PID   int       `json:"pid"`            // 0: unknown
	Since time.Time `json:"since"`          // zero: unknown
	Kept  bool      `json:"kept,omitempty"` // Keep runs there, so the time of the lock file shows when
	Heard time.Time `json:"-"`              // time of its last sign of life; zero: unknown, as with an earlier version
}

// HomeLease is the time after the last sign of life for which the holder of a home counts as running.
const HomeLease = 15 * time.Second

// Silent reports whether the holder has not been heard from for longer than HomeLease: it is stopped or hangs.
func (h *Held) Silent() bool { return !h.Heard.IsZero() && time.Since(h.Heard) > HomeLease }

func (h *Held) Error() string {
	if h.PID == 0 {
		return fmt.Sprintf("another Waybill runs the home %s", h.Home)
	}
	text := fmt.Sprintf("another Waybill (pid %d, since %s) runs the home %s", h.PID, h.Since.Local().Format("15:04"), h.Home)
	if h.Silent() {
		text += fmt.Sprintf(", and has not been heard from since %s", h.Heard.Local().Format("15:04:05"))
	}
	return text
}

// How long Lock waits, since a process that only checks the lock (IsHeld) has the file for a moment
// too.
const (
	lockPatience = 100 * time.Millisecond
	lockPause    = 5 * time.Millisecond
)

// Lock takes the home, which must be there. While another process has it, the error is
// fault.Unavailable around a *Held.
func Lock(home string) (*HomeLock, error) {
	path := filepath.Join(home, LockFile)
	lock := flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|unix.O_NONBLOCK))
	ctx, stop := context.WithTimeout(context.Background(), lockPatience)
	defer stop()
	locked, err := lock.TryLockContext(ctx, lockPause)
	if err != nil && ctx.Err() == nil {
		return nil, unlockable(home, err)
	}
	if !locked {
		return nil, fault.Wrap(fault.Unavailable, holder(home, path)).
			WithHint("end that process, then try again")
	}
	if at, err := os.Stat(path); err == nil && !at.Mode().IsRegular() { // a pipe can be locked, and keeps no text
		return nil, errors.Join(unlockable(home, fmt.Errorf("%s: %w", LockFile, file.ErrKind)), lock.Unlock())
	}
	if err := sign(path, false); err != nil {
		return nil, errors.Join(unlockable(home, err), lock.Unlock())
	}
	at, err := os.Stat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look at %s: %w", path, err), lock.Unlock())
	}
	return &HomeLock{home: home, file: lock, at: at}, nil
}

// unlockable returns the error for a home that cannot be written.
func unlockable(home string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fault.New(fault.Unavailable, "lock the home %s: %w", home, err).
		WithHint("check that the folder is there and yours to write, and that its disk takes writes and has room")
}

// keepEvery is the interval at which Keep reads the lock file.
const keepEvery = time.Second

// Keep shows by the lock file's time that this process runs, and takes the home again when the lock file was removed or replaced,
// until ctx ends. A lock on a file without a name keeps no other process away. If one has taken the home by then, the error is
// fault.Unavailable around a *Held.
func (l *HomeLock) Keep(ctx context.Context) error {
	_ = sign(filepath.Join(l.home, LockFile), true) // as with the time, a disk that takes no writes keeps all else from this process, too
	look := time.NewTicker(keepEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if err := l.retake(); err != nil {
			return err
		}
	}
}

// retake takes the home again unless the lock file is the one that is locked.
func (l *HomeLock) retake() error {
	path := filepath.Join(l.home, LockFile)
	if now, err := os.Stat(path); err == nil && os.SameFile(now, l.at) {
		_ = os.Chtimes(path, time.Time{}, time.Now()) // a disk that takes no writes keeps all else from this process, too
		return nil
	}
	again, err := Lock(l.home)
	if err != nil {
		return err
	}
	_ = sign(path, true)
	former := l.file
	l.file, l.at = again.file, again.at
	return former.Close()
}

// IsHeld reports whether a process has the home. It does not keep one that is starting from taking
// it.
func IsHeld(home string) bool {
	path := filepath.Join(home, LockFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	file := flock.New(path, flock.SetFlag(os.O_RDONLY|unix.O_NONBLOCK)) // a pipe is not waited for
	shared, err := file.TryRLock()
	if err != nil || !shared {
		return true // what cannot be looked at is left alone
	}
	return file.Unlock() != nil
}

// Holder returns the process that holds the home, or nil.
func Holder(home string) *Held {
	if !IsHeld(home) {
		return nil
	}
	return holder(home, filepath.Join(home, LockFile))
}

// Unlock gives the home back.
func (l *HomeLock) Unlock() error { return l.file.Unlock() }

// sign writes which process holds the lock, for messages, and whether it keeps it. The lock counts without this text too.
func sign(path string, kept bool) error {
	text, err := json.Marshal(Held{PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second), Kept: kept})
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600) // truncates in place: the lock is on this very file
}

// mostHolder is the bound of that text, in bytes.
const mostHolder = 4 << 10

// holder reads which process has the lock. A fact that cannot be read stays unknown.
func holder(home, path string) *Held {
	held := &Held{Home: home}
	text, err := file.Read(path, mostHolder)
	if err != nil {
		return held
	}
	if json.Unmarshal(text, held) != nil {
		return &Held{Home: home}
	}
	if info, err := os.Stat(path); err == nil && held.Kept {
		held.Heard = info.ModTime()
	}
	return held
}
