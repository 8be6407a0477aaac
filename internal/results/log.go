package results

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
)

// Log is the entries of one step. Safe for concurrent use.
type Log struct {
	store *Store
	limit int64

	mu      sync.Mutex
	file    *os.File
	hash    hash.Hash
	buffer  []byte
	last    time.Time // times never go back within a step
	stamp   []byte    // last, formatted
	entries int64
	bytes   int64
	failed  error // why nothing more is written
}

// Log opens the log of a step.
func (s *Store) Log(id int) (*Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step, err := s.step(id)
	if err != nil {
		return nil, err
	}
	if step.log != nil {
		return step.log, nil
	}
	f, err := os.OpenFile(filepath.Join(s.stepDir(id), logFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of step %d: %w", id, err)
	}
	step.log = &Log{store: s, limit: s.logLimit, file: f, hash: sha256.New()}
	return step.log, nil
}

// Append writes the entries with one write, of those that cross the limit the first for which there is room. After ErrDiskFull or
// ErrLogLimit nothing more is written.
func (l *Log) Append(entries ...build.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil && l.store.full.Load() {
		l.failed = ErrDiskFull
	}
	if l.failed != nil {
		return l.failed
	}
	l.buffer = l.buffer[:0]
	var count int64
	for _, e := range entries {
		if l.stamp == nil || e.At.After(l.last) {
			l.last = e.At
			l.stamp = build.FormatTime(l.stamp[:0], e.At)
		}
		count += l.format(e)
	}
	if l.limit > 0 && l.bytes+int64(len(l.buffer)) > l.limit {
		return l.writeToLimit()
	}
	return l.write(count)
}

// writeToLimit writes the entries of the buffer for which there is room, and ends the log.
func (l *Log) writeToLimit() error {
	l.buffer = l.buffer[:bytes.LastIndexByte(l.buffer[:l.limit-l.bytes], '\n')+1]
	if len(l.buffer) > 0 {
		if err := l.write(int64(bytes.Count(l.buffer, []byte{'\n'}))); err != nil {
			return err
		}
	}
	l.failed = fmt.Errorf("%w (%d bytes)", ErrLogLimit, l.limit)
	return l.failed
}

// format puts an entry, with the last time, into the buffer and returns how many it became: a text of several lines, or a longer
// one than an entry may have, is cut as a program's output is.
func (l *Log) format(e build.Entry) (count int64) {
	if len(e.Text) <= build.MaxText && bytes.IndexByte(e.Text, '\n') < 0 {
		l.buffer = build.FormatText(append(l.buffer, l.stamp...), e)
		return 1
	}
	var framer build.Framer
	emit := func(part build.Entry) {
		part.Stderr, part.Waybill = e.Stderr, e.Waybill
		l.buffer = build.FormatText(append(l.buffer, l.stamp...), part)
		count++
	}
	framer.Write(e.Text, emit)
	framer.Close(func(part build.Entry) {
		if !part.Partial { // the end of the text, which ended as the entry has it
			part.Marks = e.Marks
		}
		emit(part)
	})
	return count
}

// write puts the buffer into the file, or takes back what of it got there.
func (l *Log) write(entries int64) error {
	if _, err := l.file.Write(l.buffer); err != nil {
		l.failed = fmt.Errorf("write %s: %w", l.file.Name(), err)
		if errors.Is(err, syscall.ENOSPC) {
			l.failed = ErrDiskFull
			l.store.giveUpReserve()
		}
		if err := l.file.Truncate(l.bytes); err != nil {
			l.failed = errors.Join(l.failed, err)
		}
		return l.failed
	}
	l.hash.Write(l.buffer)
	l.bytes += int64(len(l.buffer))
	l.entries += entries
	l.store.written.wake()
	return nil
}

// trailer syncs the file and returns its totals.
func (l *Log) trailer() (*build.Trailer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // an end synced it before it closed it
		return nil, fmt.Errorf("sync %s: %w", l.file.Name(), err)
	}
	return &build.Trailer{Entries: l.entries, Bytes: l.bytes, SHA256: hex.EncodeToString(l.hash.Sum(nil))}, nil
}

// close closes the file, after which nothing more is written. A closed one stays closed.
func (l *Log) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.failed, os.ErrClosed) {
		return nil
	}
	l.failed = fmt.Errorf("write %s: %w", l.file.Name(), os.ErrClosed)
	return l.file.Close()
}
