package action_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	seconds := func(list ...int) (out []action.Duration) {
		for _, s := range list {
			out = append(out, action.Duration(time.Duration(s)*time.Second))
		}
		return out
	}
	for name, c := range map[string]struct {
		policy action.Policy
		want   []action.Duration
	}{
		"exponential": {action.Policy{Initial: seconds(5)[0], Factor: 2, Max: seconds(30)[0]}, seconds(5, 10, 20, 30, 30)},
		"constant":    {action.Policy{Initial: seconds(5)[0], Factor: 1}, seconds(5, 5, 5)},
		"schedule":    {action.Policy{Initial: seconds(1)[0], Schedule: seconds(5, 300, 1800)}, seconds(5, 300, 1800, 1800)},
		"none":        {action.Policy{}, seconds(0, 0)},
	} {
		var got []action.Duration
		for n := range c.want {
			got = append(got, action.Duration(c.policy.Delay(action.ID{}, n+1)))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestJitterIsBoundedAndTheSameForTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := action.DefaultPolicy()
		p.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		id := action.NewID(time.UnixMilli(rapid.Int64Range(0, 1<<40).Draw(t, "ms")),
			[10]byte(rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "random")))
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		got := p.Delay(id, n)
		if got != p.Delay(id, n) {
			t.Fatal("the same attempt waits differently")
		}
		without := p
		without.Jitter = 0
		middle := float64(without.Delay(id, n))
		if float64(got) < middle*(1-p.Jitter)-1 || float64(got) > middle*(1+p.Jitter)+1 {
			t.Fatalf("%s is not within %v of %s", got, p.Jitter, time.Duration(middle))
		}
	})
}

// TestRandomLivesKeepTheInvariants: random inputs never leave an end, seq has no gap, spent stays
// within the policy unless reports come after a cancel request, BACKOFF has a time.
func TestRandomLivesKeepTheInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := plain()
		a.Policy.Retries = rapid.IntRange(0, 4).Draw(t, "retries")
		if rapid.Bool().Draw(t, "at most once") {
			a.Delivery = action.AtMostOnce
		}
		th := action.Thread{Status: action.Pending, RunAt: now, Deadline: now.Add(time.Hour)}
		at := now
		for range rapid.IntRange(1, 80).Draw(t, "inputs") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "later")))
			in := action.Input{Kind: action.InputKind(rapid.IntRange(int(action.Claim), int(action.Stopping)).Draw(t, "kind")),
				By: owner, Owner: rapid.Bool().Draw(t, "owner"),
				HandOff: rapid.Bool().Draw(t, "hand-off")}
			in.Outcome = action.Outcome{Kind: action.OutcomeKind(rapid.IntRange(0, int(action.Expired)).Draw(t, "outcome"))}
			if rapid.Bool().Draw(t, "timed") {
				in.Outcome.At = at.Add(time.Minute)
			}
			next, err := action.Next(a, th, in, at)
			if err != nil {
				continue
			}
			got := next.Thread
			switch {
			case th.Status.Ended():
				t.Fatalf("%s left %s", in.Kind, th.Status)
			case next.Event == nil && got.Status != th.Status, next.Event != nil && got.Seq != th.Seq+1:
				t.Fatalf("from %s seq %d to %s seq %d with event %v", th.Status, th.Seq, got.Status, got.Seq, next.Event)
			case got.Spent > a.Policy.Retries+1 && got.CancelAt.IsZero(), got.Attempt < th.Attempt, got.Spent < th.Spent:
				t.Fatalf("spent %d of %d, attempt %d after %d", got.Spent, a.Policy.Retries, got.Attempt, th.Attempt)
			case got.Status == action.Backoff && next.Event != nil && next.Event.Until.IsZero():
				t.Fatal("BACKOFF without a time")
			case got.Status.Ended() && !got.ClaimedBy.IsZero():
				t.Fatal("an end keeps its claim")
			}
			th = got
		}
	})
}
