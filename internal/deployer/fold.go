package deployer

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Reader is what folding needs of the log.
type Reader interface {
	Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error)
	Version(ctx context.Context, pipeline string, version int) (journal.Version, error)
}

// foldRows is how many rows are read at a time.
const foldRows = 10_000

// Fold reads a pipeline's whole log into an engine. Any role may do that; only the holder of the lease decides.
func Fold(ctx context.Context, r Reader, name string) (*pipeline.Engine, error) {
	engine := pipeline.New(name)
	if err := Catch(ctx, r, name, engine, nil); err != nil {
		return nil, err
	}
	return engine, nil
}

// Catch applies the rows that an engine does not know yet, and shows each to applied, which may be nil.
// After an error the engine is of no use any more.
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
		if len(rows) < foldRows {
			return nil
		}
	}
}

// know makes the definition that a row brings into force known to the engine.
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
			WithHint("it was applied by another version of Waybill; run that one, or apply the pipeline's file anew")
	}
	engine.AddVersion(row.Version, plan)
	return nil
}

func definesUnknown(engine *pipeline.Engine, row pipeline.Entry) bool {
	return row.Event == pipeline.PipelineDefined && !engine.HasVersion(row.Version)
}

// broken is what an engine says of a row that cannot be, or of a decision that must not be.
type broken struct {
	seq int64
	error
}

func (b broken) Unwrap() error { return b.error }

func (b broken) Error() string { return fmt.Sprintf("at entry %d: %v", b.seq, b.error) }
