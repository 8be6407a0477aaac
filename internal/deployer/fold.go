package deployer

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Reader is the part of the log that folding reads.
type Reader interface {
	Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error)
	Version(ctx context.Context, pipeline string, version int) (journal.Version, error)
}

// foldRows is how many rows are read at a time. It bounds the memory that a long log needs.
const foldRows = 10_000

// Fold reads a pipeline's whole log into a new engine. Any role may fold, to answer questions; only
// the holder of the lease decides.
func Fold(ctx context.Context, r Reader, name string) (*pipeline.Engine, error) {
	engine := pipeline.New(name)
	if err := Catch(ctx, r, name, engine, nil); err != nil {
		return nil, err
	}
	return engine, nil
}

// Catch applies the rows that an engine does not know yet, and calls applied, which may be nil,
// with each. After an error the engine must not be used again: it may have applied a part of the
// rows.
func Catch(ctx context.Context, r Reader, name string, engine *pipeline.Engine, applied func(pipeline.Entry)) error {
	for {
		rows, err := r.Entries(ctx, journal.EntryQuery{Pipeline: name, After: engine.Seq(), Limit: foldRows})
		if err != nil {
			return fmt.Errorf("read the log of %s after %d: %w", name, engine.Seq(), err)
		}
		for _, row := range rows {
			if err := know(ctx, r, engine, row); err != nil {
				return err
			}
			if err := engine.Apply(row); err != nil {
				return broken{row.Seq, err}
			}
			if applied != nil {
				applied(row)
			}
		}
		if len(rows) < foldRows { // the end of the log, as of this read
			return nil
		}
	}
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
