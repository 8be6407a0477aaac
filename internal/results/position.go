package results

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
)

// BatchSize is the most bytes of a log that are read at once. It is larger than any entry.
const BatchSize = 64 << 10

// ReadBatch fills buffer from the log of a step, from offset on, and returns how many bytes of it are whole entries.
// A log that was not begun has none.
func (r *Reader) ReadBatch(step int, offset int64, buffer []byte) (size int, err error) {
	f, _, err := file.Open(r.LogPath(step))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("read a log: %w", err)
	}
	defer f.Close()
	n, err := f.ReadAt(buffer, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read a log: %w", err)
	}
	size = bytes.LastIndexByte(buffer[:n], '\n') + 1
	if size == 0 && n == len(buffer) {
		return 0, errLongEntry(f.Name(), offset)
	}
	return size, nil
}

// Positions finds places in one step's log. It scans the file once, as far as it is requested, and keeps every place
// that is about BatchSize bytes after the last one. Safe for concurrent use.
type Positions struct {
	reader *Reader
	step   int

	mu    sync.Mutex
	known []build.Position // ascending; the first is the start, the last is how far the scan came
}

// Positions returns a finder of places in a step's log.
func (r *Reader) Positions(step int) *Positions {
	return &Positions{reader: r, step: step, known: []build.Position{{}}}
}

// AfterEntry returns the place after an entry. Where the log has no such entry it is the log's end, or its start for an id below 1.
func (p *Positions) AfterEntry(id int64) (build.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id < 1 {
		return build.Position{}, nil
	}
	buffer := make([]byte, BatchSize)
	for {
		end := p.known[len(p.known)-1]
		if end.ID >= id {
			break
		}
		if more, err := p.extend(buffer); err != nil || !more {
			return p.known[len(p.known)-1], err
		}
	}
	i := sort.Search(len(p.known), func(i int) bool { return p.known[i].ID > id }) - 1
	return p.walk(p.known[i], buffer, func(at build.Position, _ []byte) bool { return at.ID < id })
}

// Since returns the place before the first entry that is not older than a time. Times never go back within a log.
func (p *Positions) Since(at time.Time) (build.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	buffer := make([]byte, BatchSize)
	for more := true; more; {
		var err error
		if more, err = p.extend(buffer); err != nil {
			return build.Position{}, err
		}
	}
	var failed error
	older := func(line []byte) bool { return build.ParseEntry(line).At.Before(at) }
	i := sort.Search(len(p.known), func(i int) bool {
		first, err := p.firstEntry(p.known[i], buffer)
		failed = errors.Join(failed, err)
		return len(first) == 0 || !older(first)
	})
	if failed != nil {
		return build.Position{}, failed
	}
	return p.walk(p.known[max(i-1, 0)], buffer, func(_ build.Position, line []byte) bool { return older(line) })
}

// extend scans one batch further. It returns false at the end of the log. The caller holds the lock.
func (p *Positions) extend(buffer []byte) (bool, error) {
	end := p.known[len(p.known)-1]
	size, err := p.reader.ReadBatch(p.step, end.Offset, buffer)
	if err != nil || size == 0 {
		return false, err
	}
	p.add(end.After(buffer[:size]))
	return true, nil
}

// add takes a place at most a batch behind the last one. The caller holds the lock.
func (p *Positions) add(next build.Position) {
	if n := len(p.known); n > 1 && next.Offset-p.known[n-2].Offset <= BatchSize {
		p.known[n-1] = next // a growing log is requested in small pieces
	} else {
		p.known = append(p.known, next)
	}
}

// Passed learns that a reader of the log has come from one place to another by one batch, so that these need no scan. It waits for no
// scan either.
func (p *Positions) Passed(from, to build.Position) {
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if end := p.known[len(p.known)-1]; from.Offset <= end.Offset && end.Offset < to.Offset {
		p.add(to)
	}
}

// walk goes over the entries after a known place while pass is true for the place before an entry and its bytes.
func (p *Positions) walk(from build.Position, buffer []byte, pass func(at build.Position, line []byte) bool) (build.Position, error) {
	size, err := p.reader.ReadBatch(p.step, from.Offset, buffer)
	if err != nil {
		return build.Position{}, err
	}
	for line := range bytes.Lines(buffer[:size]) {
		if !pass(from, line) {
			break
		}
		from = from.After(line)
	}
	return from, nil
}

// firstEntry returns the entry after a known place; none at the end of the log.
func (p *Positions) firstEntry(at build.Position, buffer []byte) ([]byte, error) {
	size, err := p.reader.ReadBatch(p.step, at.Offset, buffer)
	line, _, _ := bytes.Cut(buffer[:size], []byte("\n"))
	return slices.Clip(line), err
}

// endSize is the number of bytes before the end of a log that BeforeEnd reads.
const endSize = 8 * BatchSize

// BeforeEnd finds the place after an entry that ends within the last 512 KiB before the end of a log; false if it does not.
func (r *Reader) BeforeEnd(step int, end build.Position, id int64) (build.Position, bool, error) {
	f, _, err := file.Open(r.LogPath(step))
	if err != nil {
		return build.Position{}, false, fmt.Errorf("read a log: %w", err)
	}
	defer f.Close()
	missing, offset := end.ID-id, end.Offset
	buffer := make([]byte, BatchSize)
	for offset > 0 && end.Offset-offset < endSize {
		from := max(0, offset-BatchSize)
		block := buffer[:offset-from]
		if _, err := f.ReadAt(block, from); err != nil {
			return build.Position{}, false, fmt.Errorf("read a log: %w", err)
		}
		for i := bytes.LastIndexByte(block, '\n'); i >= 0; i = bytes.LastIndexByte(block[:i], '\n') {
			if missing == 0 {
				return build.Position{ID: id, Offset: from + int64(i) + 1}, true, nil
			}
			missing--
		}
		offset = from
	}
	return build.Position{}, false, nil
}
