package queuetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// Unhurried is the heartbeat of instances that never renew their lease: no test takes so long that they would have to.
const Unhurried = 10 * time.Minute

// Job returns an action of the handler noop that is not the step of a deployment.
func Job(name string) action.Action {
	return action.Action{Kind: "job", Name: name, Handler: "noop", Policy: Policy()}
}

// Policy returns a policy of two retries with a back-off of an hour and no jitter.
func Policy() action.Policy {
	p := action.DefaultPolicy()
	p.Initial, p.Jitter, p.Retries = action.Duration(time.Hour), 0, 2
	return p
}

// Join makes an instance that serves the handler noop.
func Join(t *testing.T, q *queue.Queue, name string) queue.Instance {
	t.Helper()
	i := queue.Instance{ID: action.DerivedID(time.Now(), t.Name(), name), Name: name, Version: "test",
		Handlers: []string{"noop"}, Heartbeat: Unhurried}
	storetest.Check(t, q.Join(t.Context(), i))
	return i
}

// Claim takes up to n actions of a lane, and wants to get exactly that many.
func Claim(t *testing.T, q *queue.Queue, i queue.Instance, lane string, n int) []queue.Claimed {
	t.Helper()
	done, err := q.CompleteAndClaim(t.Context(), i, nil, []queue.Want{{Lane: lane, N: n}})
	storetest.Check(t, err)
	if len(done.Claimed) != n {
		t.Fatalf("claimed %d of lane %s, want %d", len(done.Claimed), lane, n)
	}
	return done.Claimed
}

// End completes a claim.
func End(t *testing.T, q *queue.Queue, i queue.Instance, c queue.Claimed, o action.Outcome) queue.Turned {
	t.Helper()
	done, err := q.CompleteAndClaim(t.Context(), i, []queue.Completion{{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: o, Claimed: &c}}, nil)
	storetest.Check(t, err)
	return done
}

// Enqueue stores one action and returns its id.
func Enqueue(t *testing.T, q *queue.Queue, a action.Action) action.ID {
	t.Helper()
	made, err := q.Enqueue(t.Context(), a)
	storetest.Check(t, err)
	return made[0].ID
}

// StatusOf returns the status of an action.
func StatusOf(t *testing.T, q *queue.Queue, id action.ID) action.Status {
	t.Helper()
	state, err := q.Action(t.Context(), id)
	storetest.Check(t, err)
	return state.Thread.Status
}

// HandOff claims one action of the lane to be handed off.
func HandOff(t *testing.T, q *queue.Queue, i queue.Instance, lane string) queue.Claimed {
	t.Helper()
	turned, err := q.CompleteAndClaim(t.Context(), i, nil, []queue.Want{{Lane: lane, N: 1, HandOff: true}})
	storetest.Check(t, err)
	if len(turned.Claimed) != 1 {
		t.Fatalf("claimed %d of lane %s, want 1", len(turned.Claimed), lane)
	}
	return turned.Claimed[0]
}

// Settle completes the claim of a hand-off.
func Settle(t *testing.T, q *queue.Queue, i queue.Instance, c queue.Claimed, o action.Outcome) queue.Turned {
	t.Helper()
	turned, err := q.CompleteAndClaim(t.Context(), i,
		[]queue.Completion{{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: o, HandOff: true}}, nil)
	storetest.Check(t, err)
	return turned
}

// Accepted enqueues an action and hands it off: its work continues elsewhere.
func Accepted(t *testing.T, q *queue.Queue, i queue.Instance, a action.Action) action.ID {
	t.Helper()
	id := Enqueue(t, q, a)
	Settle(t, q, i, HandOff(t, q, i, a.Handler), action.Outcome{Kind: action.Done})
	if got := StatusOf(t, q, id); got != action.Queued {
		t.Fatalf("accepted work is %s", got)
	}
	return id
}

// WantHistory wants the statuses that an action had after PENDING, in events without gaps.
func WantHistory(t *testing.T, q *queue.Queue, id action.ID, want ...action.Status) {
	t.Helper()
	events, err := q.Events(t.Context(), id)
	storetest.Check(t, err)
	var got []action.Status
	for i, e := range events {
		if e.Seq != i {
			t.Errorf("event %d has seq %d", i, e.Seq)
		}
		got = append(got, e.Status)
	}
	if diff := cmp.Diff(append([]action.Status{action.Pending}, want...), got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}
