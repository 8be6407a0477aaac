package queuetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// enqueueWith stores one action by options.
func (q *alone) enqueueWith(ctx context.Context, a action.Action, o queue.EnqueueOptions) (queue.Enqueued, error) {
	made, err := q.EnqueueWith(ctx, o, a)
	if err != nil {
		return queue.Enqueued{}, err
	}
	return made[0], nil
}

// beside stores an action, by its name, in the transaction of an enqueue, as what belongs to it.
func (q *alone) beside(tx *store.Tx, name string) error {
	return q.Steps(tx, []action.Action{job(name)}, nil, nil)
}

// names lists the names of all actions, in alphabetical order.
func (s setup) names(t *testing.T) (names []string) {
	t.Helper()
	states, err := s.Actions(s.ctx, queue.ActionQuery{})
	storetest.Check(t, err)
	for _, state := range states {
		names = append(names, state.Name)
	}
	slices.Sort(names)
	return names
}

// severalActionsHaveOneBefore: what Before stores and the actions that it completes are stored together or not at all.
func severalActionsHaveOneBefore(t *testing.T, s setup) {
	given := []action.Action{job("a"), job("b"), job("c")}
	complete := func(tx *store.Tx, actions []action.Action) error {
		for i := range actions {
			actions[i].Name += "!"
		}
		return s.beside(tx, "beside")
	}
	made, err := s.EnqueueWith(s.ctx, queue.EnqueueOptions{Before: complete}, given...)
	storetest.Check(t, err)
	for i, want := range []string{"a!", "b!", "c!"} {
		state, err := s.Action(s.ctx, made[i].ID)
		storetest.Check(t, err)
		if state.Name != want || !made[i].Created || given[i].Name+"!" != want {
			t.Errorf("action %d is %+v with the name %q, want %q; the caller's has %q", i, made[i], state.Name, want, given[i].Name)
		}
	}
	refuse := func(tx *store.Tx, actions []action.Action) error {
		return errors.Join(complete(tx, actions), fault.New(fault.Refused, "there are too many"))
	}
	_, err = s.EnqueueWith(s.ctx, queue.EnqueueOptions{Before: refuse}, given...)
	storetest.WantCode(t, err, fault.Refused)
	spoil := func(tx *store.Tx, actions []action.Action) error {
		actions[2].Parameters = []byte("{")
		return s.beside(tx, "beside")
	}
	_, err = s.EnqueueWith(s.ctx, queue.EnqueueOptions{Before: spoil}, given...)
	storetest.WantCode(t, err, fault.Invalid)
	if diff := gocmp.Diff([]string{"a!", "b!", "beside", "c!"}, s.names(t)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// severalActionsConflictWithNone: what concerns a live action with the same key, or a repeated request, is of one action.
func severalActionsConflictWithNone(t *testing.T, s setup) {
	keyed := job("a")
	keyed.UniqueKey = "key"
	for _, o := range []queue.EnqueueOptions{{OnConflict: queue.RejectNew}, {OnConflict: queue.ReplaceWaiting},
		{Idempotency: once("ana", "k", "x")}} {
		_, err := s.EnqueueWith(s.ctx, o, keyed, job("b"))
		storetest.WantCode(t, err, fault.Internal)
	}
	if names := s.names(t); names != nil {
		t.Errorf("stored %v", names)
	}
	made, err := s.EnqueueWith(s.ctx, queue.EnqueueOptions{OnConflict: queue.RejectNew}, job("b"), job("c"))
	if storetest.Check(t, err); len(made) != 2 { // without a key nothing conflicts
		t.Errorf("made %+v", made)
	}
}

// arrival is a context that reports when a call waits for its end: the call has joined a group then.
type arrival struct {
	context.Context
	once sync.Once
	here chan struct{}
}

func (a *arrival) Done() <-chan struct{} {
	a.once.Do(func() { close(a.here) })
	return a.Context.Done()
}

// joiner enqueues one action, with what Before stores, in a transaction with others.
type joiner struct {
	ctx    context.Context
	before func(*store.Tx, []action.Action) error
	made   []queue.Enqueued
	err    error
	ended  chan struct{} // closed when its call has returned; nil: nothing is
}

// joinAll enqueues an action for each joiner while all transactions that callers share are kept open, so that the next one has all
// the actions. It calls meantime before that.
func (s setup) joinAll(t *testing.T, joiners []*joiner, meantime func()) {
	t.Helper()
	var all sync.WaitGroup
	release := make(chan struct{})
	for i := range s.sharedAtOnce() {
		begun := make(chan struct{})
		wait := sync.OnceFunc(func() { close(begun); <-release })
		all.Go(func() {
			before := func(*store.Tx, []action.Action) error { wait(); return nil }
			if _, err := s.EnqueueWith(s.ctx, queue.EnqueueOptions{Before: before}, job("first")); err != nil {
				t.Errorf("first caller %d: %v", i, err)
			}
		})
		<-begun
	}
	for _, j := range joiners {
		ctx := &arrival{Context: j.ctx, here: make(chan struct{})}
		all.Go(func() {
			j.made, j.err = s.EnqueueWith(ctx, queue.EnqueueOptions{Before: j.before}, job("joined"))
			if j.ended != nil {
				close(j.ended)
			}
		})
		<-ctx.here
	}
	meantime()
	close(release)
	all.Wait()
}

// sharedAtOnce returns how many transactions callers share at a time.
func (s setup) sharedAtOnce() int {
	if s.Embedded() {
		return 1
	}
	return 2
}

// beforesShareTransactions: callers with Before share a transaction as others do. One whose Before fails leaves nothing there, and
// fails no other.
func beforesShareTransactions(t *testing.T, s setup) {
	var want []string
	for round, refusal := range []error{nil, fault.New(fault.Refused, "not this one"),
		fault.New(fault.Unavailable, "not now"), errors.New("no")} {
		joiners := make([]*joiner, 4)
		transactions := make([]*store.Tx, len(joiners)) // the first of each
		for i := range joiners {
			name := fmt.Sprintf("%d.%d", round, i)
			refused := i == 2 && refusal != nil
			if !refused {
				want = append(want, "beside "+name, "joined "+name)
			}
			joiners[i] = &joiner{ctx: s.ctx, before: func(tx *store.Tx, actions []action.Action) error {
				transactions[i] = cmp.Or(transactions[i], tx)
				actions[0].Name += " " + name
				if err := s.beside(tx, "beside "+name); err != nil || !refused {
					return err
				}
				return refusal
			}}
		}
		s.joinAll(t, joiners, func() {})
		want = append(want, slices.Repeat([]string{"first"}, s.sharedAtOnce())...)
		for i, j := range joiners {
			if i == 2 && refusal != nil {
				if !errors.Is(j.err, refusal) {
					t.Errorf("round %d: got %v, want %v", round, j.err, refusal)
				}
				continue
			}
			s.wantMade(t, j, fmt.Sprintf("joined %d.%d", round, i))
		}
		if transactions[1] != transactions[0] || transactions[2] != transactions[0] {
			t.Errorf("round %d: callers had transactions of their own", round)
		}
	}
	slices.Sort(want)
	if diff := gocmp.Diff(want, s.names(t)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// wantMade fails the test unless a joiner has made an action with a name.
func (s setup) wantMade(t *testing.T, j *joiner, name string) {
	t.Helper()
	if j.err != nil || len(j.made) != 1 || !j.made[0].Created {
		t.Errorf("%s: made %+v, %v", name, j.made, j.err)
		return
	}
	if state, err := s.Action(s.ctx, j.made[0].ID); err != nil || state.Name != name {
		t.Errorf("got the action %q (%v), want %q", state.Name, err, name)
	}
}

// callersOfASharedBeforeMayLeave: for who leaves before the transaction begins, nothing is stored.
func callersOfASharedBeforeMayLeave(t *testing.T, s setup) {
	gone, leave := context.WithCancelCause(s.ctx)
	left, ended := errors.New("the caller has left"), make(chan struct{})
	joiners := []*joiner{
		{ctx: gone, before: func(tx *store.Tx, _ []action.Action) error { return s.beside(tx, "beside") }, ended: ended},
		{ctx: s.ctx},
	}
	s.joinAll(t, joiners, func() { leave(left); <-ended })
	if !errors.Is(joiners[0].err, left) || joiners[1].err != nil {
		t.Errorf("got %v and %v, want %v and none", joiners[0].err, joiners[1].err, left)
	}
	if names := s.names(t); slices.Contains(names, "beside") || len(names) != s.sharedAtOnce()+1 {
		t.Errorf("stored %v", names)
	}
}
