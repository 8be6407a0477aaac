package build_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/build"
)

// plan makes a plan of stages such as "a b", "c!": one letter per step; a stage's
// marks are ! for runs-if always, ? for fail, & for no fail-fast.
func plan(maxParallel int, stages ...string) *build.Plan {
	p := &build.Plan{MaxParallel: maxParallel, Timeout: time.Hour}
	var after []int
	for i, text := range stages {
		stage := build.PlanStage{Name: fmt.Sprint("s", i), RunsIf: build.Success, FailFast: !strings.Contains(text, "&")}
		switch {
		case strings.Contains(text, "!"):
			stage.RunsIf = build.Always
		case strings.Contains(text, "?"):
			stage.RunsIf = build.Fail
		}
		for _, name := range strings.Fields(strings.Trim(text, "!?&")) {
			id := len(p.Steps) + 1
			p.Steps = append(p.Steps, build.PlanStep{ID: id, Stage: stage.Name, Name: name, After: slices.Clone(after)})
			stage.Steps = append(stage.Steps, id)
		}
		after = append(after, stage.Steps...)
		p.Stages = append(p.Stages, stage)
	}
	return p
}

// needing has a step wait for others alone.
func needing(p *build.Plan, step int, others ...int) *build.Plan {
	p.Step(step).Needs = append([]int{}, others...)
	p.Step(step).After = p.Step(step).Needs
	return p
}

// zero is the beginning of builds in these tests.
var zero = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// transcript plays a build: each move is "STEP status", "cancel" or "+duration", and the decisions after it are
// written down.
func transcript(p *build.Plan, moves ...string) []string {
	s := build.States{StartedAt: zero, Steps: map[int]build.StepState{}}
	now := zero
	byName := map[string]int{}
	for _, step := range p.Steps {
		byName[step.Name] = step.ID
	}
	var out []string
	decide := func(move string) {
		line := move + ":"
		for {
			d := build.Next(p, s, now)
			line += words(p, d)
			apply(s, d, now)
			if len(d.End) == 0 {
				break
			}
		}
		out = append(out, line)
	}
	decide("begin")
	for _, move := range moves {
		name, status, _ := strings.Cut(move, " ")
		switch {
		case move == "cancel":
			s.Canceled = true
		case strings.HasPrefix(move, "+"):
			d, _ := time.ParseDuration(move[1:])
			now = now.Add(d)
		default:
			state := s.Steps[byName[name]]
			status, pause, _ := strings.Cut(status, " ")
			if d, err := time.ParseDuration(pause); err == nil {
				state.RetryAt = now.Add(d)
			}
			state.Status = build.Status(status)
			s.Steps[byName[name]] = state
		}
		decide(move)
	}
	return out
}

func apply(s build.States, d build.Decision, now time.Time) {
	for _, id := range d.Start {
		s.Steps[id] = build.StepState{Status: build.Running, StartedAt: now}
	}
	for _, e := range d.End {
		s.Steps[e.ID] = build.StepState{Status: e.Status}
	}
}

func words(p *build.Plan, d build.Decision) string {
	var out strings.Builder
	for _, id := range d.Start {
		out.WriteString(" start " + p.Step(id).Name)
	}
	for _, e := range d.End {
		fmt.Fprintf(&out, " %s %s (%s)", p.Step(e.ID).Name, e.Status, e.Reason)
	}
	for _, e := range d.Stop {
		fmt.Fprintf(&out, " stop %s %s (%s)", p.Step(e.ID).Name, e.Status, e.Reason)
	}
	if d.Done {
		fmt.Fprintf(&out, " done %s", d.Result)
	}
	return out.String()
}

func TestNextTranscripts(t *testing.T) {
	t.Parallel()
	timed := plan(0, "a b", "c")
	timed.Steps[0].Timeout = time.Minute
	retried := plan(0, "a b", "c")
	retried.Steps[0].Timeout = time.Minute
	for name, test := range map[string]struct {
		plan  *build.Plan
		moves []string
		want  []string
	}{
		"all goes well": {plan(0, "a b", "c"), []string{"b Completed", "a Completed", "c Completed"},
			[]string{"begin: start a start b", "b Completed:", "a Completed: start c", "c Completed: done Completed"}},
		"a failed step cancels its stage and skips the next": {plan(0, "a b", "c"), []string{"a Failed", "b Canceled"},
			[]string{"begin: start a start b", "a Failed: stop b Canceled (s0/a failed)", "b Canceled: c Skipped (s0/a failed) done Failed"}},
		"the failed step ends before a successful one": {plan(0, "a b&"), []string{"a Failed", "b Completed"},
			[]string{"begin: start a start b", "a Failed:", "b Completed: done Failed"}},
		"one at a time, lowest first": {plan(1, "a b c"), []string{"a Completed", "b Completed", "c Completed"},
			[]string{"begin: start a", "a Completed: start b", "b Completed: start c", "c Completed: done Completed"}},
		"pending ones are canceled by fail-fast": {plan(1, "a b"), []string{"a Failed"},
			[]string{"begin: start a", "a Failed: b Canceled (s0/a failed) done Failed"}},
		"runs-if fail and always": {plan(0, "a", "b?", "c!", "d"), []string{"a Failed", "b Completed", "c Completed"},
			[]string{"begin: start a", "a Failed: start b", "b Completed: start c", "c Completed: d Skipped (s0/a failed) done Failed"}},
		"runs-if fail without a failure": {plan(0, "a", "b?", "c"), []string{"a Completed", "c Completed"},
			[]string{"begin: start a", "a Completed: b Skipped (no earlier step failed) start c", "c Completed: done Completed"}},
		"after a cancel nothing starts, always included": {plan(0, "a", "b!"), []string{"cancel", "a Canceled"},
			[]string{"begin: start a", "cancel: b Canceled (the build was canceled) stop a Canceled (the build was canceled)",
				"a Canceled: done Canceled"}},
		"a step's own time": {timed, []string{"+59s", "+1s", "a TimedOut", "b Canceled"},
			[]string{"begin: start a start b", "+59s:", "+1s: stop a TimedOut (it took longer than 1m0s)",
				"a TimedOut: stop b Canceled (s0/a failed)", "b Canceled: c Skipped (s0/a failed) done Failed"}},
		"the build's own time": {plan(0, "a", "b!"), []string{"+1h", "a TimedOut"},
			[]string{"begin: start a",
				"+1h: b Canceled (the build took longer than 1h0m0s) stop a TimedOut (the build took longer than 1h0m0s)",
				"a TimedOut: done TimedOut"}},
		"needs instead of stages": {needing(plan(0, "a b", "c", "d"), 3, 2),
			[]string{"b Completed", "c Completed", "a Completed", "d Completed"},
			[]string{"begin: start a start b", "b Completed: start c", "c Completed:", "a Completed: start d", "d Completed: done Completed"}},
		"no needs at all": {needing(plan(0, "a", "b"), 2), []string{"a Failed", "b Completed"},
			[]string{"begin: start a start b", "a Failed:", "b Completed: done Failed"}},
		"runs-if looks at the needs": {needing(plan(0, "a b&", "c?", "d!"), 3, 2), []string{"a Failed", "b Completed", "d Completed"},
			[]string{"begin: start a start b", "a Failed:", "b Completed: c Skipped (no earlier step failed) start d", "d Completed: done Failed"}},
		"a need that was canceled": {needing(plan(0, "a b", "c", "d!"), 3, 2), []string{"a Failed", "b Canceled", "d Completed"},
			[]string{"begin: start a start b", "a Failed: stop b Canceled (s0/a failed)",
				"b Canceled: c Skipped (s0/b was canceled) start d", "d Completed: done Failed"}},
		"and at the needs of needs": {needing(needing(plan(0, "a&", "b", "c!", "d?"), 3, 1), 4, 3),
			[]string{"a Failed", "c Completed", "d Completed"},
			[]string{"begin: start a", "a Failed: start c b Skipped (s0/a failed)", "c Completed: start d", "d Completed: done Failed"}},
		"a need in a later stage": {needing(needing(plan(0, "a b", "c"), 1, 3), 3), []string{"c Completed", "b Completed", "a Completed"},
			[]string{"begin: start b start c", "c Completed: start a", "b Completed:", "a Completed: done Completed"}},
		"another attempt": {retried, []string{"a Backoff 10s", "+9s", "+1s", "a Completed", "b Completed", "c Completed"},
			[]string{"begin: start a start b", "a Backoff 10s:", "+9s:", "+1s: start a", "a Completed:", "b Completed: start c",
				"c Completed: done Completed"}},
		"an attempt has the step's time again": {retried, []string{"+50s", "a Backoff 10s", "+10s", "+59s", "+1s"},
			[]string{"begin: start a start b", "+50s:", "a Backoff 10s:", "+10s: start a", "+59s:",
				"+1s: stop a TimedOut (it took longer than 1m0s)"}},
		"a cancel between attempts": {retried, []string{"a Backoff 10s", "b Completed", "cancel"},
			[]string{"begin: start a start b", "a Backoff 10s:", "b Completed:",
				"cancel: a Canceled (the build was canceled) c Canceled (the build was canceled) done Canceled"}},
		"a failure between attempts": {retried, []string{"a Backoff 10s", "b Failed"},
			[]string{"begin: start a start b", "a Backoff 10s:", "b Failed: a Canceled (s0/b failed) c Skipped (s0/b failed) done Failed"}},
		"a step between attempts takes no place": {plan(1, "a b&"), []string{"a Backoff 10s", "+10s", "b Completed"},
			[]string{"begin: start a", "a Backoff 10s: start b", "+10s:", "b Completed: start a"}},
		"nothing to run":     {plan(0), nil, []string{"begin: done Skipped"}},
		"every step skipped": {plan(0, "a?"), nil, []string{"begin: a Skipped (no earlier step failed) done Skipped"}},
		"a stage without steps does nothing": {plan(0, "a", "!", "b"), []string{"a Completed", "b Completed"},
			[]string{"begin: start a", "a Completed: start b", "b Completed: done Completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := transcript(test.plan, test.moves...)
			for i := range got { // the transcript lists the decisions of several rounds after one move round by round
				got[i] = strings.ReplaceAll(got[i],
					" stop a Canceled (the build was canceled) stop a Canceled (the build was canceled)", " stop a Canceled (the build was canceled)")
				got[i] = strings.ReplaceAll(got[i],
					" stop a TimedOut (the build took longer than 1h0m0s) stop a TimedOut (the build took longer than 1h0m0s)",
					" stop a TimedOut (the build took longer than 1h0m0s)")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNextWakesAtTheNextDeadline(t *testing.T) {
	t.Parallel()
	p := plan(0, "a b")
	p.Steps[1].Timeout = time.Minute
	s := build.States{StartedAt: zero, Steps: map[int]build.StepState{}}
	apply(s, build.Next(p, s, zero), zero)
	if got, want := build.Next(p, s, zero).Wake, zero.Add(time.Minute); !got.Equal(want) {
		t.Errorf("wakes at %s, want %s", got, want)
	}
}

// TestNextProperties plays builds whose steps end at random and wants of each: it ends, once; no
// step starts before everything it waits for has ended, nor twice; never more than the limit run;
// the result is that of the steps, whatever ended last.
func TestNextProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stages []string
		for i := range rapid.IntRange(0, 4).Draw(t, "stages") {
			text := rapid.SampledFrom([]string{"", "!", "?", "&"}).Draw(t, "mark")
			for j := range rapid.IntRange(0, 4).Draw(t, "steps") {
				text = fmt.Sprintf("n%d-%d %s", i, j, text)
			}
			stages = append(stages, text)
		}
		p := plan(rapid.IntRange(0, 3).Draw(t, "limit"), stages...)
		for i := range p.Steps {
			if rapid.Bool().Draw(t, "needs") {
				needs := []int{}
				for other := range i {
					if rapid.Bool().Draw(t, "need") {
						needs = append(needs, other+1)
					}
				}
				needing(p, i+1, needs...)
			}
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s := build.States{StartedAt: zero, Steps: map[int]build.StepState{}}
		cancelAt := rapid.IntRange(0, 30).Draw(t, "cancel")
		for round := 0; ; round++ {
			if round > 200 {
				t.Fatal("the build does not end")
			}
			s.Canceled = s.Canceled || round == cancelAt
			d := build.Next(p, s, zero)
			if d.Done {
				if len(d.Start)+len(d.End)+len(d.Stop) > 0 || d.Result != build.Result(p, s, false) {
					t.Fatalf("done, and more: %+v", d)
				}
				break
			}
			play(t, p, s, d, random)
		}
		for _, step := range p.Steps {
			if !s.Status(step.ID).Ended() {
				t.Fatalf("%s has not ended", step.Path())
			}
		}
	})
}

// play carries out a decision and lets one running step end.
func play(t *rapid.T, p *build.Plan, s build.States, d build.Decision, random *rand.Rand) {
	for _, id := range d.Start {
		if before := s.Status(id); s.Canceled || before != build.Pending && before != build.Backoff {
			t.Fatalf("step %d starts as %s, canceled %t", id, s.Status(id), s.Canceled)
		}
		for _, earlier := range p.Step(id).After {
			if !s.Status(earlier).Ended() {
				t.Fatalf("step %d starts before step %d has ended", id, earlier)
			}
		}
	}
	apply(s, d, zero)
	for _, stop := range d.Stop {
		s.Steps[stop.ID] = build.StepState{Status: stop.Status}
	}
	var running []int
	for id, state := range s.Steps {
		if !state.Status.Ended() && state.Status != build.Backoff {
			running = append(running, id)
		}
	}
	if p.MaxParallel > 0 && len(running) > p.MaxParallel {
		t.Fatalf("%d steps run, at most %d may", len(running), p.MaxParallel)
	}
	if len(running) > 0 {
		slices.Sort(running)
		ends := []build.Status{build.Completed, build.Completed, build.Failed, build.TimedOut, build.Backoff}
		s.Steps[running[random.IntN(len(running))]] = build.StepState{Status: ends[random.IntN(len(ends))]}
	}
}

func TestCheckChange(t *testing.T) {
	t.Parallel()
	all := []build.Status{build.Pending, build.Scheduling, build.Initializing, build.Running, build.Backoff, build.Completed,
		build.Failed, build.Canceled, build.TimedOut, build.Skipped, build.Reused}
	for i, from := range all {
		for j, to := range all {
			want := !from.Ended() && j > i && (to != build.Completed || from == build.Running) &&
				(to != build.Backoff || from != build.Pending) && (to != build.Reused || from == build.Pending) ||
				from == build.Backoff && to == build.Scheduling
			if got := build.CheckChange(from, to) == nil; got != want {
				t.Errorf("%s → %s: allowed %t, want %t", from, to, got, want)
			}
		}
	}
}

// TestALongBackoffIsAnHour: also one that does not fit into a duration when it is doubled.
func TestALongBackoffIsAnHour(t *testing.T) {
	t.Parallel()
	for _, backoff := range []time.Duration{time.Hour, 2 << 60, math.MaxInt64} {
		retry := &build.Retry{Attempts: 10, On: []build.Fault{build.Failure}, Backoff: backoff}
		for attempt := 1; attempt < 10; attempt++ {
			if wait, again := retry.After(attempt, build.Failure); wait != time.Hour || !again {
				t.Errorf("after attempt %d with a backoff of %s it waits for %s", attempt, backoff, wait)
			}
		}
	}
}
