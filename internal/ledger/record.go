package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Locked is a pipeline under its head lock.
type Locked struct {
	Head
	Now   time.Time        // the transaction's time, UTC
	Newer []pipeline.Entry // rows after the position that the caller knows
	// Owners returns the resources of other pipelines, as Ledger.Owners does, none of which changes its owner before the
	// transaction ends; Define only.
	Owners func() (map[pipeline.Resource]Owner, error)
}

// Change is what a decider wants recorded; all of it is committed, or nothing.
type Change struct {
	Definition *pipeline.Definition // stored as version Head.Version+1; Define only
	Source     string               // the file it came from
	By         string
	Entries    []pipeline.Entry
	Actions    []action.Action // with Step set
	Drain      []pipeline.StepKey
	Cancel     []pipeline.StepKey
}

// Decider is a function that runs under the head lock. It may be called again when the transaction is retried.
type Decider func(Locked) (Change, error)

// Lease says that an instance passes a pipeline until somebody with a later epoch does.
type Lease struct {
	Pipeline string
	Instance action.ID
	Epoch    int64
}

// Lease takes the pipeline for the instance when its holder is not alive; ok is false while another holds it.
// On the embedded log it is always granted: whoever runs roles there is alone.
func (l *Ledger) Lease(ctx context.Context, name string, instance action.ID) (lease Lease, ok bool, err error) {
	err = l.write(ctx, "lease pipeline "+name, func(t *txn) error {
		ok = false
		head, err := t.lockOne(name)
		if err != nil {
			return err
		}
		if head.Owner != instance {
			free, err := t.unowned(head.Owner, instance)
			if err != nil || !free {
				return err
			}
			head.Owner = instance
			head.Epoch++
			if err := t.UpdateHead(*head); err != nil {
				return err
			}
		}
		lease, ok = Lease{Pipeline: name, Instance: instance, Epoch: head.Epoch}, true
		return nil
	})
	return lease, ok, err
}

// unowned reports whether a pipeline's owner is gone, as seen by another instance.
func (t *txn) unowned(owner, self action.ID) (bool, error) {
	if owner.IsZero() || t.core.driver.Embedded() {
		return true, nil
	}
	if err := t.removeDead(self); err != nil {
		return false, err
	}
	alive, err := t.Instances()
	for _, i := range alive {
		if i.ID == owner {
			return false, err
		}
	}
	return true, err
}

// Pass runs a scheduling pass. A lease that is no longer the pipeline's is refused with fault.StaleEpoch.
// since is the position up to which the caller has folded. Returns the head after the pass.
func (l *Ledger) Pass(ctx context.Context, lease Lease, since int64, decide Decider) (Head, error) {
	r := recording{what: "pass", pipeline: lease.Pipeline, since: since, decide: decide}
	r.check = func(h *HeadRow) error {
		if h.Epoch == lease.Epoch && h.Owner == lease.Instance {
			return nil
		}
		return fault.New(fault.StaleEpoch, "pipeline %q is passed by another instance (epoch %d, ours is %d)", h.Pipeline, h.Epoch, lease.Epoch)
	}
	return l.record(ctx, r)
}

// Define stores a new definition version with the rows of pipeline.Edit; the pipeline is made when it is new.
func (l *Ledger) Define(ctx context.Context, name string, since int64, decide Decider) (Head, error) {
	return l.record(ctx, recording{what: "define", pipeline: name, since: since, decide: decide, create: true})
}

// Append records what people ask: notes of Engine.Command.
func (l *Ledger) Append(ctx context.Context, name string, since int64, decide Decider) (Head, error) {
	return l.record(ctx, recording{what: "append to", pipeline: name, since: since, decide: decide})
}

// Remark appends an entry that completes nothing and decides nothing, such as what the checks of a running step answer,
// or that a service was stopped.
func (l *Ledger) Remark(ctx context.Context, name string, e pipeline.Entry) error {
	if e.Class == pipeline.Fact {
		return fault.New(fault.Internal, "%s of %s is a fact, not a remark", e.Event, e.Target)
	}
	return l.write(ctx, "append to "+name, func(t *txn) error {
		head, err := t.lockOne(name)
		if err != nil {
			return err
		}
		if err := t.append(head, []pipeline.Entry{e}); err != nil {
			return err
		}
		return t.UpdateHead(*head)
	})
}

// recording is one run of a decider.
type recording struct {
	what     string
	pipeline string
	since    int64
	decide   Decider
	create   bool
	check    func(*HeadRow) error
}

// record is the one mechanism of Pass, Define and Append: lock the head, read
// what is new, decide, write everything down.
func (l *Ledger) record(ctx context.Context, r recording) (after Head, err error) {
	var refused error // the decider's own error says what is wrong; it is not a fault of the log
	ask := r.decide
	r.decide = func(locked Locked) (change Change, err error) {
		change, err = ask(locked)
		refused = err
		return change, err
	}
	err = l.write(ctx, r.what+" "+r.pipeline, func(t *txn) error {
		if r.create {
			if err := t.LockDefinitions(); err != nil {
				return err
			}
			if err := t.CreateHead(r.pipeline); err != nil {
				return err
			}
		}
		head, err := t.lockOne(r.pipeline)
		if err != nil {
			return err
		}
		if r.check != nil {
			if err := r.check(head); err != nil {
				return err
			}
		}
		change, err := t.decide(r, head)
		if err != nil {
			return err
		}
		if err := t.apply(head, change); err != nil {
			return err
		}
		after = head.Head
		return nil
	})
	if refused != nil && errors.Is(err, refused) {
		err = refused
	}
	return after, err
}

// decide shows the caller what it has not seen and asks what to record.
func (t *txn) decide(r recording, head *HeadRow) (Change, error) {
	if r.since > head.Seq {
		return Change{}, fault.New(fault.Conflict, "the log of %q ends at %d, before the known position %d: it is another log",
			r.pipeline, head.Seq, r.since)
	}
	locked := Locked{Head: head.Head, Now: t.Now()}
	if r.create {
		locked.Owners = func() (map[pipeline.Resource]Owner, error) { return t.owners(r.pipeline) }
	}
	if r.since < head.Seq {
		newer, err := t.Entries(EntryQuery{Pipeline: r.pipeline, After: r.since})
		if err != nil {
			return Change{}, err
		}
		locked.Newer = newer
	}
	change, err := r.decide(locked)
	if err == nil && change.Definition != nil && !r.create {
		err = fault.New(fault.Internal, "only Define stores a definition")
	}
	return change, err
}

// apply writes a decision down: the version, its actions, the entries, then the ends that it causes.
func (t *txn) apply(head *HeadRow, c Change) error {
	before := head.Head
	if c.Definition != nil {
		if err := t.define(head, c); err != nil {
			return err
		}
	}
	if err := t.start(head, c.Actions); err != nil {
		return err
	}
	if err := t.append(head, c.Entries); err != nil {
		return err
	}
	if err := t.stop(head, c.Drain, action.AskDrain); err != nil {
		return err
	}
	if err := t.stop(head, c.Cancel, action.AskCancel); err != nil {
		return err
	}
	if head.Head == before {
		return nil
	}
	return t.UpdateHead(*head)
}

// define stores the next version and puts it in force.
func (t *txn) define(head *HeadRow, c Change) error {
	head.Version++
	v := Version{Pipeline: head.Pipeline, Version: head.Version, Definition: *c.Definition,
		Source: c.Source, By: c.By, At: t.Now()}
	t.defined = newKnown(v)
	return t.InsertVersion(head.ID, v)
}

// start stores the actions of steps that a pass has claimed.
func (t *txn) start(head *HeadRow, actions []action.Action) error {
	if len(actions) == 0 {
		return nil
	}
	uuids, err := t.deploymentIDs(head.ID, actions)
	if err != nil {
		return err
	}
	own := make([]action.Action, len(actions))
	for i, a := range actions {
		if a.Step == nil {
			return fault.New(fault.Internal, "action %s of a pass names no step", a.Name)
		}
		id, ok := uuids[a.Step.Deployment]
		if !ok {
			return fault.New(fault.Internal, "%s#%d does not exist", head.Pipeline, a.Step.Deployment)
		}
		a.UniqueKey = a.Step.UniqueKey(id.String())
		own[i] = a
	}
	made, err := t.enqueue(own)
	for _, e := range made {
		if !e.Created {
			return fault.New(fault.DuplicateKey, "a step is claimed already, by action %s", e.ID)
		}
	}
	return err
}

func (t *txn) deploymentIDs(pipelineID int64, actions []action.Action) (map[int64]action.ID, error) {
	var numbers []int64
	for _, a := range actions {
		if a.Step != nil {
			numbers = append(numbers, a.Step.Deployment)
		}
	}
	return t.DeploymentIDs(pipelineID, numbers)
}

// stop drains or cancels the live actions of steps; those that have ended meanwhile need nothing.
func (t *txn) stop(head *HeadRow, steps []pipeline.StepKey, kind action.InputKind) error {
	if len(steps) == 0 {
		return nil
	}
	numbers := make([]int64, len(steps))
	for i, s := range steps {
		numbers[i] = s.Deployment
	}
	uuids, err := t.DeploymentIDs(head.ID, numbers)
	if err != nil {
		return err
	}
	keys := make([]string, len(steps))
	for i, s := range steps {
		keys[i] = action.StepRef{Target: s.Target, Event: s.Event}.UniqueKey(uuids[s.Deployment].String())
	}
	found, err := t.LiveKeys(keys)
	if err != nil {
		return err
	}
	var ids []action.ID
	for _, key := range keys {
		if id, ok := found[key]; ok {
			ids = append(ids, id)
		}
	}
	return t.change(ids, each(func(*txn, live) (action.Input, bool) {
		return action.Input{Kind: kind, Source: "deployer"}, true
	}))
}
