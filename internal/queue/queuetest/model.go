package queuetest

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// queueFollowsTheModel plays random programs on the queue and on a model in memory, and compares them after every step:
// statuses, attempts, claims, unique keys and histories. The model is written from docs/design/queue.md and does not use
// the state machine of package action, so an error there shows too. Run more programs with -rapid.checks, longer ones with
// -rapid.steps.
func queueFollowsTheModel(t *testing.T, s setup) {
	var programs atomic.Int64
	storetest.CheckPrograms(t, func(rt *rapid.T) {
		p := newProgram(rt, s, fmt.Sprintf("model-%d", programs.Add(1)))
		defer p.leave()
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue":  p.enqueue,
			"claim":    p.claim,
			"complete": p.complete,
			"late":     p.completeLate,
			"cancel":   p.cancel,
			"snooze":   p.snooze,
			"die":      p.die,
			"time":     p.passTime,
			"":         p.agrees,
		})
		p.end(rt)
	})
}

// modelAction is what the model knows of an action.
type modelAction struct {
	id         action.ID
	key        string
	priority   int
	retries    int
	atMostOnce bool
	deadline   bool // it has passed: a program cannot wait, so deadlines are shorter than any transaction takes

	status  action.Status
	attempt int
	spent   int
	claimed action.ID // the instance; zero: none
	due     int       // the step since which it may be claimed; 0: not before the program ends
	cancel  bool      // its owner was asked to stop
	drain   bool      // no attempt follows this one
	history []action.Status
}

func (a *modelAction) live() bool { return a.status < action.Successful }

func (a *modelAction) idle() bool { return a.live() && a.claimed.IsZero() }

// become records a status, with which the claim ends.
func (a *modelAction) become(status action.Status) {
	a.status, a.claimed = status, action.ID{}
	a.history = append(a.history, status)
}

// stop ends an action that was asked to stop: by its deadline, or before it by a person. The deadline of an action that
// was not asked has no part in its end.
func (a *modelAction) stop() {
	if a.cancel && a.deadline {
		a.become(action.TimedOut)
		return
	}
	a.become(action.Canceled)
}

// wait makes an action wait from a step on, or end if no attempt may follow.
func (a *modelAction) wait(due int) {
	if a.cancel || a.drain {
		a.stop()
		return
	}
	a.become(action.Backoff)
	a.due = due
}

// program is one run against the queue and the model.
type program struct {
	setup
	handler   string
	joined    int
	instances []queue.Instance // living instances
	actions   []*modelAction
	lost      []queue.Completion // completions of claims that were taken away or have ended
	owners    []queue.Instance   // owners of lost, by position
	step      int
}

func newProgram(t *rapid.T, s setup, handler string) *program {
	p := &program{setup: s, handler: handler}
	p.joinOne(t)
	p.joinOne(t)
	return p
}

func (p *program) joinOne(t *rapid.T) {
	p.joined++
	name := fmt.Sprintf("%s-%d", p.handler, p.joined)
	i := queue.Instance{ID: action.DerivedID(time.Now(), name), Name: name, Handlers: []string{p.handler}, Heartbeat: Unhurried}
	storetest.Check(t, p.Join(p.ctx, i))
	p.instances = append(p.instances, i)
}

// leave removes the instances, also after a failure: those of one program must not be in the next one's way.
func (p *program) leave() {
	for _, i := range p.instances {
		_ = p.Leave(p.ctx, i)
	}
}

// pick draws an action that satisfies a condition; it skips the step if none does.
func (p *program) pick(t *rapid.T, which func(*modelAction) bool) *modelAction {
	var some []*modelAction
	for _, a := range p.actions {
		if which(a) {
			some = append(some, a)
		}
	}
	if len(some) == 0 {
		t.Skip("no such action")
	}
	return some[rapid.IntRange(0, len(some)-1).Draw(t, "action")]
}

func (p *program) instance(t *rapid.T) queue.Instance {
	return p.instances[rapid.IntRange(0, len(p.instances)-1).Draw(t, "instance")]
}

func (p *program) byID(id action.ID) *modelAction {
	for _, a := range p.actions {
		if a.id == id {
			return a
		}
	}
	return nil
}

// owner returns the live action that has a key.
func (p *program) owner(key string) *modelAction {
	for _, a := range p.actions {
		if key != "" && a.key == key && a.live() {
			return a
		}
	}
	return nil
}

func (p *program) enqueue(t *rapid.T) {
	p.step++
	m := &modelAction{status: action.Pending, history: []action.Status{action.Pending}, due: p.step,
		priority:   rapid.SampledFrom([]int{0, 100, 100, 700}).Draw(t, "priority"),
		retries:    rapid.IntRange(0, 2).Draw(t, "retries"),
		atMostOnce: rapid.IntRange(0, 4).Draw(t, "delivery") == 0,
		deadline:   rapid.IntRange(0, 5).Draw(t, "deadline") == 0,
	}
	if key := rapid.SampledFrom([]string{"", "", "k", "l"}).Draw(t, "key"); key != "" {
		m.key = p.handler + "/" + key
	}
	a := action.Action{Kind: "action", Name: "model", Handler: p.handler, Priority: &m.priority, UniqueKey: m.key, Policy: Policy()}
	a.Policy.Retries, a.Policy.Deadline = m.retries, 0
	if m.atMostOnce {
		a.Delivery = action.AtMostOnce
	}
	switch rapid.SampledFrom([]string{"now", "past", "future"}).Draw(t, "run at") {
	case "past":
		a.RunAt = time.Now().Add(-time.Hour)
	case "future":
		a.RunAt, m.due = time.Now().Add(time.Hour), 0
	}
	if m.deadline {
		a.Policy.Deadline = action.Duration(time.Microsecond)
	}
	way := rapid.SampledFrom([]queue.OnConflict{queue.ReturnExisting, queue.RejectNew, queue.ReplaceWaiting}).Draw(t, "on conflict")
	made, err := p.enqueueWith(p.ctx, a, queue.EnqueueOptions{OnConflict: way})
	holder := p.owner(m.key)
	switch {
	case holder != nil && way == queue.RejectNew:
		storetest.WantCode(t, err, fault.DuplicateKey)
		return
	case holder != nil && (way == queue.ReturnExisting || !holder.idle()):
		storetest.Check(t, err)
		if made.Created || made.ID != holder.id {
			t.Fatalf("got %+v, want the live action %s with the key", made, holder.id)
		}
		return
	case holder != nil:
		holder.become(action.Canceled)
	}
	storetest.Check(t, err)
	if !made.Created || p.byID(made.ID) != nil {
		t.Fatalf("got %+v, want a new action", made)
	}
	m.id = made.ID
	p.actions = append(p.actions, m)
}

func (p *program) claim(t *rapid.T) {
	i := p.instance(t)
	n := rapid.IntRange(1, 4).Draw(t, "n")
	turned, err := p.CompleteAndClaim(p.ctx, i, nil, []queue.Want{{Lane: p.handler, N: n}})
	storetest.Check(t, err)
	var ready []*modelAction
	for _, a := range p.actions {
		if a.idle() && a.due > 0 {
			ready = append(ready, a)
		}
	}
	if want := min(n, len(ready)); len(turned.Claimed) != want {
		t.Fatalf("claimed %d, want %d of the %d that are ready", len(turned.Claimed), want, len(ready))
	}
	// Priorities differ by more seconds than a program takes, so priority goes before time.
	slices.SortStableFunc(ready, func(a, b *modelAction) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.due, b.due))
	})
	for n, c := range turned.Claimed {
		a := p.byID(c.ID)
		switch {
		case a == nil || !slices.Contains(ready, a):
			t.Fatalf("claimed %s, which is not ready: %+v", c.ID, a)
		case a.priority != ready[n].priority || a.due != ready[n].due:
			t.Fatalf("claimed %+v, want %+v first", a, ready[n])
		}
	}
	for _, c := range turned.Claimed {
		a := p.byID(c.ID)
		a.become(action.Running)
		a.claimed = i.ID
		if a.attempt++; c.Thread.Attempt != a.attempt {
			t.Fatalf("attempt %d, want %d", c.Thread.Attempt, a.attempt)
		}
	}
}

// complete ends an attempt as its handler may.
func (p *program) complete(t *rapid.T) {
	a := p.pick(t, func(a *modelAction) bool { return !a.claimed.IsZero() })
	owner := p.ownerOf(a)
	p.step++
	kind := rapid.SampledFrom([]action.OutcomeKind{action.Done, action.Done, action.Retry, action.Retry, action.RetryAfter,
		action.GivenBack, action.Fatal, action.BadInput, action.Stopped}).Draw(t, "outcome")
	c := queue.Completion{ID: a.id, Attempt: a.attempt, Outcome: action.Outcome{Kind: kind}}
	if kind == action.RetryAfter {
		c.Outcome.At = time.Now().Add(time.Hour)
	}
	turned, err := p.CompleteAndClaim(p.ctx, owner, []queue.Completion{c}, nil)
	storetest.Check(t, err)
	if len(turned.Late) > 0 {
		t.Fatalf("the completion of a live claim is late: %+v", a)
	}
	p.lost, p.owners = append(p.lost, c), append(p.owners, owner)
	switch kind {
	case action.Done:
		a.become(action.Successful) // success that is recorded first wins over a request to stop
	case action.Fatal:
		a.become(action.Failed)
	case action.BadInput:
		a.become(action.Invalid)
	case action.Stopped:
		a.stop()
	case action.GivenBack:
		a.wait(p.step)
	case action.RetryAfter:
		a.wait(0)
	case action.Retry:
		p.retry(a)
	}
}

// retry spends an attempt; the next one is due in an hour.
func (p *program) retry(a *modelAction) {
	a.spent++
	switch {
	case a.atMostOnce:
		a.become(action.Failed)
	case a.cancel || a.drain:
		a.stop()
	case a.spent > a.retries:
		a.become(action.RetriesExhausted)
	default:
		a.wait(0)
	}
}

// completeLate completes again what was completed or taken away: nothing changes.
func (p *program) completeLate(t *rapid.T) {
	if len(p.lost) == 0 {
		t.Skip("no former claim")
	}
	n := rapid.IntRange(0, len(p.lost)-1).Draw(t, "former claim")
	turned, err := p.CompleteAndClaim(p.ctx, p.owners[n], []queue.Completion{p.lost[n]}, nil)
	storetest.Check(t, err)
	if len(turned.Late) != 1 {
		t.Fatalf("a completion of a former claim was taken: %+v", p.lost[n])
	}
}

func (p *program) ownerOf(a *modelAction) queue.Instance {
	for _, i := range p.instances {
		if i.ID == a.claimed {
			return i
		}
	}
	return queue.Instance{}
}

func (p *program) cancel(t *rapid.T) {
	a := p.pick(t, func(*modelAction) bool { return true })
	mode := rapid.SampledFrom([]queue.CancelMode{queue.CancelNow, queue.Drain}).Draw(t, "mode")
	err := p.Cancel(p.ctx, a.id, mode)
	switch {
	case !a.live():
		storetest.WantCode(t, err, fault.Terminal)
		return
	case a.idle():
		a.become(action.Canceled)
	case mode == queue.Drain:
		a.drain = true
	default:
		a.cancel = true
	}
	storetest.Check(t, err)
}

func (p *program) snooze(t *rapid.T) {
	a := p.pick(t, func(a *modelAction) bool { return !a.deadline }) // none waits longer than its deadline
	p.step++
	until, due := time.Now().Add(time.Hour), 0
	if rapid.Bool().Draw(t, "past") {
		until, due = time.Now().Add(-time.Hour), p.step
	}
	err := p.Snooze(p.ctx, a.id, until, "ana")
	switch {
	case !a.live():
		storetest.WantCode(t, err, fault.Terminal)
	case !a.idle():
		storetest.WantCode(t, err, fault.NotReady)
	default:
		storetest.Check(t, err)
		a.wait(due)
	}
}

// die ends an instance, and has another rescue its claims.
func (p *program) die(t *rapid.T) {
	p.step++
	n := rapid.IntRange(0, len(p.instances)-1).Draw(t, "instance")
	dead := p.instances[n]
	storetest.Check(t, p.Leave(p.ctx, dead))
	p.instances = slices.Delete(p.instances, n, n+1)
	p.joinOne(t)
	self := p.instances[0]
	rescued, err := p.Rescue(p.ctx, self.ID, nil)
	storetest.Check(t, err)
	want := map[action.ID]bool{}
	for _, a := range p.actions {
		if a.claimed.IsZero() || a.claimed == self.ID || !p.Embedded() && a.claimed != dead.ID {
			continue // on the embedded log every claim of another instance is a dead one's
		}
		want[a.id] = true
		owner := dead
		if a.claimed != dead.ID {
			owner = p.ownerOf(a)
		}
		p.lost = append(p.lost, queue.Completion{ID: a.id, Attempt: a.attempt, Outcome: action.Outcome{Kind: action.Done}})
		p.owners = append(p.owners, owner)
		if a.atMostOnce {
			a.become(action.Failed)
		} else {
			a.wait(p.step) // a lost lease spends nothing
		}
	}
	got := map[action.ID]bool{}
	for _, r := range rescued {
		if p.byID(r.ID) != nil {
			got[r.ID] = true
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("rescued (-want +got):\n%s", diff)
	}
}

// passTime ends what waits past its deadline, and asks the owners of what runs past it to stop.
func (p *program) passTime(t *rapid.T) {
	_, err := p.Due(p.ctx)
	storetest.Check(t, err)
	for _, a := range p.actions {
		switch {
		case !a.live() || !a.deadline:
		case a.idle():
			a.become(action.TimedOut)
		default:
			a.cancel = true
		}
	}
}

// agrees compares the queue with the model.
func (p *program) agrees(t *rapid.T) {
	states, err := p.Actions(p.ctx, queue.ActionQuery{Handler: p.handler})
	storetest.Check(t, err)
	if len(states) != len(p.actions) {
		t.Fatalf("%d actions, want %d", len(states), len(p.actions))
	}
	for _, state := range states {
		a, th := p.byID(state.ID), state.Thread
		if a == nil || th.Status != a.status || th.Attempt != a.attempt || th.Spent != a.spent || a.live() && th.ClaimedBy != a.claimed {
			t.Fatalf("thread %+v, want %+v", th, a)
		}
		if asked := !th.CancelAt.IsZero(); a.live() && (asked != a.cancel || th.Draining != a.drain) {
			t.Fatalf("asked to stop: %t, draining: %t; want %+v", asked, th.Draining, a)
		}
		if th.Seq != len(a.history)-1 && a.live() {
			t.Fatalf("the last event is %d, want those of %v", th.Seq, a.history)
		}
	}
}

// end compares what is read one by one: histories, and requests to stop.
func (p *program) end(t *rapid.T) {
	for _, a := range p.actions {
		events, err := p.Events(p.ctx, a.id)
		storetest.Check(t, err)
		var got []action.Status
		for n, e := range events {
			if e.Seq != n {
				t.Fatalf("event %d has seq %d", n, e.Seq)
			}
			got = append(got, e.Status)
		}
		if diff := gocmp.Diff(a.history, got); diff != "" {
			t.Fatalf("history (-want +got):\n%s", diff)
		}
	}
	for _, i := range p.instances {
		asked, err := p.CancelAsked(p.ctx, i.ID)
		storetest.Check(t, err)
		want, got := map[action.ID]bool{}, map[action.ID]bool{}
		for _, a := range p.actions {
			if a.cancel && a.claimed == i.ID {
				want[a.id] = true
			}
		}
		for _, id := range asked {
			got[id] = true
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("asked to stop (-want +got):\n%s", diff)
		}
	}
}
