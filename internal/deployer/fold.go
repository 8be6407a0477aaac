package deployer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Reader is the part of the log that folding reads.
type Reader interface {
	Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error)
	Version(ctx context.Context, pipeline string, version int) (journal.Version, error)
	Head(ctx context.Context, pipeline string) (journal.Head, error)
}

const (
	mostEmpty = 1000   // pages without rows, which archives leave
	foldRows  = 10_000 // rows that are read at a time; bounds the memory that a long log needs
	foldAhead = 2      // pages that are read side by side while another is folded
	foldTries = 10     // how often a fold begins again because deployments were archived in the meantime
)

// ErrArchived reports that rows that an engine has yet to apply were archived. The log is whole, but this engine can
// no longer follow it: the log must be folded again.
var ErrArchived = errors.New("rows that are not folded yet were archived")

// Fold reads a pipeline's whole log into a new engine. Any role may fold, to answer requests; only the holder of the
// lease decides.
func Fold(ctx context.Context, r Reader, name string) (engine *pipeline.Engine, err error) {
	for range foldTries {
		engine = pipeline.New(name)
		if err = Catch(ctx, r, name, engine, nil); err == nil {
			return engine, nil
		}
		if !errors.Is(err, ErrArchived) {
			break
		}
	}
	return nil, err
}

// Catch applies the rows that an engine does not know yet, and calls applied, which may be nil,
// with each. After an error the engine must not be used again: it may have applied a part of the
// rows. With ErrArchived the caller folds again, with a new engine.
//
// Positions at or below the bound of the pipeline may be missing. A new engine allows for that. An engine that has applied rows
// needs every row that follows, up to the bound as well: a row that it misses may have been about a deployment that it knows.
func Catch(ctx context.Context, r Reader, name string, engine *pipeline.Engine, applied func(pipeline.Entry)) error {
	c := catching{reader: r, pipeline: name, engine: engine, applied: applied}
	if engine.Seq() == 0 {
		head, err := r.Head(ctx, name)
		if err != nil {
			return fmt.Errorf("read the log of %s: %w", name, err)
		}
		if c.bound = head.Archived; c.bound > 0 {
			engine.AllowGaps(c.bound)
		}
		for rows, err := range readAhead(ctx, r, name, head.Seq) {
			if err != nil {
				return fmt.Errorf("read the log of %s: %w", name, err)
			}
			if err := c.take(ctx, rows); err != nil {
				return err
			}
		}
	}
	for {
		rows, err := r.Entries(ctx, journal.EntryQuery{Pipeline: name, After: engine.Seq(), Limit: foldRows})
		if err != nil {
			return fmt.Errorf("read the log of %s after %d: %w", name, engine.Seq(), err)
		}
		if err := c.take(ctx, rows); err != nil || len(rows) < foldRows { // the end of the log, as of this read
			return err
		}
	}
}

// readAhead yields the rows of a log up to a position, in order, in pages that may be empty. It reads pages side by side:
// reading takes several times as long as folding. It ends early after mostEmpty empty pages, since the position may be wrong.
func readAhead(ctx context.Context, r Reader, name string, end int64) iter.Seq2[[]pipeline.Entry, error] {
	type page struct {
		rows []pipeline.Entry
		err  error
	}
	return func(yield func([]pipeline.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var reads sync.WaitGroup
		defer reads.Wait()
		defer cancel()
		empty := 0
		var under []chan page // those that are being read, in order
		for after := int64(0); after < end || len(under) > 0; {
			for ; after < end && len(under) < foldAhead; after += foldRows {
				read := make(chan page, 1)
				q := journal.EntryQuery{Pipeline: name, After: after, UpTo: min(after+foldRows, end)}
				reads.Go(func() {
					rows, err := r.Entries(ctx, q)
					read <- page{rows, err}
				})
				under = append(under, read)
			}
			p := <-under[0]
			under = under[1:]
			if len(p.rows) == 0 {
				empty++
			}
			if !yield(p.rows, p.err) || p.err != nil || empty == mostEmpty {
				return
			}
		}
	}
}

// catching is an engine that catches up.
type catching struct {
	reader   Reader
	pipeline string
	engine   *pipeline.Engine
	bound    int64 // length of the log when an engine began that had applied nothing
	applied  func(pipeline.Entry)
}

// take applies the rows of a page.
func (c *catching) take(ctx context.Context, rows []pipeline.Entry) error {
	if err := checkPage(ctx, c.reader, c.pipeline, c.engine.Seq(), rows, c.bound); err != nil {
		return err
	}
	for _, row := range rows {
		if err := know(ctx, c.reader, c.engine, row); err != nil {
			return err
		}
		if err := c.engine.Apply(row); err != nil {
			return broken{row.Seq, err}
		}
		if c.applied != nil {
			c.applied(row)
		}
	}
	return nil
}

// checkPage returns ErrArchived if deployments were archived since the bound was read and rows that follow the last
// one of the engine may be missing because of that. Each page is a read of its own: without this check an engine could apply the
// first rows of a deployment and miss the rest.
func checkPage(ctx context.Context, r Reader, name string, last int64, rows []pipeline.Entry, bound int64) error {
	gap := gapAbove(rows, last, bound)
	if last >= bound && gap == 0 {
		return nil
	}
	head, err := r.Head(ctx, name)
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", name, err)
	}
	if last < bound && head.Archived != bound || gap != 0 && gap <= head.Archived {
		return ErrArchived
	}
	return nil
}

// gapAbove returns the last position of the first gap in rows that reaches above a bound; 0 if there is none. last is the
// position before the first row.
func gapAbove(rows []pipeline.Entry, last, bound int64) int64 {
	for _, row := range rows {
		if before := row.Seq - 1; before > last && before > bound {
			return before
		}
		last = row.Seq
	}
	return 0
}

// know reads the definition that a row brings into force, and adds it to the engine unless the
// engine has it. This must happen before the engine applies the row.
func know(ctx context.Context, r Reader, engine *pipeline.Engine, row pipeline.Entry) error {
	if !definesUnknown(engine, row) {
		return nil
	}
	version, err := r.Version(ctx, row.Pipeline, row.Version)
	if err != nil {
		return fmt.Errorf("read definition %d of %s: %w", row.Version, row.Pipeline, err)
	}
	plan, problems := pipeline.Compile(version.Definition)
	if err := problems.Err(); err != nil {
		return fault.New(fault.Corrupt, "definition %d of %s does not compile: %w", row.Version, row.Pipeline, err).
			WithHint("it was applied by another version of Waybill; run that version, or apply the pipeline's file again")
	}
	engine.AddVersion(row.Version, plan)
	return nil
}

// definesUnknown reports whether a row brings a definition into force that the engine does not
// have.
func definesUnknown(engine *pipeline.Engine, row pipeline.Entry) bool {
	return row.Event == pipeline.PipelineDefined && !engine.HasVersion(row.Version)
}

// broken is an engine's error about a row that is impossible in its place, or about a decision that
// breaks an invariant. seq is the position of that row, or of the last row that the engine applied.
type broken struct {
	seq int64
	error
}

func (b broken) Unwrap() error { return b.error }

func (b broken) Error() string { return fmt.Sprintf("at entry %d: %v", b.seq, b.error) }
