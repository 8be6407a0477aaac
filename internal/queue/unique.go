package queue

import (
	"context"
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// OnConflict sets the handling of an action whose unique key is that of a live one.
type OnConflict string

// What an enqueue does when a live action has its unique key.
const (
	ReturnExisting OnConflict = "return"      // it is not stored: the live one is the answer
	RejectNew      OnConflict = "reject"      // it is refused: fault.DuplicateKey
	ReplaceWaiting OnConflict = "replace"     // the live one is canceled, unless it is claimed: then it is the answer
	ReplaceOwn     OnConflict = "replace-own" // ReplaceWaiting, but fault.Forbidden when the live one was created by another principal
)

// OnConflicts lists those that a client may request, the default first.
func OnConflicts() []string {
	return []string{string(ReturnExisting), string(RejectNew), string(ReplaceWaiting)}
}

// EnqueueOptions configure the effects of an enqueue besides storing actions. OnConflict and Idempotency are of a
// single action.
type EnqueueOptions struct {
	OnConflict  OnConflict   // "": ReturnExisting
	Idempotency *Idempotency // the request that requests the action, so that a repeat gets the first answer; nil: none
	// Before is called in the transaction before the actions are stored, unless the request is a repeat. It may complete the
	// actions in place, and store what belongs to them. Its error undoes what it has stored, and its actions are not stored;
	// other callers in the transaction are not concerned. It may run again, and after EnqueueWith has returned since ctx has
	// ended, so what it sets is read only when there was no error. nil: nothing is called.
	Before func(tx *store.Tx, actions []action.Action) error
}

// EnqueueWith stores actions as Enqueue does, in one transaction with what Before stores and what happens to the live action
// that has the key of a single one. The repeat of a request gets the same answer for IdempotencyAge. Errors: those of Enqueue and
// Before; fault.IdempotencyKeyReused when the key was sent with another request, fault.DuplicateKey and fault.Forbidden by
// OnConflict, fault.OwnedByDeployment when the action to replace is a step, fault.Unavailable when its successors cannot be
// planned; fault.Internal for several actions with options of a single one.
//
// An enqueue that cannot conflict shares a transaction with others (Enqueue). The rest go alone, since they lock what they find.
func (q *Queue) EnqueueWith(ctx context.Context, o EnqueueOptions, actions ...action.Action) ([]Enqueued, error) {
	isAlone := o.Idempotency != nil || slices.ContainsFunc(actions, o.contests)
	switch {
	case !isAlone:
		return q.enqueue(ctx, part{actions: actions, before: o.Before})
	case len(actions) != 1:
		return nil, fault.New(fault.Internal, "enqueue %d actions with options of a single one", len(actions))
	}
	made, err := q.enqueueAlone(ctx, actions[0], o)
	if err != nil {
		return nil, err
	}
	return []Enqueued{made}, nil
}

// enqueueAlone stores an action in a transaction of its own.
func (q *Queue) enqueueAlone(ctx context.Context, a action.Action, o EnqueueOptions) (made Enqueued, err error) {
	replaced, err := q.foreseeReplaced(ctx, a, o.OnConflict)
	if err != nil {
		return Enqueued{}, err
	}
	err = q.subscribing(ctx, a, func(a action.Action, answered plans) error {
		planned := plans{}
		maps.Copy(planned, replaced)
		maps.Copy(planned, answered)
		_, err := q.transact(ctx, "enqueue", planned, func(t *txn) error {
			made, err = t.enqueueWith(a, o)
			return err
		})
		return err
	})
	return made, err
}

// contests reports whether a live action with the key of a may be more than the answer.
func (o EnqueueOptions) contests(a action.Action) bool {
	return a.UniqueKey != "" && o.OnConflict != ReturnExisting && o.OnConflict != ""
}

// foreseeReplaced plans what follows the live action that is to give way to another with its key. Which one has the
// key is a guess until the transaction looks again. If it is another by then, and something follows its end, that end
// has no plan: it is deferred, and the caller gets fault.Unavailable.
func (q *Queue) foreseeReplaced(ctx context.Context, a action.Action, way OnConflict) (plans, error) {
	if way != ReplaceWaiting && way != ReplaceOwn || a.UniqueKey == "" || q.options.Successors == nil {
		return nil, nil
	}
	var ids []action.ID
	err := q.read(ctx, "read the action to replace", func(tx rows) error {
		live, err := tx.LiveKeys([]string{a.UniqueKey})
		ids = slices.Collect(maps.Values(live))
		return err
	})
	if err != nil {
		return nil, err
	}
	return q.foresee(ctx, "read the action to replace", ids, replaced)
}

// replaced is the decider that cancels what another action with the same key replaces, unless it is claimed. A request to stop
// claimed work would be a side effect of an enqueue that changes nothing else, so such a move is dropped.
func replaced(t *txn, found []live) (moves []move, err error) {
	for _, f := range found {
		if err := OwnedByDeployment(f.action, "cancel"); err != nil {
			return nil, err
		}
		in := action.Input{Kind: action.AskCancel, Source: "api", Outcome: action.Outcome{Error: "replaced by another action with the same key"}}
		next, err := action.Next(f.action, f.thread, in, t.Now())
		if err != nil {
			return nil, err
		}
		if next.Ended() {
			moves = append(moves, move{action: &f.action, Transition: next})
		}
	}
	return moves, nil
}

// enqueueWith stores one action by options. The request's key is pointed to the new action before it is known whether that is
// stored, because pointing locks the key: a repeat at the same time waits here and then finds the answer.
func (t *txn) enqueueWith(a action.Action, o EnqueueOptions) (Enqueued, error) {
	if o.Idempotency == nil {
		return t.enqueueFirst(a, o)
	}
	if a.ID.IsZero() {
		a.ID = action.RandomID(t.Now())
	}
	first, repeated, err := t.recallRequest(*o.Idempotency, a.ID)
	if repeated || err != nil {
		return first, err
	}
	made, err := t.enqueueFirst(a, o)
	if err != nil || made.Created {
		return made, err
	}
	return made, t.answerRequest(*o.Idempotency, made.ID)
}

// enqueueFirst stores an action of a request that is not a repeat.
func (t *txn) enqueueFirst(a action.Action, o EnqueueOptions) (Enqueued, error) {
	completed, err := part{actions: []action.Action{a}, before: o.Before}.complete(t.Tx)
	if err != nil {
		return Enqueued{}, err
	}
	return t.enqueueUnique(completed[0], o)
}

// enqueueUnique stores an action unless a live one has its key and keeps it. store.ErrRace, by which the database runs the
// transaction again: another transaction has changed who has the key.
func (t *txn) enqueueUnique(a action.Action, o EnqueueOptions) (Enqueued, error) {
	contested := o.contests(a)
	var live map[string]action.ID
	if contested {
		var err error
		if live, err = t.LiveKeys([]string{a.UniqueKey}); err != nil {
			return Enqueued{}, err
		}
	}
	id, taken := live[a.UniqueKey]
	switch {
	case taken && o.OnConflict == RejectNew:
		return Enqueued{}, fault.New(fault.DuplicateKey, "the key %q is that of a live action: %s", a.UniqueKey, id).
			WithHint("waybill action show %s", id)
	case taken:
		if gone, err := t.giveWay(id, a, o.OnConflict); err != nil || !gone {
			return Enqueued{ID: id}, err
		}
	}
	made, err := t.enqueue([]action.Action{a})
	if err != nil {
		return Enqueued{}, err
	}
	if contested && !made[0].Created && made[0].ID != a.ID {
		return Enqueued{}, store.ErrRace // another transaction has taken the key since it was looked at
	}
	return made[0], nil
}

// giveWay cancels a live action, so that a may have its key; false: it is claimed. Its end has to take place in this transaction,
// since the key is unique among live actions: when the end is deferred the whole enqueue is refused with fault.Unavailable.
func (t *txn) giveWay(id action.ID, a action.Action, way OnConflict) (bool, error) {
	found, err := t.lockLive([]action.ID{id})
	if err != nil {
		return false, err
	}
	if len(found) == 0 {
		return false, store.ErrRace // it has just ended
	}
	if by := found[0].action.CreatedBy; way == ReplaceOwn && by != a.CreatedBy {
		return false, fault.New(fault.Forbidden,
			"the key %q is that of action %s, which %q created: replacing it needs the scope operate", a.UniqueKey, id, by)
	}
	moves, err := replaced(t, found)
	if err != nil || len(moves) == 0 {
		return false, err
	}
	if err := t.settle(moves); err != nil {
		return false, err
	}
	return true, t.deferred.Err() // nothing is stored beside an action that keeps its key
}

// OwnedByDeployment refuses what only the commands of a deployment may do to its steps, with fault.OwnedByDeployment; verb is
// such a command.
func OwnedByDeployment(a action.Action, verb string) error {
	s := a.Step
	if s == nil {
		return nil
	}
	return fault.New(fault.OwnedByDeployment, "action %s is a step of %s#%d", a.ID, s.Pipeline, s.Deployment).
		WithHint("waybill deployment %s %s#%d", verb, s.Pipeline, s.Deployment)
}
