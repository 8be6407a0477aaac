package queuetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func claimIsWhatNextSays(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	a := job("a")
	id := s.enqueue(t, a)
	before, err := s.Action(s.ctx, id)
	storetest.Check(t, err)
	c := s.claim(t, host, "noop", 1)[0]
	events, err := s.Events(s.ctx, id)
	storetest.Check(t, err)
	next, err := action.Next(before.Action, before.Thread, action.Input{Kind: action.Claim, By: host.ID, Source: host.Name}, events[1].At)
	storetest.Check(t, err)
	if diff := cmp.Diff(next.Thread, c.Thread); diff != "" {
		t.Errorf("thread (-next +claimed):\n%s", diff)
	}
	if diff := cmp.Diff(*next.Event, events[1]); diff != "" {
		t.Errorf("event (-next +claimed):\n%s", diff)
	}
	if diff := cmp.Diff(before.Action, c.Action); diff != "" {
		t.Errorf("action (-stored +claimed):\n%s", diff)
	}
	claims, err := s.Claims(s.ctx, host.ID)
	storetest.Check(t, err)
	if diff := cmp.Diff([]queue.Claimed{c}, claims); diff != "" {
		t.Errorf("claims (-claimed +read):\n%s", diff)
	}
}

func claimsAreExclusive(t *testing.T, s setup) {
	const jobs, claimers = 300, 16
	many := make([]action.Action, jobs)
	for i := range many {
		many[i] = job(fmt.Sprint(i))
	}
	_, err := s.Enqueue(s.ctx, many...)
	storetest.Check(t, err)
	var all sync.WaitGroup
	var mu sync.Mutex
	taken := map[action.ID]string{}
	for n := range claimers {
		host := s.join(t, fmt.Sprintf("host-%d", n))
		all.Go(func() {
			for {
				turned, err := s.CompleteAndClaim(s.ctx, host, nil, []queue.Want{{Lane: "noop", N: 7}})
				if err != nil {
					t.Errorf("%s: %v", host.Name, err)
					return
				}
				if len(turned.Claimed) == 0 {
					return
				}
				mu.Lock()
				for _, c := range turned.Claimed {
					if other, twice := taken[c.ID]; twice {
						t.Errorf("%s was claimed by %s and %s", c.Name, other, host.Name)
					}
					taken[c.ID] = host.Name
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(taken) != jobs {
		t.Errorf("%d of %d were claimed", len(taken), jobs)
	}
}

func lowerPriorityGoesFirst(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	for name, priority := range map[string]*int{"late": new(900), "usual": nil, "early": new(1), "first": new(0)} {
		a := job(name)
		a.Priority = priority
		s.enqueue(t, a)
	}
	var order []string
	for _, c := range s.claim(t, host, "noop", 4) {
		order = append(order, c.Name)
	}
	if diff := cmp.Diff([]string{"first", "early", "usual", "late"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func lateCompletionsAreDropped(t *testing.T, s setup) {
	a, b := s.join(t, "host-a"), s.join(t, "host-b")
	id := s.enqueue(t, job("x"))
	first := s.claim(t, a, "noop", 1)[0]
	s.end(t, a, first, action.Outcome{Kind: action.GivenBack})
	second := s.claim(t, b, "noop", 1)[0]
	for name, turned := range map[string]queue.Turned{
		"of the former owner":     s.end(t, a, first, done()),
		"of the former attempt":   s.end(t, b, first, done()),
		"of another's claim":      s.end(t, a, second, done()),
		"of an unknown action":    s.end(t, b, queue.Claimed{Action: action.Action{ID: a.ID}}, done()),
		"twice in the same batch": s.endTwice(t, b, second),
		"of an ended action":      s.end(t, b, second, done()),
	} {
		if len(turned.Late) != 1 {
			t.Errorf("%s: late %v", name, turned.Late)
		}
	}
	if got := s.statusOf(t, id); got != action.Successful {
		t.Errorf("the right completion gave %s", got)
	}
}

// endTwice completes a claim with two outcomes in one Turn.
func (s setup) endTwice(t *testing.T, i queue.Instance, c queue.Claimed) queue.Turned {
	t.Helper()
	once := queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: done(), Claimed: &c}
	again := once
	again.Outcome = action.Outcome{Kind: action.Fatal}
	turned, err := s.CompleteAndClaim(s.ctx, i, []queue.Completion{once, again}, nil)
	storetest.Check(t, err)
	return turned
}

// successNeedsNoLook compares an end that was decided from what the claim returned with one for which the thread
// was locked and read, whatever happened to the claim in between.
func successNeedsNoLook(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	for name, between := range map[string]func(action.ID) error{
		"nothing":  func(action.ID) error { return nil },
		"a cancel": func(id action.ID) error { return s.Cancel(s.ctx, id, queue.CancelNow) },
		"a drain":  func(id action.ID) error { return s.Cancel(s.ctx, id, queue.Drain) },
		"an observer": func(id action.ID) error {
			_, err := s.Observe(s.ctx, queue.Observation{ID: id, Source: "eye", Began: true})
			return err
		},
		"another event": func(id action.ID) error { return s.addEvent(id) },
	} {
		s.enqueue(t, job("a"))
		s.enqueue(t, job("b"))
		output := action.Outcome{Kind: action.Done, Output: json.RawMessage(`{"n": 1}`), Ref: "here"}
		var events [2][]action.Event
		var ends [2]queue.ActionState
		for i, c := range s.claim(t, host, "noop", 2) {
			storetest.Check(t, between(c.ID))
			completion := queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: output}
			if i == 0 {
				completion.Claimed = &c
			}
			turned, err := s.CompleteAndClaim(s.ctx, host, []queue.Completion{completion}, nil)
			storetest.Check(t, err)
			if len(turned.Late) > 0 {
				t.Errorf("%s: completion %d is late", name, i)
			}
			if events[i], err = s.Events(s.ctx, c.ID); err != nil {
				t.Fatal(err)
			}
			if ends[i], err = s.Action(s.ctx, c.ID); err != nil {
				t.Fatal(err)
			}
		}
		unequal := cmpopts.IgnoreFields(action.Event{}, "ActionID", "At")
		if diff := cmp.Diff(events[1], events[0], unequal); diff != "" {
			t.Errorf("after %s, events (-locked +fenced):\n%s", name, diff)
		}
		unequal = cmpopts.IgnoreFields(queue.ActionState{}, "Action", "EnqueuedAt", "FinishedAt", "UpdatedAt", "Thread.RunAt", "Thread.StartedAt")
		if diff := cmp.Diff(ends[1], ends[0], unequal); diff != "" {
			t.Errorf("after %s, end (-locked +fenced):\n%s", name, diff)
		}
		if ends[0].Thread.Status != action.Successful {
			t.Errorf("after %s the end is %s", name, ends[0].Thread.Status)
		}
	}
}

// addEvent makes a claimed thread have a newer event than its claim.
func (s setup) addEvent(id action.ID) error {
	return s.write(func(tx rows) error {
		threads, err := tx.LockThreads([]action.ID{id})
		if err != nil {
			return err
		}
		thread := threads[id]
		thread.Seq++
		e := action.Event{ActionID: id, Seq: thread.Seq, Status: thread.Status, Attempt: thread.Attempt, At: tx.Now(), Source: "test"}
		return errors.Join(tx.UpdateThreads([]queue.ThreadRow{{ID: id, Thread: thread, Rank: thread.RunAt}}), tx.InsertEvents([]action.Event{e}))
	})
}

func deadClaimsAreRescued(t *testing.T, s setup) {
	a, b := s.join(t, "host-a"), s.join(t, "host-b")
	once := job("once")
	once.Delivery = action.AtMostOnce
	onceID, againID := s.enqueue(t, once), s.enqueue(t, job("again"))
	s.claim(t, a, "noop", 2)
	if p := s.pulse(t, b); !s.Embedded() && (!p.Others || p.Lost) {
		t.Errorf("beside a living instance's claims: %+v", p)
	}
	if r, err := s.Rescue(s.ctx, b.ID, nil); !s.Embedded() && (len(r) != 0 || err != nil) {
		t.Errorf("of a living instance %+v (%v) were rescued, want none", r, err)
	}
	storetest.Check(t, s.Leave(s.ctx, a))
	if p := s.pulse(t, b); !p.Lost {
		t.Errorf("beside a dead instance's claims: %+v", p)
	}
	if r, err := s.Rescue(s.ctx, b.ID, nil); !s.Embedded() && (len(r) != 2 || err != nil) {
		t.Errorf("rescued %+v (%v), want two", r, err)
	}
	if p := s.pulse(t, b); !s.Embedded() && (p.Others || p.Lost) {
		t.Errorf("when all is taken back: %+v", p)
	}
	again, err := s.Action(s.ctx, againID)
	storetest.Check(t, err)
	if th := again.Thread; th.Status != action.Backoff || th.Spent != 0 || th.Lost != 1 ||
		again.Code != action.CodeLeaseLost || again.Error != "lease lost on host-a" {
		t.Errorf("rescued: %+v %s %q", th, again.Code, again.Error)
	}
	unknown, err := s.Action(s.ctx, onceID)
	storetest.Check(t, err)
	if unknown.Thread.Status != action.Failed || unknown.Code != action.CodeOutcomeUnknown {
		t.Errorf("at most once: %s %s", unknown.Thread.Status, unknown.Code)
	}
	next := s.claim(t, b, "noop", 1)[0]
	if next.ID != againID || next.Thread.Attempt != 2 {
		t.Errorf("claimed next: %+v", next)
	}
}

// overdue claims an action, and lets its lease pass.
func (s setup) overdue(t *testing.T, host queue.Instance, a action.Action) queue.Claimed {
	t.Helper()
	s.enqueue(t, a)
	c := s.claim(t, host, "noop", 1)[0]
	past := c.Thread
	past.Lease = time.Now().Add(-time.Second)
	storetest.Check(t, s.write(func(tx rows) error {
		return tx.UpdateThreads([]queue.ThreadRow{{ID: c.ID, Thread: past, Rank: past.RunAt}})
	}))
	return c
}

// overdueClaimsSpendNothing: an instance takes back its own claims that outlived their lease. One whose attempt has not
// begun spends nothing, whatever its delivery; another instance takes none of them while their owner lives.
func overdueClaimsSpendNothing(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	last, once := job("last"), job("once")
	last.Policy.Retries = 0
	once.Delivery = action.AtMostOnce
	waited := []queue.Claimed{s.overdue(t, host, job("again")), s.overdue(t, host, last), s.overdue(t, host, once)}
	begun := s.overdue(t, host, last)
	if !s.Embedded() { // there a claim of another instance is a dead one's
		other := s.join(t, "host-b")
		if r, err := s.Rescue(s.ctx, other.ID, nil); err != nil || len(r) != 0 {
			t.Errorf("another instance took back %+v, %v; want none", r, err)
		}
	}
	r, err := s.Rescue(s.ctx, host.ID, func(id action.ID) bool { return id == begun.ID })
	if err != nil || len(r) != 4 {
		t.Errorf("took back %+v, %v; want all four", r, err)
	}
	for _, c := range waited {
		state, err := s.Action(s.ctx, c.ID)
		storetest.Check(t, err)
		if th := state.Thread; th.Status != action.Backoff || th.Spent != 0 || th.Lost != 0 || !th.ClaimedBy.IsZero() {
			t.Errorf("%s, which never began: %+v; want it to wait, unspent", state.Action.Name, th)
		}
		if state.Code != action.CodeGivenBack {
			t.Errorf("%s: code %s", state.Action.Name, state.Code)
		}
	}
	if got := s.statusOf(t, begun.ID); got != action.RetriesExhausted {
		t.Errorf("the attempt that began is %s, want RETRIES_EXHAUSTED", got)
	}
	if claims := s.claim(t, host, "noop", 3); claims[0].Thread.Attempt != 2 {
		t.Errorf("claimed again: %+v", claims[0].Thread)
	}
}

func overdueAttemptsAreRescued(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	c := s.overdue(t, host, job("hung"))
	id := c.ID
	if p := s.pulse(t, host); !p.Lost || !p.Leads || p.Others {
		t.Errorf("when an attempt is overdue: %+v", p)
	}
	want := []queue.Rescued{{ID: id, Handler: "noop", Lane: "noop", Attempt: 1, Reason: queue.LostOverdue, Who: "host-a"}}
	if r, err := s.Rescue(s.ctx, host.ID, nil); err != nil || cmp.Diff(want, r) != "" {
		t.Fatalf("%v, rescued (-want +got):\n%s", err, cmp.Diff(want, r))
	}
	state, err := s.Action(s.ctx, id)
	storetest.Check(t, err)
	if state.Thread.Status != action.Backoff || state.Thread.Spent != 1 || state.Code != action.CodeOverdue {
		t.Errorf("rescued: %+v %s", state.Thread, state.Code)
	}
	if turned := s.end(t, host, c, done()); len(turned.Late) != 1 {
		t.Errorf("its late completion: %+v", turned)
	}
}

func equalKeysMakeOneAction(t *testing.T, s setup) {
	const callers = 16
	a := job("x")
	a.UniqueKey = "key"
	derived := job("derived")
	derived.ID = action.DerivedID(time.Now(), t.Name())
	made := make([][]queue.Enqueued, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var err error
			if made[i], err = s.Enqueue(s.ctx, a, derived, a); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	created := 0
	for _, m := range made {
		for _, e := range m {
			if e.Created {
				created++
			}
		}
		if m[0].ID != made[0][0].ID || m[2].ID != m[0].ID || m[1].ID != derived.ID {
			t.Errorf("ids differ: %+v and %+v", m, made[0])
		}
	}
	if created != 2 {
		t.Errorf("%d were created, want 2", created)
	}
	host := s.join(t, "host-a")
	for _, c := range s.claim(t, host, "noop", 2) {
		s.end(t, host, c, done())
	}
	after, err := s.Enqueue(s.ctx, a, derived)
	storetest.Check(t, err)
	if !after[0].Created || after[0].ID == made[0][0].ID {
		t.Errorf("an ended action holds its key: %+v", after[0])
	}
	if after[1].Created {
		t.Error("an ended action was made again under its own id")
	}
	_, err = s.Enqueue(s.ctx, action.Action{Kind: "job"})
	storetest.WantCode(t, err, fault.Invalid)
}

// callersShareTransactions: many store actions at once; each has its own answer, and the faults of one refuses no
// other.
func callersShareTransactions(t *testing.T, s setup) {
	const callers = 60
	ids := make([]action.ID, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			a := job(fmt.Sprint(i))
			if i%10 == 3 {
				a.Parameters = []byte("{")
			}
			made, err := s.Enqueue(s.ctx, a)
			switch {
			case i%10 == 3 && !fault.Is(err, fault.Invalid):
				t.Errorf("caller %d, whose parameters are not JSON: %+v, %v", i, made, err)
			case i%10 != 3 && (err != nil || len(made) != 1 || !made[0].Created):
				t.Errorf("caller %d: %+v, %v", i, made, err)
			case err == nil:
				ids[i] = made[0].ID
			}
		})
	}
	all.Wait()
	for i, id := range ids {
		if id.IsZero() {
			continue
		}
		state, err := s.Action(s.ctx, id)
		storetest.Check(t, err)
		if state.Name != fmt.Sprint(i) {
			t.Errorf("caller %d got the action of caller %s", i, state.Name)
		}
	}
	gone, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.Enqueue(gone, job("late")); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
	if rows, err := s.Actions(s.ctx, queue.ActionQuery{LiveOnly: true}); err != nil || len(rows) != callers*9/10 {
		t.Errorf("%d actions are live (%v), want %d", len(rows), err, callers*9/10)
	}
}

func dueActionsBecomeReady(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	if next, err := s.Due(s.ctx); err != nil || !next.IsZero() {
		t.Fatalf("nothing waits: got %v, %v", next, err)
	}
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	at := func(name string, wait time.Duration) time.Time {
		a := job(name)
		a.RunAt, a.Policy.Deadline = now.Add(wait), 0
		s.enqueue(t, a)
		return a.RunAt
	}
	far := at("far", time.Hour)
	next, err := s.Due(s.ctx)
	storetest.Check(t, err)
	if !next.Equal(far) {
		t.Errorf("look again at %v, want %v", next, far)
	}
	at("near", 50*time.Millisecond)
	for {
		next, err := s.Due(s.ctx)
		storetest.Check(t, err)
		if next.Equal(far) {
			break // near is ready by now
		}
		storetest.Check(t, s.NewWaiter().Wait(s.ctx, store.TopicCancel, next))
	}
	turned, err := s.CompleteAndClaim(s.ctx, host, nil, []queue.Want{{Lane: "noop", N: 2}})
	storetest.Check(t, err)
	if len(turned.Claimed) != 1 || turned.Claimed[0].Name != "near" {
		t.Errorf("claimed %+v, want only what is due", turned.Claimed)
	}
}

// defaultDeadlinesAreKept: an action without one has a week from when the action was stored, however old its id is, and
// a thousand that are past it are ended in one look.
func defaultDeadlinesAreKept(t *testing.T, s setup) {
	const week = 7 * 24 * time.Hour
	many := make([]action.Action, 1003)
	for i := range many {
		many[i] = job(fmt.Sprint(i))
	}
	never := job("never")
	never.Policy.Deadline = 0
	old := job("old")
	old.ID = action.DerivedID(time.Now().Add(-time.Hour), t.Name())
	made, err := s.Enqueue(s.ctx, append(many, never, old)...)
	storetest.Check(t, err)
	aged, forever := made[len(many)+1].ID, made[len(many)].ID
	state, err := s.Action(s.ctx, aged)
	storetest.Check(t, err)
	if got := state.Thread.Deadline.Sub(state.EnqueuedAt).Abs(); got != week || state.EnqueuedAt.Sub(aged.Time()) < time.Hour {
		t.Errorf("it ends %s after it was stored at %s, want a week", got, state.EnqueuedAt)
	}
	events, err := s.Events(s.ctx, aged)
	storetest.Check(t, err)
	if !events[0].At.Equal(state.EnqueuedAt) {
		t.Errorf("its history begins at %s, and it was stored at %s", events[0].At, state.EnqueuedAt)
	}
	later := "deadline - 604800000000"
	if !s.Embedded() {
		later = "deadline - interval '7 days'"
	}
	storetest.Check(t, s.database.Exec("UPDATE thread SET deadline = "+later)) // a week later
	for range 2 {
		_, err := s.Due(s.ctx)
		storetest.Check(t, err)
	}
	status, err := s.Status(s.ctx)
	storetest.Check(t, err)
	if len(status.Backlogs) != 1 || status.Backlogs[0].Live() != 1 || s.statusOf(t, forever) != action.Pending {
		t.Errorf("a week later there live %+v, want the one without a deadline", status.Backlogs)
	}
	if got := s.statusOf(t, aged); got != action.TimedOut {
		t.Errorf("one that is past its deadline is %s", got)
	}
}

func deadlinesEndActions(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	short := job("short")
	short.Policy.Deadline = action.Duration(time.Millisecond)
	running := s.enqueue(t, short)
	c := s.claim(t, host, "noop", 1)[0]
	if c.Until.IsZero() || !c.Until.Equal(c.Thread.Deadline) { // the clocks agree here
		t.Errorf("the claim is known to last until %s, its thread until %s", c.Until, c.Thread.Deadline)
	}
	tried := s.enqueue(t, short)
	s.end(t, host, s.claim(t, host, "noop", 1)[0], action.Outcome{Kind: action.Throttle, Error: "the port is closed"})
	idle := s.enqueue(t, short)
	for s.statusOf(t, idle) != action.TimedOut || s.statusOf(t, tried) != action.TimedOut {
		next, err := s.Due(s.ctx)
		storetest.Check(t, err)
		if !next.IsZero() {
			storetest.Check(t, s.NewWaiter().Wait(s.ctx, store.TopicCancel, next))
		}
	}
	for id, want := range map[action.ID]string{idle: "not done within its deadline of 1ms",
		tried: "not done within its deadline of 1ms; the last attempt: the port is closed"} {
		state, err := s.Action(s.ctx, id)
		storetest.Check(t, err)
		if state.Error != want {
			t.Errorf("it ended with %q, want %q", state.Error, want)
		}
	}
	asked, err := s.CancelAsked(s.ctx, host.ID)
	storetest.Check(t, err)
	if diff := cmp.Diff([]action.ID{running}, asked); diff != "" {
		t.Errorf("asked to stop (-want +got):\n%s", diff)
	}
	s.end(t, host, c, action.Outcome{Kind: action.Stopped})
	if got := s.statusOf(t, running); got != action.TimedOut {
		t.Errorf("the stopped one is %s", got)
	}
}
