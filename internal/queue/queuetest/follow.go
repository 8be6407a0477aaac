package queuetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// planner plans one follower for each end of a job, as tests want it.
type planner struct {
	mu     sync.Mutex
	asked  []string      // each end that was planned: name and status
	away   bool          // documents cannot be had
	hangs  chan struct{} // closing it ends the plans of actions named "slow"
	follow func(queue.End) []queue.Successor
	begins func(action.Action) []queue.Successor
}

func (p *planner) Begins(a action.Action, _ time.Time, _ []queue.Subscriber) []queue.Successor {
	if p.begins == nil {
		return nil
	}
	return p.begins(a)
}

func (p *planner) Asks(a action.Action, _ action.Status) bool { return a.Kind == "job" }

func (p *planner) Plan(_ context.Context, e queue.End) ([]queue.Successor, error) {
	if p.hangs != nil && e.Action.Name == "slow" {
		<-p.hangs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, e.Action.Name+" "+e.Thread.Status.String())
	if p.away {
		return nil, errors.New("the blob store is away")
	}
	if p.follow != nil {
		return p.follow(e), nil
	}
	return []queue.Successor{{Action: follower(e, "told")}}, nil
}

// follower is an action that follows an end; it has the kind of that end.
func follower(e queue.End, name string) action.Action {
	said := fmt.Sprintf(`{"status": %q, "code": %q, "output": %q, "at": %q}`, e.Thread.Status, e.Code, e.Output, e.At.Format(time.RFC3339Nano))
	return action.Action{ID: action.DerivedID(e.Action.ID.Time(), e.Action.ID.String(), name), Kind: "callback",
		Name: name, Handler: "callback",
		ParentID: e.Action.ID, Parameters: []byte(said), Policy: policy()}
}

// planning is a setup whose ends have followers.
func (s *setup) planning(t *testing.T, p *planner) *planner {
	t.Helper()
	s.reopen(t, queue.Options{Successors: p})
	return p
}

// followers are an action's, in the order of their ids.
func (s setup) followers(t *testing.T, parent action.ID) []queue.ActionState {
	t.Helper()
	states, err := s.Actions(s.ctx, queue.ActionQuery{Parent: parent})
	storetest.Check(t, err)
	return states
}

// endsAndWhatFollowsAreOne: the follower is there when the end is, has its time, and is made once however often it is
// planned.
func endsAndWhatFollowsAreOne(t *testing.T, s setup) {
	p := s.planning(t, &planner{})
	host := s.join(t, "host-a")
	id := s.enqueue(t, job("x"))
	c := s.claim(t, host, "noop", 1)[0]
	s.end(t, host, c, action.Outcome{Kind: action.Done, Output: []byte(`{"n": 1}`)})
	state, err := s.Action(s.ctx, id)
	storetest.Check(t, err)
	followers := s.followers(t, id)
	if len(followers) != 1 || followers[0].Thread.Status != action.Pending || !followers[0].ID.Time().Equal(id.Time()) {
		t.Fatalf("followers: %+v", followers)
	}
	want := fmt.Sprintf(`{"status": "SUCCESSFUL", "code": "", "output": "{\"n\": 1}", "at": %q}`, state.FinishedAt.Format(time.RFC3339Nano))
	if got := string(followers[0].Parameters); got != want {
		t.Errorf("the follower says %s, the log %s", got, want)
	}
	events, err := s.Events(s.ctx, id)
	storetest.Check(t, err)
	if last := events[len(events)-1]; !last.At.Equal(state.FinishedAt) {
		t.Errorf("the event is of %s, the end of %s", last.At, state.FinishedAt)
	}
	if late := s.end(t, host, c, done()); len(late.Late) != 1 || len(s.followers(t, id)) != 1 {
		t.Errorf("ended twice: %+v", late)
	}
	s.end(t, host, s.claim(t, host, "callback", 1)[0], done()) // nothing follows a follower
	if diff := cmp.Diff([]string{"x SUCCESSFUL"}, slices.Compact(p.asked)); diff != "" {
		t.Errorf("planned (-want +got):\n%s", diff)
	}
}

// everyEndHasItsFollowers: however an action ends.
func everyEndHasItsFollowers(t *testing.T, s setup) {
	p := s.planning(t, &planner{})
	host := s.join(t, "host-a")
	want := map[action.ID]action.Status{}

	failed := s.enqueue(t, job("failed"))
	s.end(t, host, s.claim(t, host, "noop", 1)[0], action.Outcome{Kind: action.Fatal, Code: "broken"})
	want[failed] = action.Failed

	observed := s.accepted(t, host, job("observed"))
	_, err := s.Observe(s.ctx, queue.Observation{ID: observed, Source: "caboose", Began: true, Outcome: done()})
	storetest.Check(t, err)
	want[observed] = action.Successful

	canceled := s.enqueue(t, job("canceled"))
	storetest.Check(t, s.Cancel(s.ctx, canceled, queue.CancelNow))
	want[canceled] = action.Canceled

	stopped := s.accepted(t, host, job("stopped"))
	storetest.Check(t, s.Cancel(s.ctx, stopped, queue.CancelNow))
	_, err = s.Stops(s.ctx, host, []string{"noop"})
	storetest.Check(t, err)
	storetest.Check(t, s.Stopped(s.ctx, host, stopped, done()))
	want[stopped] = action.Canceled

	late := job("late")
	late.Policy.Deadline = action.Duration(time.Millisecond)
	timedOut := s.enqueue(t, late)
	for s.statusOf(t, timedOut).Live() {
		next, err := s.Due(s.ctx)
		storetest.Check(t, err)
		if s.statusOf(t, timedOut).Live() {
			storetest.Check(t, s.NewWaiter().Wait(s.ctx, store.TopicEntry, next))
		}
	}
	want[timedOut] = action.TimedOut

	once := job("once")
	once.Delivery = action.AtMostOnce
	lost := s.enqueue(t, once)
	dead := s.join(t, "host-b")
	s.claim(t, dead, "noop", 1)
	storetest.Check(t, s.Leave(s.ctx, dead))
	if _, err := s.Rescue(s.ctx, host.ID, nil); err != nil {
		t.Fatal(err)
	}
	want[lost] = action.Failed

	keyed := job("replaced")
	keyed.UniqueKey = "key"
	replaced := s.enqueue(t, keyed)
	keyed.Kind = "action"
	if made, err := s.enqueueWith(s.ctx, keyed, queue.EnqueueOptions{OnConflict: queue.ReplaceWaiting}); err != nil || !made.Created {
		t.Errorf("replaced by %+v, %v", made, err)
	}
	want[replaced] = action.Canceled

	for id, status := range want {
		if got := s.statusOf(t, id); got != status {
			t.Errorf("%s is %s, want %s", id, got, status)
		}
		if followers := s.followers(t, id); len(followers) != 1 {
			t.Errorf("%s after %s: followers %+v", id, status, followers)
		}
	}
	if len(p.asked) != len(want) {
		t.Errorf("planned %v", p.asked)
	}
}

// unplannedEndsWait: while documents cannot be had their action stays as it is; no other action waits for it.
func unplannedEndsWait(t *testing.T, s setup) {
	p := s.planning(t, &planner{away: true})
	host := s.join(t, "host-a")
	plain := job("plain")
	plain.Kind = "action"
	held, other := s.enqueue(t, job("held")), s.enqueue(t, plain)
	var completions []queue.Completion
	for _, c := range s.claim(t, host, "noop", 2) {
		completions = append(completions, queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: done(), Claimed: &c})
	}
	turned, err := s.CompleteAndClaim(s.ctx, host, completions, nil)
	storetest.Check(t, err)
	if diff := cmp.Diff(queue.Turned{Deferred: queue.Deferred{IDs: []action.ID{held}, Why: "the blob store is away"}}, turned); diff != "" {
		t.Errorf("turned (-want +got):\n%s", diff)
	}
	s.wantHistory(t, held, action.Running)
	s.wantHistory(t, other, action.Running, action.Successful)
	aside := job("queued")
	aside.Lane = "noop/aside"
	queued := s.enqueue(t, aside)
	if err := s.Cancel(s.ctx, queued, queue.CancelNow); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("canceled: %v", err)
	}
	seen := s.accepted(t, host, job("seen"))
	news := queue.Observation{ID: seen, Source: "caboose", Began: true, Outcome: done()}
	if o, err := s.Observe(s.ctx, news); err != nil || len(o.Ended) > 0 || fault.CodeOf(o.Deferred.Err()) != fault.Unavailable {
		t.Errorf("observed: %+v, %v", o, err)
	}
	s.wantHistory(t, seen, action.Queued)
	if len(s.followers(t, held))+len(s.followers(t, queued))+len(s.followers(t, seen)) > 0 {
		t.Error("something follows what has not ended")
	}
	p.mu.Lock()
	p.away = false
	p.mu.Unlock()
	turned, err = s.CompleteAndClaim(s.ctx, host, completions, nil)
	storetest.Check(t, err)
	if diff := cmp.Diff(queue.Turned{Late: []action.ID{other}}, turned); diff != "" {
		t.Errorf("turned again (-want +got):\n%s", diff)
	}
	storetest.Check(t, s.Cancel(s.ctx, queued, queue.CancelNow))
	_, err = s.Observe(s.ctx, news)
	storetest.Check(t, err)
	s.wantHistory(t, seen, action.Queued, action.Running, action.Successful)
	for _, id := range []action.ID{held, queued, seen} {
		if n := len(s.followers(t, id)); n != 1 {
			t.Errorf("%d follow %s", n, id)
		}
	}
}

// counting counts the transactions of a driver, and those that were thrown away.
type counting struct {
	Driver
	writes, thrown int
}

func (c *counting) Write(ctx context.Context, use store.Use, fn func(store.Rows) error) error {
	c.writes++
	return c.Driver.Write(ctx, use, func(tx store.Rows) error {
		err := fn(tx)
		if err != nil {
			c.thrown++
		}
		return err
	})
}

func (*counting) Listen(func(store.Signal)) {} // the driver has a listener

// endsArePlannedBeforehand: an end with followers takes one transaction, which is not repeated for the planning.
func endsArePlannedBeforehand(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	var completions []queue.Completion
	for range 3 {
		s.enqueue(t, job("done"))
	}
	for _, c := range s.claim(t, host, "noop", 3) {
		completions = append(completions, queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: done(), Claimed: &c})
	}
	observed := s.accepted(t, host, job("observed"))
	stopped := s.accepted(t, host, job("stopped"))
	storetest.Check(t, s.Cancel(s.ctx, stopped, queue.CancelNow))
	canceled := s.enqueue(t, job("canceled"))
	once := job("lost")
	once.Delivery, once.Lane = action.AtMostOnce, "noop/lost"
	s.enqueue(t, once)
	dead := s.join(t, "host-b")
	s.claim(t, dead, "noop/lost", 1)
	storetest.Check(t, s.Leave(s.ctx, dead))
	keyed := job("replaced")
	keyed.UniqueKey = "key"
	s.enqueue(t, keyed)

	d := &counting{Driver: s.driver}
	p := &planner{}
	l := newAlone(d, queue.Options{Successors: p})
	for _, c := range []struct {
		name string
		ends int
		run  func() error
	}{
		{"a turn", 3, func() error { _, err := l.CompleteAndClaim(s.ctx, host, completions, nil); return err }},
		{"an observation", 1, func() error {
			_, err := l.Observe(s.ctx, queue.Observation{ID: observed, Source: "caboose", Began: true, Outcome: done()})
			return err
		}},
		{"a stop", 1, func() error { return l.Stopped(s.ctx, host, stopped, done()) }},
		{"a cancellation", 1, func() error { return l.Cancel(s.ctx, canceled, queue.CancelNow) }},
		{"a replacement", 1, func() error {
			_, err := l.enqueueWith(s.ctx, keyed, queue.EnqueueOptions{OnConflict: queue.ReplaceWaiting})
			return err
		}},
		{"a rescue", 1, func() error { _, err := l.Rescue(s.ctx, host.ID, nil); return err }},
	} {
		d.writes, d.thrown, p.asked = 0, 0, nil
		storetest.Check(t, c.run())
		if c.name == "a rescue" {
			d.writes = min(d.writes, 1) // the others bury the dead
		}
		if d.writes != 1 || d.thrown != 0 || len(p.asked) != c.ends {
			t.Errorf("%s: %d transactions, %d of them thrown away; planned %v, want %d ends", c.name, d.writes, d.thrown, p.asked, c.ends)
		}
	}
}

// deferredEndsDelayNoDeadline: more late actions than one look takes, whose callbacks cannot be planned, wait on
// their own.
func deferredEndsDelayNoDeadline(t *testing.T, s setup) {
	p := s.planning(t, &planner{away: true})
	late := make([]action.Action, 1001)
	for i := range late {
		late[i] = job(fmt.Sprint(i))
		late[i].Policy.Deadline = action.Duration(time.Millisecond)
	}
	made, err := s.Enqueue(s.ctx, late...)
	storetest.Check(t, err)
	plain := job("plain")
	plain.Kind, plain.Policy.Deadline = "action", action.Duration(2*time.Millisecond)
	other := s.enqueue(t, plain)
	var next time.Time
	for s.statusOf(t, other).Live() {
		next, err = s.Due(s.ctx)
		storetest.Check(t, err)
		if s.statusOf(t, other).Live() {
			storetest.Check(t, s.NewWaiter().Wait(s.ctx, store.TopicEntry, next))
		}
	}
	for now := time.Now(); next.Before(now.Add(time.Second)); now = time.Now() { // it does not look without end
		next, err = s.Due(s.ctx)
		storetest.Check(t, err)
	}
	for _, m := range []action.ID{made[0].ID, made[1000].ID} {
		if got := s.statusOf(t, m); got != action.Pending {
			t.Errorf("one that cannot be planned is %s", got)
		}
	}
	p.mu.Lock()
	p.away = false
	p.mu.Unlock()
	restarted, _ := s.another(t, queue.Options{Successors: p}) // another process need not wait
	for range 2 {
		_, err := restarted.Due(s.ctx)
		storetest.Check(t, err)
	}
	live, err := s.Actions(s.ctx, queue.ActionQuery{Name: "0", LiveOnly: true})
	storetest.Check(t, err)
	if last := s.statusOf(t, made[1000].ID); last != action.TimedOut || len(live) > 0 || len(s.followers(t, made[1000].ID)) != 1 {
		t.Errorf("planned at last: the last is %s; live: %v", last, live)
	}
}

// followersFailAtBirth: a follower that could not be planned is there, has ended, and its siblings are not held back.
func followersFailAtBirth(t *testing.T, s setup) {
	s.planning(t, &planner{follow: func(e queue.End) []queue.Successor {
		bad, unstorable := follower(e, "bad"), follower(e, "unstorable")
		unstorable.Parameters = []byte("{")
		misnamed := follower(e, "a\x00b")
		misnamed.UniqueKey = strings.Repeat("k", 5000)
		return []queue.Successor{{Action: bad, Code: "filter", Fault: "feature 3: no such key"}, {Action: unstorable},
			{Action: misnamed}, {Action: follower(e, "good")}}
	}})
	host := s.join(t, "host-a")
	id := s.enqueue(t, job("x"))
	s.end(t, host, s.claim(t, host, "noop", 1)[0], done())
	got := map[string]string{}
	for _, f := range s.followers(t, id) {
		got[f.Name] = f.Thread.Status.String() + " " + f.Code + " " + f.Error
		if f.Thread.Status.Ended() {
			s.wantHistory(t, f.ID, action.Failed)
		}
	}
	unstorable := `FAILED invalid parameters of action "unstorable" are not JSON`
	misnamed := "FAILED invalid the name of action \"a\ufffdb\" has a NUL character or is not valid UTF-8"
	if diff := cmp.Diff(map[string]string{"bad": "FAILED filter feature 3: no such key", "good": "PENDING  ",
		"unstorable": unstorable, "a\ufffdb": misnamed}, got); diff != "" {
		t.Errorf("followers (-want +got):\n%s", diff)
	}
	s.claim(t, host, "callback", 1) // the good one, and no other
}

// chainsLinkToWhatIsThere: a job that follows is answered by the payload cache, as one that a client requests.
func chainsLinkToWhatIsThere(t *testing.T, s setup) {
	s.planning(t, &planner{follow: func(e queue.End) []queue.Successor {
		if e.Action.Name != "first" {
			return nil
		}
		next := follower(e, "next")
		next.Kind, next.Handler, next.CacheKey = "job", "noop", action.ID{15: 7}
		link := follower(e, "next")
		return []queue.Successor{{Action: next, Link: &link}}
	}})
	host := s.join(t, "host-a")
	var chained []queue.ActionState
	for range 2 {
		id := s.enqueue(t, job("first"))
		s.end(t, host, s.claim(t, host, "noop", 1)[0], done())
		chained = append(chained, s.followers(t, id)...)
		for _, c := range s.followers(t, id) {
			if c.Kind == "job" {
				s.end(t, host, s.claim(t, host, "noop", 1)[0], done())
			}
		}
	}
	if len(chained) != 2 || chained[0].Kind != "job" || chained[1].Kind != "callback" || chained[1].Thread.Status != action.Successful {
		t.Fatalf("chained: %+v", chained)
	}
	var output struct{ JobID action.ID }
	storetest.Check(t, json.Unmarshal(chained[1].Output, &output))
	if output.JobID != chained[0].ID || chained[1].Code != "linked" {
		t.Errorf("linked to %s (%s), want %s", output.JobID, chained[1].Code, chained[0].ID)
	}
}

// chainsKeepTheirWidth: the end of a chained job, and of its retry, is planned with the width that the job was planned with.
func chainsKeepTheirWidth(t *testing.T, s setup) {
	ended := map[action.ID]int{} // width by job
	s.planning(t, &planner{follow: func(e queue.End) []queue.Successor {
		ended[e.Action.ID] = e.Action.Width
		if e.Action.Name != "first" {
			return nil
		}
		next := follower(e, "next")
		next.Kind, next.Handler, next.Width = "job", "noop", 70_000
		return []queue.Successor{{Action: next}}
	}})
	host := s.join(t, "host-a")
	first := s.enqueue(t, job("first"))
	s.end(t, host, s.claim(t, host, "noop", 1)[0], done())
	next := s.followers(t, first)[0]
	s.end(t, host, s.claim(t, host, "noop", 1)[0], action.Outcome{Kind: action.Fatal})
	retry := s.enqueue(t, next.Again(action.DerivedID(time.Now(), "retry"), "ana"))
	storetest.Check(t, s.Cancel(s.ctx, retry, queue.CancelNow))
	if diff := cmp.Diff(map[action.ID]int{first: 0, next.ID: 70_000, retry: 70_000}, ended); diff != "" {
		t.Errorf("widths at the ends (-want +got):\n%s", diff)
	}
}

// beginningsAreToldOnce: however often an action is tried, and whichever observer reports that it runs.
func beginningsAreToldOnce(t *testing.T, s setup) {
	s.planning(t, &planner{begins: func(a action.Action) []queue.Successor {
		return []queue.Successor{{Action: follower(queue.End{Action: a}, "began")}}
	}, follow: func(queue.End) []queue.Successor { return nil }})
	host := s.join(t, "host-a")
	again := job("again")
	again.Policy.Initial = 0
	local := s.enqueue(t, again)
	s.end(t, host, s.claim(t, host, "noop", 1)[0], action.Outcome{Kind: action.Retry})
	for {
		_, err := s.Due(s.ctx)
		storetest.Check(t, err)
		turned, err := s.CompleteAndClaim(s.ctx, host, nil, []queue.Want{{Lane: "noop", N: 1}})
		storetest.Check(t, err)
		if len(turned.Claimed) == 1 {
			break
		}
		storetest.Check(t, s.NewWaiter().Wait(s.ctx, store.TopicEntry, time.Now().Add(10*time.Millisecond)))
	}
	away := s.accepted(t, host, job("away"))
	for range 2 {
		_, err := s.Observe(s.ctx, queue.Observation{ID: away, Source: "caboose", Began: true})
		storetest.Check(t, err)
	}
	whole := s.accepted(t, host, job("whole")) // its beginning and its end are seen at once
	_, err := s.Observe(s.ctx, queue.Observation{ID: whole, Source: "caboose", Began: true, Outcome: done()})
	storetest.Check(t, err)
	for name, id := range map[string]action.ID{"local": local, "away": away, "whole": whole} {
		if n := len(s.followers(t, id)); n != 1 {
			t.Errorf("%s: its beginning is reported %d times", name, n)
		}
	}
}

// turnsDoNotWaitForSlowPlans: an end whose plan is not ready is recorded by a later turn, which plans nothing again. The
// others of the turn are recorded, and what it wants is claimed.
func turnsDoNotWaitForSlowPlans(t *testing.T, s setup) {
	p := s.planning(t, &planner{hangs: make(chan struct{})})
	release := sync.OnceFunc(func() { close(p.hangs) })
	defer release()
	host := s.join(t, "host-a")
	slow, quick := s.enqueue(t, job("slow")), s.enqueue(t, job("quick"))
	var completions []queue.Completion
	for _, c := range s.claim(t, host, "noop", 2) {
		completions = append(completions, queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: done(), Claimed: &c})
	}
	s.enqueue(t, job("next"))
	turn := func(ends []queue.Completion) (turned queue.Turned) {
		t.Helper()
		over := make(chan error, 1)
		go func() {
			var err error
			turned, err = s.CompleteAndClaim(s.ctx, host, ends, []queue.Want{{Lane: "noop", N: 1}})
			over <- err
		}()
		select {
		case err := <-over:
			storetest.Check(t, err)
		case <-time.After(time.Minute):
			t.Fatal("the turn waits for a plan")
		}
		return turned
	}
	turned := turn(completions)
	if !slices.Equal(turned.Deferred.IDs, []action.ID{slow}) || len(turned.Claimed) != 1 || s.statusOf(t, quick) != action.Successful {
		t.Fatalf("deferred %v, claimed %d, the quick one is %s", turned.Deferred, len(turned.Claimed), s.statusOf(t, quick))
	}
	completions = slices.DeleteFunc(completions, func(c queue.Completion) bool { return c.ID != slow })
	if turned := turn(completions); len(turned.Deferred.IDs) != 1 || s.statusOf(t, slow) != action.Running {
		t.Fatalf("deferred %v while the plan hangs", turned.Deferred)
	}
	release()
	for until := time.Now().Add(time.Minute); len(turn(completions).Deferred.IDs) > 0; runtime.Gosched() { // wait until the plan is ready
		if time.Now().After(until) {
			t.Fatal("the plan is not ready within a minute of its release")
		}
	}
	if s.statusOf(t, slow) != action.Successful || len(s.followers(t, slow)) != 1 {
		t.Errorf("it is %s with %d followers", s.statusOf(t, slow), len(s.followers(t, slow)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.asked); n != 2 {
		t.Errorf("planned %v, want each end once", p.asked)
	}
}

// severalOfABatchSubscribe: requests of one batch for the payload of a live job are all called.
func severalOfABatchSubscribe(t *testing.T, s setup) {
	s.planning(t, &planner{})
	first := job("x")
	first.CacheKey = action.DerivedID(time.Now(), t.Name())
	id := s.enqueue(t, first)
	var batch []action.Action
	for range 3 {
		a := job("x")
		a.CacheKey, a.Subscriber = first.CacheKey, &action.Subscriber{SuccessURI: "http://example.org"}
		batch = append(batch, a)
	}
	made, err := s.Enqueue(s.ctx, batch...)
	storetest.Check(t, err)
	for _, m := range made {
		if m.ID != id || m.Created {
			t.Errorf("%+v, want job %s", m, id)
		}
	}
	storetest.Check(t, s.read(func(tx rows) error {
		there, err := tx.Subscribers([]action.ID{id})
		if len(there[id]) != len(batch) {
			t.Errorf("%d subscribers, want %d", len(there[id]), len(batch))
		}
		return err
	}))
}

// withoutAPlannerNobodySubscribes: the error names the missing part.
func withoutAPlannerNobodySubscribes(t *testing.T, s setup) {
	first := job("x")
	first.CacheKey = action.DerivedID(time.Now(), t.Name())
	s.enqueue(t, first)
	first.Subscriber = &action.Subscriber{SuccessURI: "http://example.org"}
	_, err := s.Enqueue(s.ctx, first)
	storetest.WantCode(t, err, fault.Internal)
}
