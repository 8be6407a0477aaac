package builds

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"fmt"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// BlockSize is the most bytes of a log in one block, and so of one LogBatch, before compression. It is larger than any entry.
const BlockSize = 64 << 10

// LogBatch is consecutive whole entries of a step's log, as they are in the worker's file. At most BlockSize bytes.
type LogBatch struct {
	Step    int
	Begin   build.Position // before the first entry
	Entries int
	Data    []byte // as in the file, with the newline of the last entry

	packed []byte
}

// End returns the position after the batch.
func (l *LogBatch) End() build.Position {
	return build.Position{ID: l.Begin.ID + int64(l.Entries), Offset: l.Begin.Offset + int64(len(l.Data))}
}

// Join adds the batch that follows, and reports whether both fit in one block.
func (l *LogBatch) Join(next *LogBatch) bool {
	if l.packed != nil || next.Step != l.Step || l.End() != next.Begin || len(l.Data)+len(next.Data) > BlockSize {
		return false
	}
	l.Data, l.Entries = append(l.Data, next.Data...), l.Entries+next.Entries
	return true
}

// Pack compresses the batch ahead of Ingest, which otherwise does it in its transaction. Call it for a batch that is
// surely new.
func (l *LogBatch) Pack() {
	if l.packed == nil {
		l.packed = compress(l.Data)
	}
}

// check returns fault.Invalid for a batch that is not whole entries.
func (l *LogBatch) check() error {
	if err := checkStep(l.Step); err != nil {
		return err
	}
	n := len(l.Data)
	switch {
	case n == 0 || n > BlockSize || l.Data[n-1] != '\n' || l.Begin.ID < 0 || l.Begin.Offset < 0:
		return fault.New(fault.Invalid, "a batch of step %d at entry %d is not whole entries of at most %d bytes", l.Step,
			l.Begin.ID+1, BlockSize)
	case bytes.Count(l.Data, newline) != l.Entries:
		return fault.New(fault.Invalid, "a batch of step %d at entry %d has other than its %d entries", l.Step, l.Begin.ID+1, l.Entries)
	}
	return nil
}

var newline = []byte("\n")

// after cuts off the part before a position; nil: nothing is left. A batch that does not have the position's entry
// end at the position's byte is fault.Corrupt.
func (l *LogBatch) after(at build.Position) (*LogBatch, error) {
	if l.Begin == at {
		return l, nil
	}
	known, end, size := at.ID-l.Begin.ID, l.End(), 0
	if at.ID <= end.ID {
		for range known {
			size += bytes.IndexByte(l.Data[size:], '\n') + 1
		}
	}
	switch {
	case at.ID > end.ID && at.Offset > end.Offset:
		return nil, nil
	case at.ID > end.ID || l.Begin.Offset+int64(size) != at.Offset:
		return nil, fault.New(fault.Corrupt, "step %d: entry %d ends at byte %d; the batch that begins at entry %d, byte %d says otherwise",
			l.Step, at.ID, at.Offset, l.Begin.ID+1, l.Begin.Offset)
	case at.ID == end.ID:
		return nil, nil
	}
	return &LogBatch{Step: l.Step, Begin: at, Entries: l.Entries - int(known), Data: l.Data[size:]}, nil
}

// block returns the row of a batch.
func (l *LogBatch) block() Block {
	l.Pack()
	last := bytes.LastIndexByte(l.Data[:len(l.Data)-1], '\n') + 1
	return Block{Step: l.Step, Begin: l.Begin, Lines: l.Entries, Size: len(l.Data), Data: l.packed,
		FirstAt: build.ParseEntry(l.Data[:bytes.IndexByte(l.Data, '\n')]).At, LastAt: build.ParseEntry(l.Data[last:]).At}
}

// logs appends the new part of the batches: a compare-and-append on the positions of their steps.
func (in *ingestion) logs(b Batch) error {
	var blocks []Block
	sums := map[int]summing{}
	for _, l := range b.Logs {
		step := in.steps.of(l.Step)
		at := step.Position()
		if l.Begin.ID > at.ID {
			return &GapError{in.build.ID, fmt.Sprintf("the log of step %d", l.Step), l.Begin, at}
		}
		fresh, err := l.after(at)
		if err != nil {
			return err
		}
		if fresh == nil {
			continue
		}
		sum, ok := sums[l.Step]
		if !ok {
			sum = sha256.New().(summing)
			if err := restore(sum, step.HashState); err != nil {
				return err
			}
			sums[l.Step] = sum
		}
		_, _ = sum.Write(fresh.Data) // never fails
		end := fresh.End()
		step.LogLines, step.LogBytes = end.ID, end.Offset
		in.steps.change(l.Step)
		in.done.Entries, in.done.Bytes = in.done.Entries+int64(fresh.Entries), in.done.Bytes+int64(len(fresh.Data))
		blocks = append(blocks, fresh.block())
	}
	for id, sum := range sums {
		state, err := sum.MarshalBinary()
		if err != nil {
			return fmt.Errorf("store the state of SHA-256: %w", err)
		}
		in.steps.of(id).HashState = state
	}
	if len(blocks) == 0 {
		return nil
	}
	return in.InsertBlocks(in.build.ID, blocks)
}

// summing is a digest whose state can be stored.
type summing interface {
	Write(p []byte) (int, error)
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}
