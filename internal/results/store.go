package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
)

// reserveSize is kept free for the last statuses, in bytes.
const reserveSize = 1 << 20

// Store writes the results of one build. Safe for concurrent use.
type Store struct {
	dir      string
	logLimit int64
	lock     *os.File
	written  broadcast // announces entries
	recorded broadcast // announces statuses and artifacts

	full atomic.Bool // the reserve was given up, and the rest is for statuses

	mu        sync.Mutex
	described Build
	events    int64 // id of the last update
	artifacts int   // id of the last artifact
	steps     map[int]*step
}

// step is the store's memory of one step's files.
type step struct {
	log       *Log
	updates   []build.Update
	artifacts []build.Artifact
}

// Create makes the folder for a new build's results. logLimit is the size in bytes above which a
// step's log fails it.
func Create(dir string, logLimit int64) (*Store, error) {
	if err := ownFolder(dir); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, buildFile)); err == nil {
		return nil, fmt.Errorf("make results: %s holds the results of a build already", dir)
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("make results: %w", err)
	}
	s := &Store{dir: dir, logLimit: logLimit, lock: lock, steps: map[int]*step{}}
	if err := os.WriteFile(filepath.Join(dir, reserveName), make([]byte, reserveSize), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("make results: %w", err), s.Close())
	}
	return s, nil
}

// Names below the folder.
const (
	buildFile     = "build.json"
	stepsFolder   = "steps"
	logFile       = "output.log"
	statusFile    = "status.json"
	artifactsFile = "artifacts.json"
	artifactsDir  = "artifacts"
	testsFile     = "test-results.json"
	lockName      = "lock"
	reserveName   = "reserve"
	snapshotFile  = "workspace.tar.zst"
)

// WorkerFile is the name of the file with the address of the worker that serves the results.
const WorkerFile = "worker.json"

// ownFolder makes dir, or makes sure that it is a folder of this user that other users cannot
// enter, and not a link.
func ownFolder(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("make a folder for results: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make a folder for results: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("make a folder for results: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case ok && int(stat.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users may enter %s (mode %04o): chmod 700 %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}

// lockFile opens and locks a file until it is closed, by this process or by its death.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another worker holds it; name another folder")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// Dir returns the folder of the results.
func (s *Store) Dir() string { return s.dir }

// Describe writes build.json.
func (s *Store) Describe(b Build) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.described = b
	return s.replace(filepath.Join(s.dir, buildFile), b, true)
}

// SnapshotPath returns the path of the file for the workspace that the steps get.
func (s *Store) SnapshotPath() string { return filepath.Join(s.dir, snapshotFile) }

// DescribeSnapshot adds the digest of that file's tar to build.json.
func (s *Store) DescribeSnapshot(digest string) error {
	s.mu.Lock()
	b := s.described
	s.mu.Unlock()
	b.Workspace = digest
	return s.Describe(b)
}

// Announce writes worker.json, which only this user can read, until Close.
func (s *Store) Announce(w Worker) error {
	return s.replace(filepath.Join(s.dir, WorkerFile), w, true)
}

// TakenFile is a file of the results that is there once a reader has acknowledged everything.
const TakenFile = "acknowledged"

// MarkTaken notes that a reader has acknowledged everything, so that the folder may be removed.
func (s *Store) MarkTaken() error {
	if err := replaceFile(filepath.Join(s.dir, TakenFile), nil, true); err != nil {
		return fmt.Errorf("write %s: %w", TakenFile, err)
	}
	return nil
}

// Close closes every file and lets go of the lock. What was written stays.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, step := range s.steps {
		if step.log != nil {
			errs = append(errs, step.log.close())
		}
	}
	_ = os.Remove(filepath.Join(s.dir, reserveName)) // given up already, perhaps
	_ = os.Remove(filepath.Join(s.dir, WorkerFile))  // nothing was announced, perhaps
	return errors.Join(append(errs, s.lock.Close())...)
}

func (s *Store) stepDir(id int) string {
	return filepath.Join(s.dir, stepsFolder, strconv.Itoa(id))
}

// step finds or begins a step. The caller holds the lock.
func (s *Store) step(id int) (*step, error) {
	if known := s.steps[id]; known != nil {
		return known, nil
	}
	if err := os.MkdirAll(s.stepDir(id), 0o700); err != nil {
		return nil, fmt.Errorf("begin step %d: %w", id, err)
	}
	s.steps[id] = &step{}
	return s.steps[id], nil
}

// replace writes v as JSON so that a crash leaves the old file or the new one; it
// is the new one for certain when sure is set. On a full disk the reserve is given
// up and it is tried once more.
func (s *Store) replace(path string, v any, sure bool) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = replaceFile(path, append(text, '\n'), sure)
	if errors.Is(err, syscall.ENOSPC) {
		s.giveUpReserve()
		err = replaceFile(path, append(text, '\n'), sure)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// giveUpReserve makes room for the last statuses, which logs and artifacts do not take.
func (s *Store) giveUpReserve() {
	s.full.Store(true)
	_ = os.Remove(filepath.Join(s.dir, reserveName))
}

func replaceFile(path string, text []byte, sure bool) error {
	temporary := path + ".tmp"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, path); err != nil || !sure {
		return err
	}
	return file.SyncFolder(filepath.Dir(path))
}
