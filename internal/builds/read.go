package builds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Build reads a build. A deleted one is fault.Refused, one that never was is fault.NotFound.
func (b *Builds) Build(ctx context.Context, id ID) (one Build, err error) {
	found, err := b.List(ctx, Query{IDs: []ID{id}, Deleted: true})
	if err != nil {
		return Build{}, err
	}
	if len(found) > 0 {
		one = found[0]
	}
	return one, known(one, len(found) > 0, id)
}

// List reads builds, newest first. The id of the last one is the cursor of the next page (Query.Before).
func (b *Builds) List(ctx context.Context, q Query) (found []Build, err error) {
	err = b.db.List(ctx, "list builds", func(tx *store.Tx) error {
		found, err = b.in(tx).Builds(q)
		return err
	})
	return found, err
}

// Steps reads the steps of a build in the order of their ids; step 0 is the build's own log.
func (b *Builds) Steps(ctx context.Context, id ID) (found []Step, err error) {
	err = b.read(ctx, fmt.Sprintf("read the steps of build %d", id), func(t txn) error {
		found, err = t.Steps(id, nil)
		return err
	})
	return found, err
}

// Events reads at most limit events after a number, in their order.
func (b *Builds) Events(ctx context.Context, id ID, after int64, limit int) (found []Event, err error) {
	err = b.read(ctx, fmt.Sprintf("read the events of build %d", id), func(t txn) error {
		found, err = t.BuildEvents(id, after, limit)
		return err
	})
	return found, err
}

// HasEvent reports whether an event of a source is stored.
func (b *Builds) HasEvent(ctx context.Context, id ID, source Source, eventID string) (has bool, err error) {
	err = b.read(ctx, fmt.Sprintf("look for an event of build %d", id), func(t txn) error {
		has, err = t.HasBuildEvent(id, source, cleanEventID(eventID))
		return err
	})
	return has, err
}

// Having returns those of the builds that have a part with a text, see Rows.BuildsHaving.
func (b *Builds) Having(ctx context.Context, ids []ID, part Part, text string) (found []ID, err error) {
	err = b.db.List(ctx, "search builds", func(tx *store.Tx) error {
		found, err = b.in(tx).BuildsHaving(ids, part, text)
		return err
	})
	return found, err
}

// Artifacts reads the artifacts of a build after one, in the order of their ids. 0 is before the first.
func (b *Builds) Artifacts(ctx context.Context, id ID, after int) (found []Artifact, err error) {
	err = b.read(ctx, fmt.Sprintf("read the artifacts of build %d", id), func(t txn) error {
		found, err = t.BuildArtifacts(id, after)
		return err
	})
	return found, err
}

// TestReports reads the test reports of a build's files, in the order of their artifacts, without the results.
func (b *Builds) TestReports(ctx context.Context, id ID) (found []build.TestFile, err error) {
	err = b.read(ctx, fmt.Sprintf("read the test reports of build %d", id), func(t txn) error {
		found, err = t.TestReports(id)
		return err
	})
	return found, err
}

// StepCounts counts the steps of builds. A build whose steps are not known is not in the result.
func (b *Builds) StepCounts(ctx context.Context, ids []ID) (found map[ID]int, err error) {
	err = b.read(ctx, "count the steps of builds", func(t txn) error {
		found, err = t.StepCounts(ids)
		return err
	})
	return found, err
}

// TestSummaries reads the summaries of all reports of builds.
func (b *Builds) TestSummaries(ctx context.Context, ids []ID) (found map[ID][]Summary, err error) {
	err = b.read(ctx, "sum the tests of builds", func(t txn) error {
		found, err = t.TestSummaries(ids)
		return err
	})
	return found, err
}

// TestResults reads at most limit test results after one, in the order of artifact and ordinal; with broken only failed and flaky ones. The
// zero value is before the first.
func (b *Builds) TestResults(ctx context.Context, id ID, after TestResult, broken bool, limit int) (found []TestResult, err error) {
	err = b.read(ctx, fmt.Sprintf("read the test results of build %d", id), func(t txn) error {
		found, err = t.TestResults(id, after, broken, limit)
		return err
	})
	return found, err
}

// Bounds of one transaction of a reader.
const (
	aheadBytes   = 1 << 20 // unless the caller requests less
	blocksAtOnce = 1000
)

// LogReader reads the bytes of a step's log as they are in the worker's file, as far as they are stored. It holds 1 MiB at
// most, and no transaction between two reads.
type LogReader struct {
	ctx    context.Context
	builds *Builds
	id     ID
	step   int
	offset int64
	ahead  int64 // bytes that one transaction reads
	blocks []Block
	rest   []byte
}

// OpenLog returns a reader of a step's log from a byte on. Data stored later comes with a later read after io.EOF.
func (b *Builds) OpenLog(ctx context.Context, id ID, step int, offset int64) *LogReader {
	return &LogReader{ctx: ctx, builds: b, id: id, step: step, offset: offset, ahead: aheadBytes}
}

// ReadLog fills a buffer with the bytes of a step's log from an offset on, as far as they are stored, and returns how many there are. It
// reads no block that the buffer has no room for.
func (b *Builds) ReadLog(ctx context.Context, id ID, step int, offset int64, buffer []byte) (int, error) {
	reader, size := b.OpenLog(ctx, id, step, offset), 0
	for size < len(buffer) {
		reader.ahead = int64(len(buffer) - size)
		n, err := reader.Read(buffer[size:])
		if size += n; errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, err
		}
	}
	return size, nil
}

// Read reads the stored log; io.EOF at its end, after which more may come.
func (r *LogReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest, r.offset = r.rest[n:], r.offset+int64(n)
	return n, nil
}

// next makes the next block the rest, from the reader's offset on.
func (r *LogReader) next() error {
	if len(r.blocks) == 0 {
		if err := r.fetch(); err != nil {
			return err
		}
	}
	if len(r.blocks) == 0 {
		return io.EOF
	}
	block := r.blocks[0]
	if block.Begin.Offset > r.offset {
		return fault.New(fault.Corrupt, "read a log of build %d: step %d has nothing stored from byte %d to %d", r.id,
			r.step, r.offset, block.Begin.Offset)
	}
	data, err := block.open()
	if err != nil {
		return fmt.Errorf("read a log of build %d: %w", r.id, err)
	}
	r.blocks, r.rest = r.blocks[1:], data[r.offset-block.Begin.Offset:]
	return nil
}

// fetch reads the blocks from the reader's offset on.
func (r *LogReader) fetch() error {
	return r.builds.read(r.ctx, fmt.Sprintf("read a log of build %d", r.id), func(t txn) (err error) {
		r.blocks, err = t.Blocks(r.id, r.step, r.offset, r.offset+r.ahead, blocksAtOnce)
		return err
	})
}

// Find returns the position before the entry after a log id: the byte at which it begins. After the end of the stored
// log it returns the end.
func (b *Builds) Find(ctx context.Context, id ID, step int, after int64) (at build.Position, err error) {
	if after <= 0 {
		return build.Position{}, nil
	}
	var block Block
	err = b.read(ctx, fmt.Sprintf("find an entry of build %d", id), func(t txn) (err error) {
		block, _, err = t.BlockOf(id, step, after)
		return err
	})
	if err != nil || block.Size == 0 {
		return build.Position{}, err
	}
	return b.within(ctx, id, block, func(logID int64, _ []byte) bool { return logID > after })
}

// FindSince returns the position before the first entry that is not older than a time; if there is none, the end of
// the stored log.
func (b *Builds) FindSince(ctx context.Context, id ID, step int, since time.Time) (build.Position, error) {
	var block Block
	var ok bool
	err := b.read(ctx, fmt.Sprintf("find a time in a log of build %d", id), func(t txn) (err error) {
		block, ok, err = t.BlockSince(id, step, since.Add(-time.Microsecond)) // databases store no smaller part of a second
		return err
	})
	switch {
	case err != nil:
		return build.Position{}, err
	case !ok:
		return b.End(ctx, id, step)
	}
	return b.within(ctx, id, block, func(_ int64, line []byte) bool { return !build.ParseEntry(line).At.Before(since) })
}

// within returns the position before the first entry of a block that is wanted, or after the block.
func (b *Builds) within(ctx context.Context, id ID, block Block, wanted func(logID int64, line []byte) bool) (build.Position, error) {
	reader := b.OpenLog(ctx, id, block.Step, block.Begin.Offset)
	reader.ahead = 1
	if err := reader.next(); err != nil {
		return build.Position{}, err
	}
	at := block.Begin
	for line := range bytes.Lines(reader.rest) {
		if wanted(at.ID+1, line) {
			break
		}
		at = at.After(line)
	}
	return at, nil
}

// Log gives the entries of a step whose log id is above after to visit, in order, as far as they are stored. The text of an
// entry is valid during the call. An error of visit ends it.
func (b *Builds) Log(ctx context.Context, id ID, step int, after int64, visit func(build.Line) error) error {
	at, err := b.Find(ctx, id, step, after)
	if err != nil {
		return err
	}
	reader := b.OpenLog(ctx, id, step, at.Offset)
	for {
		if err := reader.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for line := range bytes.Lines(reader.rest) {
			at.ID++
			if err := visit(build.Line{Step: step, ID: at.ID, Entry: build.ParseEntry(line)}); err != nil {
				return err
			}
		}
		reader.offset += int64(len(reader.rest))
	}
}

// End returns the end of a step's stored log.
func (b *Builds) End(ctx context.Context, id ID, step int) (build.Position, error) {
	return b.Find(ctx, id, step, math.MaxInt64)
}
