package queue

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// insert stores actions with their threads, and wakes conductors for those that are due. Threads go first: their unique keys
// and ids find out races with other transactions.
func (t *txn) insert(fresh []action.Action) error {
	if len(fresh) == 0 {
		return nil
	}
	rows := make([]ThreadRow, len(fresh))
	for i, a := range fresh {
		rows[i] = t.row(a, newThread(a, t.Now()))
	}
	slices.SortFunc(rows, func(a, b ThreadRow) int { // so that transactions with the same keys do not wait for each other
		return cmp.Or(strings.Compare(a.UniqueKey, b.UniqueKey), bytes.Compare(a.ID[:], b.ID[:]))
	})
	if err := t.InsertThreads(rows); err != nil {
		return err
	}
	t.Touch(store.TopicAction)
	var ready []string
	for _, r := range rows {
		if r.Ready {
			ready = append(ready, r.Lane)
		}
	}
	t.TouchReady(ready...)
	return t.InsertActions(fresh)
}

// prepareAll prepares actions, and returns them with the ids that the caller gave.
func (t *txn) prepareAll(actions []action.Action) (prepared []action.Action, given []action.ID, err error) {
	prepared = make([]action.Action, len(actions))
	for i, a := range actions {
		if !a.ID.IsZero() {
			given = append(given, a.ID)
		}
		if prepared[i], err = t.prepare(a); err != nil {
			return nil, nil, err
		}
	}
	return prepared, given, nil
}

// prepare fills in what an action leaves open and refuses what cannot be stored: fault.Invalid. Times are by the database's
// clock, so it works in the transaction. A RunAt in the past becomes now, because the rank counts from it: an old time would
// overtake everything that waits. Preparing an action with an id twice in one transaction gives the same action.
func (t *txn) prepare(a action.Action) (action.Action, error) {
	now := t.Now()
	if a.ID.IsZero() {
		a.ID = action.RandomID(now)
	}
	a.CreatedAt = a.ID.Time()
	if a.Priority == nil {
		a.Priority = new(action.DefaultPriority)
	}
	if a.Lane == "" {
		a.Lane = a.Handler
	}
	if a.Delivery == "" {
		a.Delivery = action.AtLeastOnce
	}
	if a.RunAt.Before(now) {
		a.RunAt = now
	}
	return a, refuse(a, now)
}

// refuse returns the faults of an action, with the code fault.Invalid, or nil. What one database cannot store is
// refused on every database.
func refuse(a action.Action, now time.Time) error {
	switch {
	case a.Kind == "" || a.Handler == "":
		return fault.New(fault.Invalid, "action %q needs a kind and a handler", a.Name)
	case *a.Priority < 0 || *a.Priority > 1000:
		return fault.New(fault.Invalid, "priority %d of action %q: want 0 to 1000", *a.Priority, a.Name)
	case a.RunAt.Sub(now) > farthest:
		return fault.New(fault.Invalid, "action %q is to run more than a year ahead", a.Name)
	case len(a.Parameters) > 0 && store.JSONFlaw(a.Parameters) != "":
		return fault.New(fault.Invalid, "parameters of action %q %s", store.CleanText(a.Name), store.JSONFlaw(a.Parameters))
	}
	return refuseTexts(a)
}

// maxText is the length of a text of an action in bytes; an index of PostgreSQL holds hardly more.
const maxText = 1024

// refuseTexts returns the fault of the first text of an action that not every database stores: PostgreSQL has no NUL and only
// UTF-8.
func refuseTexts(a action.Action) error {
	for _, text := range []struct{ called, is string }{
		{"name", a.Name}, {"kind", a.Kind}, {"handler", a.Handler}, {"lane", a.Lane}, {"unique key", a.UniqueKey}, {"creator", a.CreatedBy},
	} {
		switch {
		case !store.IsText(text.is):
			return fault.New(fault.Invalid, "the %s of action %q has a NUL character or is not valid UTF-8", text.called, store.CleanText(a.Name))
		case len(text.is) > maxText:
			return fault.New(fault.Invalid, "the %s of action %.40q has %d bytes: want at most %d", text.called,
				store.CleanText(a.Name), len(text.is), maxText)
		}
	}
	return nil
}

// newThread returns the thread of an action that was just stored. Its id may be older, as that of a tick which is made up
// for, so its deadline counts from now.
func newThread(a action.Action, now time.Time) action.Thread {
	t := action.Thread{Status: action.Pending, RunAt: a.RunAt}
	if a.Policy.Deadline > 0 {
		t.Deadline = now.Add(time.Duration(a.Policy.Deadline))
	}
	return t
}

// existing holds the actions that exist already, by key, id or cache key.
type existing struct {
	keys map[string]action.ID
	ids  map[action.ID]bool
	jobs map[action.ID]action.ID // answering job, by cache key; the job itself if no other answers
}

// find returns the action that is the answer to an enqueue of a, and true, or the id of a and false. A live unique
// key comes before the payload cache. An action whose own id exists is itself the answer, even if its key points to
// another by now.
func (k existing) find(a action.Action) (action.ID, bool) {
	if id, ok := k.keys[a.UniqueKey]; ok && a.UniqueKey != "" {
		return id, true
	}
	if id, ok := k.jobs[a.CacheKey]; ok && id != a.ID && !k.ids[a.ID] {
		return id, true
	}
	return a.ID, k.ids[a.ID]
}

// add records an action that is to be stored, so that a later one of the same call finds it.
func (k existing) add(a action.Action) {
	k.ids[a.ID] = true
	if a.UniqueKey != "" {
		k.keys[a.UniqueKey] = a.ID
	}
}

// lateSubscriber is the subscriber of a request that a job of an earlier request answers.
type lateSubscriber struct {
	job action.ID
	Subscriber
}

// divide returns the outcome of each action, in their order, the actions that are to be stored, and the subscribers
// of those that a job answers.
func (k existing) divide(actions []action.Action) (made []Enqueued, fresh []action.Action, late []lateSubscriber) {
	made = make([]Enqueued, len(actions))
	for i, a := range actions {
		id, there := k.find(a)
		made[i] = Enqueued{ID: id, Created: !there}
		switch {
		case !there:
			k.add(a)
			fresh = append(fresh, a)
		case a.Subscriber != nil && id != a.ID && id == k.jobs[a.CacheKey]:
			late = append(late, lateSubscriber{id, Subscriber{a.ID, *a.Subscriber}})
		}
	}
	return made, fresh, late
}

// known looks up which of the actions exist: live under the same key, or, of those whose ids were given, under the
// same id, live or ended, or as an earlier answer to the same payload. Ids that prepare has just made are not
// searched for.
func (t *txn) known(actions []action.Action, given []action.ID) (existing, error) {
	var keys []string
	for _, a := range actions {
		if a.UniqueKey != "" {
			keys = append(keys, a.UniqueKey)
		}
	}
	k := existing{keys: map[string]action.ID{}, ids: map[action.ID]bool{}, jobs: map[action.ID]action.ID{}}
	if len(given) > 0 {
		found, err := t.Actions(given)
		if err != nil {
			return existing{}, err
		}
		for _, a := range found {
			k.ids[a.ID] = true
		}
	}
	if len(keys) > 0 {
		live, err := t.LiveKeys(keys)
		if err != nil {
			return existing{}, err
		}
		k.keys = live
	}
	return k, t.cached(actions, k)
}

// cached lets the payload cache answer for the jobs that are new. Jobs that exist are left out: requesting them would
// point the key of a job that no longer answers back to it.
func (t *txn) cached(actions []action.Action, known existing) error {
	var jobs []action.Action
	for _, a := range actions {
		if _, there := known.find(a); !there && !a.CacheKey.IsZero() {
			jobs = append(jobs, a)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	answers, err := t.answers(jobs)
	maps.Copy(known.jobs, answers)
	return err
}

// farthest is the largest delay of RunAt. A later time is a mistake of its unit rather than a wish.
const farthest = 366 * 24 * time.Hour
