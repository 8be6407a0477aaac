package ledgertest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/journal/journaltest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/queue/queuetest"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
	"github.com/waybill-dev/waybill/internal/token"
)

// setup is a whole log for one test.
type setup struct {
	*ledger.Ledger
	driver   ledger.Driver
	database storetest.Database
	ctx      context.Context
}

func newSetup(t *testing.T, database storetest.Database) setup {
	t.Helper()
	s := setup{database: database, ctx: t.Context()}
	s.Ledger, s.driver = s.another(t)
	storetest.Check(t, s.Maintain(s.ctx))
	return s
}

// another returns one more ledger on the same database, as another process has it.
func (s setup) another(t *testing.T) (*ledger.Ledger, ledger.Driver) {
	t.Helper()
	driver := storetest.Open[ledger.Driver](t, s.database)
	l := ledger.New(driver, ledger.Options{})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l, driver
}

// rows is every method of a transaction of a driver.
type rows interface {
	store.Rows
	queue.Rows
	queue.CacheRows
	queue.HostRows
	journal.Rows
	services.Rows
	token.Rows
}

// read runs fn on one state of the database.
func (s setup) read(fn func(rows) error) error {
	return s.driver.Read(s.ctx, store.ForQueue, func(tx store.Rows) error { return fn(tx.(rows)) })
}

// explain returns the plans of the statements of fn.
func (s setup) explain(fn func(rows) error) ([]string, error) {
	return s.driver.Explain(s.ctx, func(tx store.Rows) error { return fn(tx.(rows)) })
}

const (
	testPipeline = journaltest.Pipeline
	oak          = journaltest.Oak
)

func (s setup) define(t *testing.T) journal.Head {
	t.Helper()
	return journaltest.Define(t, s.Journal)
}

func (s setup) register(t *testing.T, label string) journal.Registered {
	t.Helper()
	return journaltest.Register(t, s.Journal, label)
}

func (s setup) append(t *testing.T, entries ...pipeline.Entry) journal.Head {
	t.Helper()
	return journaltest.Append(t, s.Journal, entries...)
}

// lease takes the pipeline for an instance.
func (s setup) lease(t *testing.T, i queue.Instance) journal.Lease {
	t.Helper()
	return journaltest.Lease(t, s.Journal, i.ID)
}

func fact(deployment int64, target, event string) pipeline.Entry {
	return journaltest.Fact(deployment, target, event)
}

func note(deployment int64, target, event string) pipeline.Entry {
	return journaltest.Note(deployment, target, event)
}

func job(name string) action.Action { return queuetest.Job(name) }

// stepOf returns the action of a deployment's step, as a pass makes it.
func stepOf(deployment int64, target, event string) action.Action {
	return action.Action{Kind: "step", Name: event + " " + target, Handler: "step", Lane: "step/" + target, Policy: queuetest.Policy(),
		Step: &action.StepRef{Pipeline: testPipeline, Deployment: deployment, Target: target, Event: event, Revision: deployment, Version: 1}}
}

// startSteps claims steps in a pass.
func (s setup) startSteps(t *testing.T, lease journal.Lease, steps ...action.Action) journal.Head {
	t.Helper()
	head, err := s.Pass(s.ctx, lease, 0, func(journal.Locked) (journal.Change, error) {
		change := journal.Change{Actions: steps}
		for _, a := range steps {
			detail, err := json.Marshal(pipeline.StepDetail{Event: a.Step.Event})
			if err != nil {
				return change, err
			}
			e := note(a.Step.Deployment, a.Step.Target, pipeline.StepClaimed)
			e.Detail = detail
			change.Entries = append(change.Entries, e)
		}
		return change, nil
	})
	storetest.Check(t, err)
	return head
}

func (s setup) join(t *testing.T, name string) queue.Instance {
	t.Helper()
	return queuetest.Join(t, s.Queue, name)
}

func (s setup) claim(t *testing.T, i queue.Instance, lane string, n int) []queue.Claimed {
	t.Helper()
	return queuetest.Claim(t, s.Queue, i, lane, n)
}

func (s setup) end(t *testing.T, i queue.Instance, c queue.Claimed, o action.Outcome) queue.Turned {
	t.Helper()
	return queuetest.End(t, s.Queue, i, c, o)
}

func (s setup) enqueue(t *testing.T, a action.Action) action.ID {
	t.Helper()
	return queuetest.Enqueue(t, s.Queue, a)
}

func (s setup) statusOf(t *testing.T, id action.ID) action.Status {
	t.Helper()
	return queuetest.StatusOf(t, s.Queue, id)
}

func (s setup) handOff(t *testing.T, i queue.Instance, lane string) queue.Claimed {
	t.Helper()
	return queuetest.HandOff(t, s.Queue, i, lane)
}

func (s setup) settle(t *testing.T, i queue.Instance, c queue.Claimed, o action.Outcome) queue.Turned {
	t.Helper()
	return queuetest.Settle(t, s.Queue, i, c, o)
}

func (s setup) accepted(t *testing.T, i queue.Instance, a action.Action) action.ID {
	t.Helper()
	return queuetest.Accepted(t, s.Queue, i, a)
}

func (s setup) wantHistory(t *testing.T, id action.ID, want ...action.Status) {
	t.Helper()
	queuetest.WantHistory(t, s.Queue, id, want...)
}
