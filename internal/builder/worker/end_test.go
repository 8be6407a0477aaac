package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/results"
)

func TestBuildsEndAsTheirStepsDo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file string
		want build.Status
		each []string
	}{
		"completed": {script("a", "true", "b", "test $(cat hello.txt) = hello"), build.Completed, []string{"a Completed", "b Completed"}},
		"failed":    {script("a", "exit 3"), build.Failed, []string{"a Failed (exit status 3)"}},
		"the other step is ended": {script("a", "exit 3", "b", "exec sleep 60"), build.Failed,
			[]string{"a Failed (exit status 3)", "b Canceled (s/a failed)"}},
		"killed by a signal": {script("a", "kill -9 $$"), build.Failed, []string{"a Failed (exit status 137)"}},
		"stages": {script("a", "exit 1") +
			"t: {b: {container: {image: i, cmds: [x]}}}\nu: {runs-if: fail, c: {container: {image: i, cmds: ['true']}}}\n",
			build.Failed, []string{"a Failed (exit status 1)", "b Skipped (s/a failed)", "c Completed"}},
		"too long": {"s: {a: {timeout: 100ms, container: {image: i, cmds: [exec sleep 60]}}}", build.Failed,
			[]string{"a TimedOut (it took longer than 100ms)"}},
		"another attempt": {
			"s: {a: {retry: {attempts: 3, backoff: 10ms}, container: {image: i, cmds: ['echo $WAYBILL_ATTEMPT; test " +
				"$WAYBILL_ATTEMPT = 3']}}}", build.Completed, []string{"a Completed"}},
		"no more attempts": {"s: {a: {retry: {attempts: 2, backoff: 10ms}, container: {image: i, cmds: [exit 4]}}}",
			build.Failed, []string{"a Failed (exit status 4)"}},
		"another fault": {
			"s: {a: {retry: {attempts: 2, on: [timeout], backoff: 1h}, container: {image: i, cmds: [exit 4]}}}", build.Failed,
			[]string{"a Failed (exit status 4)"}},
		"needs": {"s: {a: {container: {image: i, cmds: [exit 3]}}, fail-fast: false}\n" +
			"t: {b: {needs: [], container: {image: i, cmds: ['true']}}, c: {needs: [b], container: {image: i, cmds: ['true']}}}", build.Failed,
			[]string{"a Failed (exit status 3)", "b Completed", "c Completed"}},
		"nothing": {"environments: {e: {}}\ns: {environments: [e], a: {container: {image: i, cmds: [x]}}}", build.Skipped, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, r := fresh(t).run(t.Context(), test.file)
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if diff := cmp.Diff(test.each, steps(t, r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCancelEndsStepsAndStartsNothing(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.watch.on = func(printed string) {
		if strings.Contains(printed, "ready") {
			cancel()
		}
	}
	file := script("a", `trap "echo ending; exit 0" TERM; echo ready; while :; do sleep 0.05; done`) +
		"t: {runs-if: always, b: {container: {image: i, cmds: [x]}}}"
	got, r := s.run(ctx, file)
	if got != build.Canceled {
		t.Errorf("%s, want Canceled", got)
	}
	want := []string{"a Canceled (the build was canceled)", "b Canceled (the build was canceled)"}
	if diff := cmp.Diff(want, steps(t, r)); diff != "" {
		t.Error(diff)
	}
	if got := string(printed(t, r, 1, false)); got != "ready\nending\n" {
		t.Errorf("the step printed %q: it must get SIGTERM first", got)
	}
}

func TestAStepThatIgnoresSIGTERMIsKilled(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.timeout, s.grace = 400*time.Millisecond, 300*time.Millisecond
	got, r := s.run(t.Context(), script("a", `trap "" TERM; while :; do sleep 0.05; done`))
	if got != build.TimedOut {
		t.Errorf("%s, want TimedOut: %v", got, steps(t, r))
	}
}

func TestALogThatGrowsTooLargeFailsItsStep(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.logLimit = 1 << 20
	got, r := s.run(t.Context(), script("a", "yes"))
	if got != build.Failed || !strings.Contains(steps(t, r)[0], "LogLimit") {
		t.Errorf("%s: %v", got, steps(t, r))
	}
}

// silent is a runner that reports no phase, so that the end of its step cannot be recorded.
type silent struct{ *command.Runner }

func (silent) Run(context.Context, build.Run, build.Sink) (build.Exit, error) {
	return build.Exit{}, nil
}

func TestAnEndThatCannotBeRecordedEndsTheWorker(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	_, err := s.runWith(t.Context(), worker.Config{Runner: silent{}}, build.PlanStep{})
	if err == nil || !strings.Contains(err.Error(), "Scheduling cannot become Completed") {
		t.Errorf("%v, want that the end was not recorded", err)
	}
}

// brokenRunner has a bug.
type brokenRunner struct{ *command.Runner }

func (brokenRunner) Run(context.Context, build.Run, build.Sink) (build.Exit, error) { panic("oops") }

// roomless is a runner that finds no room for steps.
type roomless struct{ *command.Runner }

func (roomless) Run(ctx context.Context, _ build.Run, s build.Sink) (build.Exit, error) {
	if err := s.Phase(build.Initializing); err != nil {
		return build.Exit{}, err
	}
	<-ctx.Done()
	return build.Exit{}, &build.WaitError{For: "Unschedulable: 1 Insufficient cpu", Err: context.Cause(ctx)}
}

func TestAStepThatNeverBeginsSaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	if _, err := s.runWith(t.Context(), worker.Config{Runner: roomless{}}, build.PlanStep{Timeout: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	r, err := results.Open(s.results)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a TimedOut (it took longer than 1ms; it waited: Unschedulable: 1 Insufficient cpu)"}
	if diff := cmp.Diff(want, steps(t, r)); diff != "" {
		t.Error(diff)
	}
}

func TestABugInTheRunnerFailsTheStep(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	got, err := s.runWith(t.Context(), worker.Config{Runner: brokenRunner{}}, build.PlanStep{})
	if got != build.Failed || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// late is a runner whose first attempt ends when it has to.
type late struct{ *command.Runner }

func (late) Run(ctx context.Context, run build.Run, sink build.Sink) (build.Exit, error) {
	if run.Attempt == 1 {
		<-ctx.Done()
		return build.Exit{}, context.Cause(ctx)
	}
	return build.Exit{}, errors.Join(sink.Phase(build.Initializing), sink.Phase(build.Running))
}

func TestAnAttemptThatTakesTooLongIsRepeated(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.source = worker.Taken{}
	bubbletest.Test(t, func(t *testing.T) {
		retry := &build.Retry{Attempts: 2, On: []build.Fault{build.Timeout}, Backoff: time.Minute}
		began := time.Now()
		got, err := s.runWith(t.Context(), worker.Config{Runner: late{}}, build.PlanStep{Timeout: 10 * time.Minute, Retry: retry})
		if took := time.Since(began); got != build.Completed || err != nil || took != 11*time.Minute {
			t.Errorf("%s after %s, %v", got, took, err)
		}
	})
}

// answers is a runner all of whose attempts end in one way.
type answers struct {
	*command.Runner
	exit build.Exit
	err  error
}

func (a answers) Run(context.Context, build.Run, build.Sink) (build.Exit, error) {
	return a.exit, a.err
}

// TestWhoseFaultAnEndIs: only a fault of a step's platform is attempted again if retry requests it.
func TestWhoseFaultAnEndIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runner answers
		want   string
	}{
		"status": {answers{exit: build.Exit{Code: 137, Reason: "OOMKilled"}}, "a Failed (exit status 137: OOMKilled) attempt 1"},
		"step": {answers{err: fmt.Errorf("begin: %w", &build.StepError{Text: "image not found"})},
			"a Failed (begin: image not found) attempt 1"},
		"engine": {answers{err: errors.New("the Engine is away")}, "a Failed (the Engine is away) attempt 2"},
	} {
		s := fresh(t)
		retry := &build.Retry{Attempts: 2, On: []build.Fault{build.Infrastructure}, Backoff: 1}
		if _, err := s.runWith(t.Context(), worker.Config{Runner: c.runner}, build.PlanStep{Retry: retry}); err != nil {
			t.Fatal(err)
		}
		r, err := results.Open(s.results)
		if err != nil {
			t.Fatal(err)
		}
		last, err := r.Last(1)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s attempt %d", steps(t, r)[0], last.Attempt); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
