package queuetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func equalKeysMayBeRefused(t *testing.T, s setup) {
	a := job("x")
	a.UniqueKey = "key"
	first, err := s.enqueueWith(s.ctx, a, queue.EnqueueOptions{OnConflict: queue.RejectNew})
	storetest.Check(t, err)
	_, err = s.enqueueWith(s.ctx, a, queue.EnqueueOptions{OnConflict: queue.RejectNew})
	storetest.WantCode(t, err, fault.DuplicateKey)
	again, err := s.enqueueWith(s.ctx, a, queue.EnqueueOptions{OnConflict: queue.ReturnExisting})
	storetest.Check(t, err)
	if !first.Created || again.Created || again.ID != first.ID {
		t.Errorf("first %+v, then %+v", first, again)
	}
	storetest.Check(t, s.Cancel(s.ctx, first.ID, queue.CancelNow))
	if after, err := s.enqueueWith(s.ctx, a, queue.EnqueueOptions{OnConflict: queue.RejectNew}); err != nil || !after.Created {
		t.Errorf("an ended action holds its key: %+v, %v", after, err)
	}
}

func equalKeysMayReplace(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	a := job("x")
	a.UniqueKey = "key"
	first := s.enqueue(t, a)
	second, err := s.enqueueWith(s.ctx, a, queue.EnqueueOptions{OnConflict: queue.ReplaceWaiting})
	storetest.Check(t, err)
	if !second.Created || s.statusOf(t, first) != action.Canceled {
		t.Errorf("the waiting one is %s, the new one %+v", s.statusOf(t, first), second)
	}
	c := s.claim(t, host, "noop", 1)[0]
	if c.ID != second.ID {
		t.Fatalf("claimed %s, want %s", c.ID, second.ID)
	}
	third, err := s.enqueueWith(s.ctx, a, queue.EnqueueOptions{OnConflict: queue.ReplaceWaiting})
	storetest.Check(t, err)
	if third.Created || third.ID != second.ID || s.statusOf(t, second.ID) != action.Running {
		t.Errorf("one that is worked on was replaced: %+v", third)
	}
}

// replacersLeaveOne has many replace each other: whatever the order, one lives and all others were canceled.
func replacersLeaveOne(t *testing.T, s setup) {
	const callers = 8
	a := job("x")
	a.UniqueKey = "key"
	made := make([]queue.Enqueued, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var err error
			if made[i], err = s.enqueueWith(s.ctx, a, queue.EnqueueOptions{OnConflict: queue.ReplaceWaiting}); err != nil &&
				!fault.Is(err, fault.LedgerUnavailable) {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	all.Wait()
	count := map[action.Status]int{}
	for _, m := range made {
		if m.Created {
			count[s.statusOf(t, m.ID)]++
		}
	}
	if count[action.Pending] != 1 || len(count) > 2 || count[action.Canceled]+1 < 2 {
		t.Errorf("of %d: %v", callers, count)
	}
}

// overtakingIsBounded claims a few at a time from a lane in which actions of all priorities arrive: no action is overtaken
// by one that became due later than the difference of their priorities, in steps, after it.
func overtakingIsBounded(t *testing.T, s setup) {
	const step, batch = time.Second, 20
	host := s.join(t, "host-a")
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	var many []action.Action
	for i := range 200 {
		a := job(fmt.Sprint(i))
		a.Priority = new(i * 7919 % 1001)
		a.RunAt = now.Add(time.Duration(1+i*6151%1800) * time.Second) // they become due over half an hour
		many = append(many, a)
	}
	_, err = s.Enqueue(s.ctx, many...)
	storetest.Check(t, err)
	storetest.Check(t, s.database.Exec("UPDATE thread SET ready = true")) // half an hour later
	var claimed []queue.Claimed
	for range len(many) / batch {
		claimed = append(claimed, s.claim(t, host, "noop", batch)...)
	}
	for i, first := range claimed {
		for _, second := range claimed[i+1:] { // first overtook second, if it came later
			bound := time.Duration(*second.Priority-*first.Priority) * step
			if late := first.Thread.RunAt.Sub(second.Thread.RunAt); late > 0 && late > bound {
				t.Fatalf("priority %d overtook priority %d that was due %s before it", *first.Priority, *second.Priority, late)
			}
		}
	}
}

func priorityStepsAreTheHandlers(t *testing.T, s setup) {
	s.reopen(t, queue.Options{PriorityStep: func(handler string) time.Duration {
		if handler == "noop" {
			return time.Millisecond
		}
		return time.Second
	}})
	host := s.join(t, "host-a")
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	for _, handler := range []string{"noop", "other"} {
		late := job("due a second later")
		late.Handler, late.Priority, late.RunAt = handler, new(0), now.Add(2*time.Minute+time.Second)
		lax := job("of little urgency")
		lax.Handler, lax.Priority, lax.RunAt = handler, new(500), now.Add(2*time.Minute)
		s.enqueue(t, late)
		s.enqueue(t, lax)
	}
	storetest.Check(t, s.database.Exec("UPDATE thread SET ready = true")) // minutes later
	for handler, want := range map[string]string{"noop": "of little urgency", "other": "due a second later"} {
		if got := s.claim(t, host, handler, 1)[0].Name; got != want {
			t.Errorf("%s: first went the one %s, want the one %s", handler, got, want)
		}
	}
}

func snoozedActionsWait(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	id := s.enqueue(t, job("x"))
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	until := now.Add(time.Hour)
	storetest.Check(t, s.Snooze(s.ctx, id, until, "ana"))
	state, err := s.Action(s.ctx, id)
	storetest.Check(t, err)
	if th := state.Thread; th.Status != action.Backoff || !th.RunAt.Equal(until) || th.Spent != 0 || state.Code != action.CodeSnoozed {
		t.Errorf("snoozed: %+v %s", th, state.Code)
	}
	s.claim(t, host, "noop", 0)
	storetest.Check(t, s.Snooze(s.ctx, id, now.Add(-time.Hour), "ana")) // now
	c := s.claim(t, host, "noop", 1)[0]
	storetest.WantCode(t, s.Snooze(s.ctx, id, until, "ana"), fault.NotReady)
	storetest.WantCode(t, s.Snooze(s.ctx, action.DerivedID(now, "absent"), until, "ana"), fault.NoSuchAction)
	s.end(t, host, c, action.Outcome{Kind: action.Retry})
	storetest.WantCode(t, s.Snooze(s.ctx, id, now.Add(400*24*time.Hour), "ana"), fault.Invalid)
	storetest.WantCode(t, s.Snooze(s.ctx, id, now.Add(30*24*time.Hour), "ana"), fault.Invalid) // behind its deadline
	storetest.Check(t, s.Cancel(s.ctx, id, queue.CancelNow))
	storetest.WantCode(t, s.Snooze(s.ctx, id, until, "ana"), fault.Terminal)
}

func hastenedActionsWaitNoLonger(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	later := now.Add(time.Hour)
	var ids []action.ID
	for _, o := range []action.Outcome{
		{Kind: action.RetryAfter, Code: "waiting", At: later},
		{Kind: action.RetryAfter, Code: "away", At: later}, // another reason
		{Kind: action.RetryAfter, Code: "waiting", At: now.Add(time.Minute)},
		{Kind: action.Fatal, Code: "waiting"},
	} {
		ids = append(ids, s.enqueue(t, job(fmt.Sprint(len(ids)))))
		s.end(t, host, s.claim(t, host, "noop", 1)[0], o)
	}
	ids = append(ids, s.enqueue(t, job("claimed")), action.DerivedID(now, "absent"))
	s.claim(t, host, "noop", 1)
	due := func(i int) time.Time {
		t.Helper()
		state, err := s.Action(s.ctx, ids[i])
		storetest.Check(t, err)
		return state.Thread.RunAt
	}
	before := []time.Time{due(0), due(1), due(2), due(3), due(4)}
	storetest.Check(t, s.Hasten(s.ctx, "waiting", "build", 10*time.Minute, ids...))
	if at := due(0); !at.After(now.Add(9*time.Minute)) || !at.Before(later) {
		t.Errorf("due at %s", at)
	}
	for i := 1; i < len(before); i++ {
		if at := due(i); !at.Equal(before[i]) {
			t.Errorf("%d: due at %s, was due at %s", i, at, before[i])
		}
	}
	storetest.Check(t, s.Hasten(s.ctx, "waiting", "build", 0, ids[2]))
	s.claim(t, host, "noop", 1)
	storetest.Check(t, s.Hasten(s.ctx, "waiting", "build", 0))
}

func replaysAreMadeOnce(t *testing.T, s setup) {
	const jobs = 503 // two transactions
	host := s.join(t, "host-a")
	var many []action.Action
	for i := range jobs {
		a := job(fmt.Sprint(i))
		a.Parameters, a.Priority, a.ParentID = []byte(`{"n": 1}`), new(7), action.DerivedID(time.Now(), "parent")
		many = append(many, a)
	}
	_, err := s.Enqueue(s.ctx, many...)
	storetest.Check(t, err)
	for ended := 0; ended < jobs; {
		var completions []queue.Completion
		for _, c := range s.claim(t, host, "noop", min(500, jobs-ended)) {
			completions = append(
				completions,
				queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: action.Outcome{Kind: action.Fatal}},
			)
		}
		_, err := s.CompleteAndClaim(s.ctx, host, completions, nil)
		storetest.Check(t, err)
		ended += len(completions)
	}
	lives := s.enqueue(t, job("lives"))
	failed := queue.Replay{Handler: "noop", Statuses: []action.Status{action.Failed}, By: "ana"}
	dry := failed
	dry.DryRun = true
	if n, _ := s.replay(t, &dry, 9); n != jobs {
		t.Errorf("would replay %d, want %d", n, jobs)
	}
	cut := failed
	found, created := s.replay(t, &cut, 1) // interrupted after its first step
	if found != 500 || created != 500 {
		t.Errorf("first step: found %d, created %d", found, created)
	}
	again := failed
	again.ID = cut.ID
	if found, created := s.replay(t, &again, 9); found != jobs || created != jobs-500 {
		t.Errorf("resumed: found %d, created %d, want %d and %d", found, created, jobs, jobs-500)
	}
	made, err := s.Actions(s.ctx, queue.ActionQuery{LiveOnly: true, CreatedBy: "ana"})
	storetest.Check(t, err)
	if len(made) != jobs {
		t.Fatalf("%d live, want %d", len(made), jobs)
	}
	old, err := s.Action(s.ctx, made[0].RetryOf)
	storetest.Check(t, err)
	want := old.Again(made[0].ID, "ana")
	want.RunAt, want.CreatedAt = made[0].RunAt, made[0].CreatedAt
	if diff := cmp.Diff(want, made[0].Action); diff != "" {
		t.Errorf("replayed (-want +got):\n%s", diff)
	}
	if got := s.statusOf(t, lives); got != action.Pending {
		t.Errorf("a live action is %s", got)
	}
	_, err = s.Replay(s.ctx, queue.Replay{Statuses: []action.Status{action.Running}})
	storetest.WantCode(t, err, fault.Invalid)
}

// replay takes some steps of a replay, and leaves its id in it.
func (s setup) replay(t *testing.T, r *queue.Replay, steps int) (found, created int) {
	t.Helper()
	for range steps {
		done, err := s.Replay(s.ctx, *r)
		storetest.Check(t, err)
		r.ID, r.After = done.ID, done.Next
		found, created = found+done.Found, created+done.Created
		if done.Next.IsZero() {
			break
		}
	}
	return found, created
}
