package deployer

import (
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// errMoved says that an engine is of no use any more although nothing is wrong: the pass is made again, from the log.
var errMoved = errors.New("the log moved")

// pass is one pass while it runs under the head lock.
type pass struct {
	pipeline string
	engine   *pipeline.Engine
	seen     func(pipeline.Entry) // is shown the rows that others appended
	ran      bool
	now      time.Time // the database's
	decision pipeline.Decision
	err      error // what decide returned, as it was
}

// decide is the ledger's Decider.
func (x *pass) decide(locked journal.Locked) (journal.Change, error) {
	x.err = x.run(locked)
	if x.err != nil {
		return journal.Change{}, x.err
	}
	return change(x.pipeline, x.decision), nil
}

func (x *pass) run(locked journal.Locked) error {
	if x.ran { // the transaction is tried again, but the engine has applied what it decided in the first
		return errMoved
	}
	x.ran = true
	for _, row := range locked.Newer {
		if definesUnknown(x.engine, row) {
			return errMoved // reading it here would take a second connection inside the transaction
		}
		if err := x.engine.Apply(row); err != nil {
			return broken{row.Seq, err}
		}
		x.seen(row)
	}
	decision, err := x.engine.Decide(locked.Now, passRows)
	if err != nil {
		return broken{x.engine.Seq(), err}
	}
	x.now, x.decision = locked.Now, decision
	return nil
}

func isBroken(err error) bool {
	_, ok := errors.AsType[broken](err)
	return ok
}
