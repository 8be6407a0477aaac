package action_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

var (
	now   = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	owner = action.NewID(now, [10]byte{1})
)

// plain returns an action with a policy that is easy to count with.
func plain() action.Action {
	return action.Action{ID: action.NewID(now, [10]byte{2}), Kind: "job", Handler: "noop",
		Policy: action.Policy{Retries: 2, Initial: action.Duration(5 * time.Second), Factor: 2, Max: action.Duration(time.Minute),
			AttemptTimeout: action.Duration(30 * time.Second), Deadline: action.Duration(time.Hour)}}
}

// thread returns a thread with the status, claimed or not, in its first attempt.
func thread(status action.Status, claimed bool) action.Thread {
	t := action.Thread{Status: status, Seq: 3, Attempt: 1, RunAt: now.Add(-time.Second), Deadline: now.Add(time.Hour)}
	if claimed {
		t.ClaimedBy = owner
	}
	return t
}

func outcome(kind action.OutcomeKind) action.Outcome {
	o := action.Outcome{Kind: kind, Code: "why", Error: "because"}
	if kind == action.RetryAfter {
		o.At = now.Add(time.Minute)
	}
	return o
}

// TestTransitions plays testdata/transitions.txt: every input to threads of every kind. A line that begins with a
// colon gives the earlier requests to the threads; a cell is the status after the input, what else it did when
// nothing is written to the history, or the code of the refusal.
func TestTransitions(t *testing.T) {
	t.Parallel()
	const file = "testdata/transitions.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	var asked string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
			got.WriteString(line)
		case words[0] == ":":
			asked = words[1]
			fmt.Fprintln(&got, row(line, kinds()))
		default:
			var cells []string
			for _, kind := range kinds() {
				cells = append(cells, cell(t, kind, asked, words[0]))
			}
			fmt.Fprintln(&got, row(words[0], cells))
		}
	}
	goldentest.Compare(t, file, got.String())
}

// kinds returns the kinds of live threads; a star is a claim. A thread that is QUEUED or RUNNING without one was
// handed off.
func kinds() []string {
	return []string{"PENDING", "PENDING*", "QUEUED", "RUNNING*", "RUNNING", "BACKOFF", "BACKOFF*"}
}

func row(name string, cells []string) string {
	line := fmt.Sprintf("%-22s", strings.Join(strings.Fields(name)[:min(2, len(strings.Fields(name)))], " "))
	for _, c := range cells {
		line += fmt.Sprintf(" %-18s", c)
	}
	return strings.TrimRight(line, " ")
}

// cell returns the effect of an input on a thread of a kind.
func cell(t *testing.T, kind, asked, word string) string {
	t.Helper()
	name, claimed := strings.CutSuffix(kind, "*")
	status, err := action.ParseStatus(name)
	if err != nil {
		t.Fatal(err)
	}
	th := thread(status, claimed)
	switch asked {
	case "nothing":
	case "cancel":
		th.CancelAt = now.Add(-time.Second)
	case "drain":
		th.Draining = true
	default:
		t.Fatalf("%q cannot be asked", asked)
	}
	return run(plain(), th, input(t, word, &th))
}

// input reads the word of a row; some words move the thread to the place they need.
func input(t *testing.T, word string, th *action.Thread) action.Input {
	t.Helper()
	kinds := map[string]action.InputKind{"claim": action.Claim, "early-claim": action.Claim, "began": action.Began, "cancel": action.AskCancel,
		"drain": action.AskDrain, "deadline": action.PassDeadline, "early-deadline": action.PassDeadline, "lease-lost": action.LoseLease,
		"attempt-overdue": action.OverrunAttempt, "claim-overdue": action.OverrunClaim, "snooze": action.AskSnooze, "stop": action.Stopping}
	in := action.Input{Kind: kinds[word], By: owner}
	switch word {
	case "early-claim":
		th.RunAt = now.Add(time.Second)
	case "deadline":
		th.Deadline = now.Add(-time.Second)
	case "snooze":
		in.Outcome.At = now.Add(time.Hour)
	case "hand-off-claim":
		in.Kind, in.HandOff = action.Claim, true
	}
	if in.Kind != 0 {
		return in
	}
	source, what, _ := strings.Cut(word, "-")
	in = action.Input{Kind: action.Ended, Owner: source == "owner"}
	if source == "stop" {
		in.Kind = action.Stopping
	}
	switch what {
	case "accepted":
		in.HandOff, in.Outcome = true, outcome(action.Done)
	case "accepted-last":
		in.HandOff, in.Outcome = true, outcome(action.Done)
		in.Outcome.Final = true
	case "last-retry":
		th.Spent = plain().Policy.Retries
		in.Outcome = outcome(action.Retry)
	case "none":
	default:
		for k := action.Done; k <= action.Expired; k++ {
			if k.String() == what {
				in.Outcome = outcome(k)
			}
		}
		if in.Outcome.Kind == 0 {
			t.Fatalf("%q is not an input", word)
		}
	}
	return in
}

// run returns the status after the input, what it did when nothing is written to the history, or the
// code of the refusal.
func run(a action.Action, th action.Thread, in action.Input) string {
	before := th
	next, err := action.Next(a, th, in, now)
	switch {
	case !cmp.Equal(before, th):
		return "its argument was changed"
	case err != nil:
		return string(fault.CodeOf(err))
	case next.Event == nil && next.Thread.Status != th.Status:
		return "a change without an event"
	case next.Event == nil:
		return silent(th, next.Thread)
	case next.Event.Seq != th.Seq+1 || next.Thread.Seq != th.Seq+1 || next.Event.Status != next.Thread.Status:
		return fmt.Sprintf("event %+v does not fit thread %+v", next.Event, next.Thread)
	}
	return next.Thread.Status.String()
}

// silent reports what changed without an event.
func silent(was, is action.Thread) string {
	switch {
	case was.ClaimedBy != is.ClaimedBy:
		return "same,claimed"
	case was.CancelAt != is.CancelAt:
		return "same,asked"
	case was.Draining != is.Draining:
		return "same,draining"
	case was.RunAt != is.RunAt:
		return "same,later"
	}
	return "same"
}

func TestEndedActionsAreTerminal(t *testing.T) {
	t.Parallel()
	for status := action.Successful; status <= action.RetriesExhausted; status++ {
		for kind := action.Claim; kind <= action.Stopping; kind++ {
			for o := range action.Expired + 1 {
				in := action.Input{Kind: kind, By: owner, Outcome: outcome(o)}
				if got := run(plain(), thread(status, false), in); got != string(fault.Terminal) {
					t.Errorf("%s after %s: got %s, want terminal", kind, status, got)
				}
			}
		}
	}
}

func TestClaimStartsAnAttempt(t *testing.T) {
	t.Parallel()
	th := thread(action.Pending, false)
	next := must(t, plain(), th, action.Input{Kind: action.Claim, By: owner, Source: "host-a"})
	want := th
	want.Status, want.Seq, want.Attempt, want.ClaimedBy, want.StartedAt = action.Running, 4, 2, owner, now
	want.Lease = now.Add(30*time.Second + action.LeaseGrace)
	if diff := cmp.Diff(want, next.Thread); diff != "" {
		t.Errorf("thread (-want +got):\n%s", diff)
	}
	th.RunAt = now.Add(time.Millisecond)
	if got := run(plain(), th, action.Input{Kind: action.Claim, By: owner}); got != string(fault.NotReady) {
		t.Errorf("a claim before its time: got %s, want not_ready", got)
	}
}

func TestOnlyRetriesSpendAttempts(t *testing.T) {
	t.Parallel()
	for kind, spent := range map[action.OutcomeKind]int{action.Retry: 1, action.RetryAfter: 0, action.Throttle: 0, action.GivenBack: 0} {
		next := must(t, plain(), thread(action.Running, true), action.Input{Kind: action.Ended, Owner: true, Outcome: outcome(kind)})
		if next.Thread.Spent != spent || next.Event.Spent != spent {
			t.Errorf("%s spends %d, want %d", kind, next.Thread.Spent, spent)
		}
		if next.Event.Until.IsZero() || !next.Event.Until.Equal(next.Thread.RunAt) {
			t.Errorf("%s: BACKOFF until %v, thread runs at %v", kind, next.Event.Until, next.Thread.RunAt)
		}
		if !next.Thread.ClaimedBy.IsZero() || !next.Thread.Lease.IsZero() {
			t.Errorf("%s keeps the claim", kind)
		}
	}
}

func TestThrottleBacksOffByRefusalsInARow(t *testing.T) {
	t.Parallel()
	th := thread(action.Running, true)
	for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		next := must(t, plain(), th, action.Input{Kind: action.Ended, Owner: true, Outcome: action.Outcome{Kind: action.Throttle}})
		if got := next.Thread.RunAt.Sub(now); got != want {
			t.Errorf("refusal %d waits %s, want %s", i+1, got, want)
		}
		th.Throttled = next.Thread.Throttled
	}
	th.Throttled = 1 << 15 // an outage of days
	next := must(t, plain(), th, action.Input{Kind: action.Ended, Owner: true, Outcome: action.Outcome{Kind: action.Throttle}})
	if got := next.Thread.RunAt.Sub(now); got != time.Minute || next.Thread.Throttled >= 1<<15 {
		t.Errorf("refusal %d waits %s, want a minute and a count that fits into two bytes", next.Thread.Throttled, got)
	}
	later := action.Outcome{Kind: action.Throttle, At: now.Add(time.Hour)}
	next = must(t, plain(), th, action.Input{Kind: action.Ended, Owner: true, Outcome: later})
	if got := next.Thread.RunAt.Sub(now); got != time.Hour {
		t.Errorf("a named time gives %s, want 1h", got)
	}
	next = must(t, plain(), th, action.Input{Kind: action.Ended, Owner: true, Outcome: action.Outcome{Kind: action.Retry}})
	if next.Thread.Throttled != 0 {
		t.Errorf("after an answer %d refusals are remembered, want none", next.Thread.Throttled)
	}
}

func TestRetryAfterNeedsATime(t *testing.T) {
	t.Parallel()
	in := action.Input{Kind: action.Ended, Owner: true, Outcome: action.Outcome{Kind: action.RetryAfter}}
	if got := run(plain(), thread(action.Running, true), in); got != string(fault.BackoffWithoutTime) {
		t.Errorf("got %s", got)
	}
}

func TestAtMostOnceIsNeverTriedAgainUnknowing(t *testing.T) {
	t.Parallel()
	a := plain()
	a.Delivery = action.AtMostOnce
	for name, c := range map[string]struct {
		in   action.Input
		code string
	}{
		"retry with the answer": {action.Input{Kind: action.Ended, Owner: true, Outcome: action.Outcome{Kind: action.Retry, Code: "500"}}, "500"},
		"retry without one": {action.Input{Kind: action.Ended, Owner: true, Outcome: action.Outcome{Kind: action.Retry}},
			action.CodeOutcomeUnknown},
		"panic": {action.Input{Kind: action.Ended, Owner: true,
			Outcome: action.Outcome{Kind: action.Retry, Code: action.CodePanic}}, action.CodeOutcomeUnknown},
		"lost lease": {action.Input{Kind: action.LoseLease, Who: "host-a"}, action.CodeOutcomeUnknown},
		"overdue":    {action.Input{Kind: action.OverrunAttempt, Who: "host-a"}, action.CodeOutcomeUnknown},
	} {
		next := must(t, a, thread(action.Running, true), c.in)
		if next.Thread.Status != action.Failed || next.Event.Code != c.code {
			t.Errorf("%s: got %s %s, want FAILED %s", name, next.Thread.Status, next.Event.Code, c.code)
		}
	}
	next := must(t, a, thread(action.Running, true),
		action.Input{Kind: action.Ended, Owner: true, Outcome: action.Outcome{Kind: action.Throttle}})
	if next.Thread.Status != action.Backoff {
		t.Errorf("what was never sent: got %s, want BACKOFF", next.Thread.Status)
	}
}

func TestAClaimThatNeverBeganSpendsNothing(t *testing.T) {
	t.Parallel()
	for _, delivery := range []action.Delivery{action.AtLeastOnce, action.AtMostOnce} {
		a := plain()
		a.Delivery, a.Policy.Retries = delivery, 0
		before := thread(action.Running, true)
		next := must(t, a, before, action.Input{Kind: action.OverrunClaim, Who: "host-a"})
		th := next.Thread
		if th.Status != action.Backoff || th.Spent != before.Spent || th.Lost != before.Lost || !th.ClaimedBy.IsZero() || !th.RunAt.Equal(now) {
			t.Errorf("%s: %+v, want it unclaimed and due now, with nothing spent or lost", delivery, th)
		}
		if next.Event.Code != action.CodeGivenBack {
			t.Errorf("%s: code %s, want %s", delivery, next.Event.Code, action.CodeGivenBack)
		}
	}
}

func TestLostLeasesAreFreeTwentyTimes(t *testing.T) {
	t.Parallel()
	a := plain()
	th := thread(action.Running, true)
	for lost := 1; ; lost++ {
		next := must(t, a, th, action.Input{Kind: action.LoseLease, Who: "host-a"})
		if next.Ended() {
			if next.Thread.Status != action.RetriesExhausted || lost != action.FreeLosses+a.Policy.Retries+1 {
				t.Errorf("ended %s at loss %d", next.Thread.Status, lost)
			}
			break
		}
		if next.Event.Code != action.CodeLeaseLost || next.Event.Error != "lease lost on host-a" || !next.Thread.RunAt.Equal(now) {
			t.Fatalf("loss %d: %+v", lost, next.Event)
		}
		th = next.Thread
		th.Status, th.ClaimedBy = action.Running, owner
	}
	th = thread(action.Running, true)
	th.Lost = 1000
	next := must(t, a, th, action.Input{Kind: action.LoseLease, Embedded: true})
	if next.Thread.Spent != 0 || next.Thread.Status != action.Backoff {
		t.Errorf("on the embedded log a lost lease spends %d and gives %s", next.Thread.Spent, next.Thread.Status)
	}
}

func TestNothingFollowsADrainedOrCanceledAttempt(t *testing.T) {
	t.Parallel()
	canceled, drained, late := thread(action.Running, true), thread(action.Running, true), thread(action.Running, true)
	canceled.CancelAt = now
	drained.Draining = true
	late.Deadline, late.CancelAt = now.Add(-time.Minute), now
	ended := func(k action.OutcomeKind) action.Input {
		return action.Input{Kind: action.Ended, Owner: true, Outcome: outcome(k)}
	}
	inputs := []action.Input{ended(action.Retry), ended(action.RetryAfter), ended(action.Throttle), ended(action.GivenBack),
		{Kind: action.LoseLease}, {Kind: action.OverrunAttempt}, {Kind: action.OverrunClaim}}
	for _, in := range inputs {
		for name, c := range map[string]struct {
			thread action.Thread
			want   action.Status
		}{"canceled": {canceled, action.Canceled}, "drained": {drained, action.Canceled}, "past its deadline": {late, action.TimedOut}} {
			if next := must(t, plain(), c.thread, in); next.Thread.Status != c.want {
				t.Errorf("%s, %s %s: got %s, want %s", name, in.Kind, in.Outcome.Kind, next.Thread.Status, c.want)
			}
		}
	}
	for _, th := range []action.Thread{canceled, drained, late} {
		if next := must(t, plain(), th, ended(action.Done)); next.Thread.Status != action.Successful {
			t.Errorf("success counts: got %s", next.Thread.Status)
		}
		if next := must(t, plain(), th, ended(action.Fatal)); next.Thread.Status != action.Failed {
			t.Errorf("failure counts: got %s", next.Thread.Status)
		}
	}
}

// TestAnEndByTheDeadlineNamesItAndTheLastError: of waiting actions, of those asked to stop, and of those that their
// owner ended first.
func TestAnEndByTheDeadlineNamesItAndTheLastError(t *testing.T) {
	t.Parallel()
	a := plain()
	a.Policy.Deadline = action.Duration(6 * time.Second)
	waits, asked, runs := thread(action.Backoff, false), thread(action.Running, true), thread(action.Running, true)
	waits.Deadline, asked.Deadline, asked.CancelAt, runs.Deadline = now, now, now, now.Add(time.Second)
	end := action.Outcome{Kind: action.Expired, Code: action.CodeDeadline, Error: "the port is closed"}
	for name, next := range map[string]action.Transition{
		"waits": must(t, a, waits, action.Input{Kind: action.PassDeadline, Outcome: action.Outcome{Error: "the port is closed"}}),
		"asked": must(t, a, asked, action.Input{Kind: action.Ended, Owner: true,
			Outcome: action.Outcome{Kind: action.Stopped, Error: "the port is closed"}}),
		"runs": must(t, a, runs, action.Input{Kind: action.Ended, Owner: true, Outcome: end}),
	} {
		if e := next.Event; e.Status != action.TimedOut || e.Code != action.CodeDeadline ||
			e.Error != "not done within its deadline of 6s; the last attempt: the port is closed" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	handed := thread(action.Pending, true) // it may be running elsewhere
	if next := must(t, a, handed, action.Input{Kind: action.Ended, Owner: true, HandOff: true,
		Outcome: end}); next.Ended() || next.Thread.CancelAt.IsZero() {
		t.Errorf("what may have been handed off: %+v", next.Thread)
	}
}

func TestCutShowsAndStaysWhole(t *testing.T) {
	t.Parallel()
	cut := action.Cut(strings.Repeat("é", action.MaxError))
	if len(cut) > action.MaxError || !strings.HasSuffix(cut, "é… (cut)") {
		t.Errorf("cut to %d bytes, ending in %q", len(cut), cut[len(cut)-20:])
	}
	if got := action.Cut("a\x00b\xffc"); got != "a�b�c" {
		t.Errorf("got %q", got)
	}
}

func must(t *testing.T, a action.Action, th action.Thread, in action.Input) action.Transition {
	t.Helper()
	next, err := action.Next(a, th, in, now)
	if err != nil {
		t.Fatal(err)
	}
	return next
}
