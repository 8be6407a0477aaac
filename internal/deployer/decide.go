package deployer

import (
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// errMoved reports that an engine can no longer be used although no invariant is broken. The pass
// is made again, with an engine folded from the log.
var errMoved = errors.New("the log moved")

// pass is one pass of a pipeline while it holds the lock of the pipeline's head.
type pass struct {
	pipeline string
	engine   *pipeline.Engine
	seen     func(pipeline.Entry)         // called with each row that another writer appended
	choose   bool                         // search for deployments to archive, after the decision
	chosen   []choice                     // what was found
	archive  *archive                     // not nil: archive these deployments, and decide nothing else
	archived []journal.ArchivedDeployment // those that the decider has archived
	ran      bool                         // decide was called: the engine has applied a decision that may be rolled back
	now      time.Time                    // the database's time of the decision
	decision pipeline.Decision
	err      error // the error of decide, before the journal wrapped it
}

// decide implements the journal's Decider. It runs inside the transaction, so it uses nothing but the engine and its
// arguments.
func (x *pass) decide(locked journal.Locked) (journal.Change, error) {
	x.err = x.run(locked)
	if x.err != nil {
		return journal.Change{}, x.err
	}
	if x.archive != nil {
		return x.archiveChange()
	}
	return change(x.pipeline, x.decision), nil
}

// run applies the rows that are new under the lock, then decides, unless it is to archive. An error rolls the transaction
// back.
func (x *pass) run(locked journal.Locked) error {
	// The ledger repeats a transaction that the database aborted. The engine has applied its decision of the first
	// try, and cannot undo it.
	if x.ran {
		return errMoved
	}
	x.ran = true
	// Rows that came between the fold and the lock. Nothing can be appended after them until the
	// transaction ends.
	for _, row := range locked.Newer {
		// A definition that the engine does not know must be read, which would take a second
		// connection inside the transaction, and could wait for itself. The next fold reads it.
		if definesUnknown(x.engine, row) {
			return errMoved
		}
		if row.Seq > x.engine.Seq()+1 { // rows were archived since the fold, or the log is broken: the next fold finds out
			return errMoved
		}
		if err := x.engine.Apply(row); err != nil {
			return broken{row.Seq, err}
		}
		x.seen(row)
	}
	if x.archive != nil {
		return nil
	}
	decision, err := x.engine.Decide(locked.Now, passRows)
	if err != nil {
		return broken{x.engine.Seq(), err}
	}
	x.now, x.decision = locked.Now, decision
	return nil
}

// isBroken reports whether the log, or the engine's decision, breaks an invariant. Trying again
// soon would not help.
func isBroken(err error) bool {
	_, ok := errors.AsType[broken](err)
	return ok
}
