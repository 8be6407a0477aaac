package ledgertest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/token"
)

// setup is a ledger of a test's own.
type setup struct {
	*ledger.Ledger
	driver   ledger.Driver
	database Database
	ctx      context.Context
}

func newSetup(t *testing.T, database Database) setup {
	t.Helper()
	s := setup{database: database, ctx: t.Context()}
	s.reopen(t, ledger.Options{})
	check(t, s.Maintain(s.ctx))
	return s
}

// reopen goes on with another ledger on the same database.
func (s *setup) reopen(t *testing.T, o ledger.Options) {
	t.Helper()
	s.Ledger, s.driver = s.another(t, o)
}

// another is a ledger on the same database, as another process has it.
func (s setup) another(t *testing.T, o ledger.Options) (*ledger.Ledger, ledger.Driver) {
	t.Helper()
	driver := s.database.Open(t)
	l := ledger.New(driver, o)
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
	token.Rows
}

// write runs fn in a transaction of the driver alone: no signal follows it.
func (s setup) write(fn func(rows) error) error {
	return s.driver.Write(s.ctx, store.ForQueue, func(tx store.Rows) error { return fn(tx.(rows)) })
}

// read runs fn on one state of the database.
func (s setup) read(fn func(rows) error) error {
	return s.driver.Read(s.ctx, store.ForQueue, func(tx store.Rows) error { return fn(tx.(rows)) })
}

// explain returns the plans of the statements of fn.
func (s setup) explain(fn func(rows) error) ([]string, error) {
	return s.driver.Explain(s.ctx, func(tx store.Rows) error { return fn(tx.(rows)) })
}

// pipeline is the name of every test's pipeline.
const testPipeline = "greeter"

// definition has a build, a beta of one host and a prod of two groups.
func definition() pipeline.Definition {
	host := func(name string) pipeline.Host { return pipeline.Host{Name: name, URL: "local://" + name} }
	return pipeline.Definition{
		Pipeline: testPipeline,
		Service:  pipeline.Service{Name: testPipeline, Manager: "process"},
		Stages: []pipeline.Stage{
			{Name: "build", Kind: pipeline.BuildStage, Build: &pipeline.Build{File: ".wharf-ci.yml",
				Artifacts: []pipeline.Artifact{{Label: "amd64", Path: "dist/greeter"}}}},
			{Name: "beta", Kind: pipeline.HostStage, After: []string{"build"},
				Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{host("oak")}}}},
			{Name: "prod", Kind: pipeline.HostStage, After: []string{"beta"}, Groups: []pipeline.Group{
				{Name: "east", Hosts: []pipeline.Host{host("elm"), host("fir")}},
				{Name: "west", Hosts: []pipeline.Host{host("yew")}}}},
		},
	}
}

// define applies the definition and returns the head.
func (s setup) define(t *testing.T) journal.Head {
	t.Helper()
	d := definition()
	head, err := s.Define(s.ctx, testPipeline, 0, func(locked journal.Locked) (journal.Change, error) {
		return journal.Change{Definition: &d, Source: "pipeline: greeter\n", By: "ana", Entries: []pipeline.Entry{
			{Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: locked.Version + 1}}}, nil
	})
	check(t, err)
	return head
}

// register makes a revision with its forward deployment.
func (s setup) register(t *testing.T, label string) journal.Registered {
	t.Helper()
	done, err := s.Register(s.ctx, pipeline.RegisteredRevision{Pipeline: testPipeline, Label: label, Snapshot: "snapshot-" + label, By: "ana"}, true, "")
	check(t, err)
	return done
}

// lease takes the pipeline for an instance.
func (s setup) lease(t *testing.T, i queue.Instance) journal.Lease {
	t.Helper()
	lease, ok, err := s.Lease(s.ctx, testPipeline, i.ID)
	check(t, err)
	if !ok {
		t.Fatalf("the lease of %s was not granted to %s", testPipeline, i.Name)
	}
	return lease
}

// join makes an instance that serves the handler noop.
func (s setup) join(t *testing.T, name string) queue.Instance {
	t.Helper()
	i := queue.Instance{ID: action.DerivedID(time.Now(), t.Name(), name), Name: name, Version: "test", Handlers: []string{"noop"}, Heartbeat: unhurried}
	check(t, s.Join(s.ctx, i))
	return i
}

// unhurried is the heartbeat of instances that never say that they live: no test takes so long that it would have to.
const unhurried = 10 * time.Minute

// append records entries as a person would.
func (s setup) append(t *testing.T, entries ...pipeline.Entry) journal.Head {
	t.Helper()
	head, err := s.Append(s.ctx, testPipeline, 0, func(journal.Locked) (journal.Change, error) {
		return journal.Change{Entries: entries}, nil
	})
	check(t, err)
	return head
}

// fact is one entry of a deployment.
func fact(deployment int64, target, event string) pipeline.Entry {
	return pipeline.Entry{Deployment: deployment, Target: target, Event: event, Class: pipeline.Fact, Revision: deployment}
}

func note(deployment int64, target, event string) pipeline.Entry {
	e := fact(deployment, target, event)
	e.Class = pipeline.Note
	return e
}

// job is an action that is nobody's step.
func job(name string) action.Action {
	return action.Action{Kind: "job", Name: name, Handler: "noop", Policy: policy()}
}

// policy tries again at once, without luck in it.
func policy() action.Policy {
	p := action.DefaultPolicy()
	p.Initial, p.Jitter, p.Retries = action.Duration(time.Hour), 0, 2
	return p
}

// stepOf is the action of a deployment's step, as a pass makes it.
func stepOf(deployment int64, target, event string) action.Action {
	return action.Action{Kind: "step", Name: event + " " + target, Handler: "step", Lane: "step/" + target, Policy: policy(),
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
	check(t, err)
	return head
}

// claim takes up to n actions of a lane, and wants to get exactly that many.
func (s setup) claim(t *testing.T, i queue.Instance, lane string, n int) []queue.Claimed {
	t.Helper()
	done, err := s.CompleteAndClaim(s.ctx, i, nil, []queue.Want{{Lane: lane, N: n}})
	check(t, err)
	if len(done.Claimed) != n {
		t.Fatalf("claimed %d of lane %s, want %d", len(done.Claimed), lane, n)
	}
	return done.Claimed
}

// pulse looks at what there is to do for an instance.
func (s setup) pulse(t *testing.T, i queue.Instance) queue.Pulse {
	t.Helper()
	p, err := s.Pulse(s.ctx, i, true)
	check(t, err)
	return p
}

// end completes a claim.
func (s setup) end(t *testing.T, i queue.Instance, c queue.Claimed, o action.Outcome) queue.Turned {
	t.Helper()
	done, err := s.CompleteAndClaim(s.ctx, i, []queue.Completion{{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: o, Claimed: &c}}, nil)
	check(t, err)
	return done
}

// enqueue stores one action and returns its id.
func (s setup) enqueue(t *testing.T, a action.Action) action.ID {
	t.Helper()
	made, err := s.Enqueue(s.ctx, a)
	check(t, err)
	return made[0].ID
}

// statusOf is where an action stands.
func (s setup) statusOf(t *testing.T, id action.ID) action.Status {
	t.Helper()
	state, err := s.Action(s.ctx, id)
	check(t, err)
	return state.Thread.Status
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode wants an error with a code.
func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("got %v (code %q), want code %q", err, fault.CodeOf(err), code)
	}
}
