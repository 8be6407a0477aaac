package journal

import (
	"context"
	"encoding/json"
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
	// Definition reads a stored version, such as one that a row of Newer brings into force, in the decider's transaction: a
	// second one could wait for this one's connection. It returns fault.Corrupt if the version is missing.
	Definition func(version int) (Version, error)
	// Owners returns the resources of other pipelines, as Journal.Owners does. None changes its owner before the
	// transaction ends. Set by Define only.
	Owners func() (map[pipeline.Resource]Owner, error)
}

// Change is the set of rows that a decider wants recorded; all of it is committed, or nothing. The zero value records
// nothing, and is how a decider answers that nothing is to be done.
type Change struct {
	Definition *pipeline.Definition // stored as version Head.Version+1; Define only
	Encoded    []byte               // the definition as JSON, if the caller made that before it waited for the lock; else nil
	Source     string               // the file it came from
	By         string
	Entries    []pipeline.Entry
	Actions    []action.Action    // with Step set
	Drain      []pipeline.StepKey // live steps that get no further attempt; a running one may end
	Cancel     []pipeline.StepKey // live steps whose running attempts are asked to stop too
	// Archived are ended deployments whose entries are in the blob store and are deleted; Pass only. The last of Entries is
	// deployments-archived.
	Archived []ArchivedDeployment
}

// Decider is a function that runs under the head lock. It may be called again when the transaction is retried, with
// the same Newer or with more rows. State that it keeps outside, such as an engine, has then seen the first call. It
// uses only Locked of the database. Its error rolls everything back, and the journal returns it.
type Decider func(Locked) (Change, error)

// Lease is an instance's right to pass a pipeline, until another instance takes it with a later epoch.
type Lease struct {
	Pipeline string
	Instance action.ID
	Epoch    int64
}

// Lease takes the pipeline for the instance when its holder is not alive; ok is false while another holds it. On the
// embedded log it is always granted, since one process at a time runs roles there. The epoch grows only when the
// pipeline changes hands, so a pass that an instance has in progress stays valid when the instance takes its own
// lease again. The error is fault.NotFound if the pipeline does not exist.
func (j *Journal) Lease(ctx context.Context, name string, instance action.ID) (lease Lease, ok bool, err error) {
	err = j.write(ctx, "lease pipeline "+name, func(t *txn) error {
		ok = false
		head, err := t.lockOne(name)
		if err != nil {
			return err
		}
		if head.Owner != instance {
			if !head.Owner.IsZero() {
				// The head is locked, so of two instances that find the holder dead one takes over.
				if alive, err := j.options.Alive(t.Tx, head.Owner, instance); alive || err != nil {
					return err
				}
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

// Pass runs a scheduling pass and returns the head after it. since is the position up to which the
// caller has folded. The error is fault.StaleEpoch if the lease no longer owns the pipeline,
// fault.Conflict if the log ends before since or an entry was decided for another position, or the
// decider's own.
func (j *Journal) Pass(ctx context.Context, lease Lease, since int64, decide Decider) (Head, error) {
	r := recording{what: "pass", pipeline: lease.Pipeline, since: since, decide: decide}
	r.check = func(h *HeadRow) error {
		if h.Epoch == lease.Epoch && h.Owner == lease.Instance {
			return nil
		}
		return fault.New(fault.StaleEpoch, "pipeline %q is passed by another instance (epoch %d, ours is %d)", h.Pipeline, h.Epoch, lease.Epoch)
	}
	return j.record(ctx, r)
}

// Define stores a new definition version with the rows of pipeline.Edit and returns the head after it.
// The pipeline is made when it is new, unless the decider refuses. Definitions of all pipelines are
// stored one after the other, so that two cannot take the same resource at the same time. Errors are
// those of Pass except fault.StaleEpoch.
func (j *Journal) Define(ctx context.Context, name string, since int64, decide Decider) (Head, error) {
	return j.record(ctx, recording{what: "define", pipeline: name, since: since, decide: decide, create: true})
}

// Append records people's requests: notes of Engine.Command. It needs no lease, since it starts nothing: the next
// pass acts on the notes. Errors are those of Define, and fault.NotFound if the pipeline does not exist.
func (j *Journal) Append(ctx context.Context, name string, since int64, decide Decider) (Head, error) {
	return j.record(ctx, recording{what: "append to", pipeline: name, since: since, decide: decide})
}

// Remark appends an entry that completes nothing and decides nothing, such as the answers of a running step's checks,
// or that a service was stopped. A fact is refused with fault.Internal: facts complete steps, and only a pass or the
// end of a step's action knows that a step is complete. An entry of an archived deployment is fault.Refused.
func (j *Journal) Remark(ctx context.Context, name string, e pipeline.Entry) error {
	if e.Class == pipeline.Fact {
		return fault.New(fault.Internal, "%s of %s is a fact, not a remark", e.Event, e.Target)
	}
	return j.write(ctx, "append to "+name, func(t *txn) error {
		head, err := t.lockOne(name)
		if err != nil {
			return err
		}
		if err := t.checkNotArchived(head, e.Deployment); err != nil {
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
	what     string // name in errors: "pass", "define", …
	pipeline string
	since    int64 // position of the last entry that the decider knows
	decide   Decider
	create   bool                 // make the pipeline if it is new, and let the decider store a definition
	check    func(*HeadRow) error // refuses the locked head; nil: every head will do
}

// record locks the head, reads the new rows, decides, and writes everything down. Pass, Define and Append are this
// one mechanism. It checks the lease under the lock and before the decider is called: until the transaction ends no
// other instance can take the lease, and a decider that runs without one would advance its engine by a decision that
// is lost.
func (j *Journal) record(ctx context.Context, r recording) (after Head, err error) {
	var refused error // the decider's own error names the fault, so it is returned without the name of the work
	ask := r.decide
	r.decide = func(locked Locked) (change Change, err error) {
		change, err = ask(locked)
		refused = err
		return change, err
	}
	err = j.write(ctx, r.what+" "+r.pipeline, func(t *txn) error {
		if err := t.lock(r.create, r.pipeline); err != nil {
			return err
		}
		head, err := t.head(r.pipeline)
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
	// A decider that could not read returns the database's error as it was in the transaction. Its code is only in err, since
	// drivers add the code when the transaction ends.
	if refused != nil && errors.Is(err, refused) && !fault.Is(err, fault.LedgerUnavailable) {
		err = refused
	}
	return after, err
}

// decide shows the caller the rows that it has not seen and has it decide. A caller that knows the whole log, as most
// passes do, costs no read.
func (t *txn) decide(r recording, head *HeadRow) (Change, error) {
	// A database that was restored from a backup may end before the rows that the caller has folded. Its engine knows
	// entries that were lost, so it must not decide.
	if r.since > head.Seq {
		return Change{}, fault.New(fault.Conflict, "the log of %q ends at %d, before the known position %d: it is another log",
			r.pipeline, head.Seq, r.since)
	}
	locked := Locked{Head: head.Head, Now: t.Now()}
	locked.Definition = func(version int) (Version, error) { return t.storedVersion(head, version) }
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
	if err == nil && len(change.Archived) > 0 && r.check == nil {
		err = fault.New(fault.Internal, "only Pass archives deployments")
	}
	return change, err
}

// apply writes a decision down. The version comes first, because the entries name it and their
// roll-ups need its resources. The steps come after the entries: a step that is drained may end at
// once, and its end must not take a position that the decider has counted for an entry. The head
// comes last, with all positions counted; a change that appended nothing leaves its row alone.
func (t *txn) apply(head *HeadRow, c Change) error {
	before := head.Head
	if c.Definition != nil {
		if err := t.define(head, c); err != nil {
			return err
		}
	}
	if err := t.insertCreated(head, c.Entries); err != nil {
		return err
	}
	if err := t.append(head, c.Entries); err != nil {
		return err
	}
	if err := t.archive(head, c, head.Seq); err != nil {
		return err
	}
	if err := t.applySteps(head, c); err != nil {
		return err
	}
	if head.Head == before {
		return nil
	}
	return t.UpdateHead(*head)
}

// insertCreated stores the deployments that a decision creates. The decider has counted their
// numbers, as it counts positions.
func (t *txn) insertCreated(head *HeadRow, entries []pipeline.Entry) error {
	for _, e := range entries {
		if e.Event != pipeline.DeploymentCreated {
			continue
		}
		if head.Deployed++; e.Deployment != head.Deployed {
			return fault.New(fault.Conflict, "deployment %s#%d was decided, the next is %d", head.Pipeline, e.Deployment, head.Deployed)
		}
		r, err := oneRevision(t, head.Pipeline, "", e.Revision)
		if err != nil {
			return err
		}
		var about struct{ Kind, By string }
		if err := json.Unmarshal(e.Detail, &about); err != nil {
			return err
		}
		d := t.newDeployment(head, r, NewDeployment{Kind: about.Kind, By: about.By})
		if err := t.InsertDeployment(head.ID, d); err != nil {
			return err
		}
	}
	return nil
}

// define stores the next version and puts it in force. Only this transaction remembers it: if it
// rolls back, its number is free and another definition may get it.
func (t *txn) define(head *HeadRow, c Change) error {
	head.Version++
	v := Version{Pipeline: head.Pipeline, Version: head.Version, Definition: *c.Definition,
		Encoded: c.Encoded, Source: c.Source, By: c.By, At: t.Now()}
	t.defined = newDefinitionInForce(v)
	return t.InsertVersion(head.ID, v)
}
