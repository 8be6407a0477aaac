package step

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// listens returns a check that a port answers.
func listens(address string) []pipeline.Check {
	return []pipeline.Check{{TCP: address, Timeout: action.Duration(time.Second)}}
}

// closedPort returns an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// wantRuns waits until a release is current and runs, and no switch is open.
func (w *world) wantRuns(n int64) {
	w.t.Helper()
	until(w.t, "release "+w.release(n)+" runs", func() bool {
		s := w.state()
		return s.Release == w.release(n) && s.Running == w.release(n) && s.Service != 0 && !s.Unfinished
	})
}

// TestASwitchIsFinalOnceItsChecksPass: a port that opens late is waited for; one that stays closed takes the host back.
func TestASwitchIsFinalOnceItsChecksPass(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		address := closedPort(t)
		w.service.Ready.Checks, w.service.Ready.Within = listens(address), action.Duration(3*time.Second)
		w.revise(2, forever+"; # two")
		w.done(2, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), 2, pipeline.HostDeployed), action.Retry, "does not accept "+address,
			"went back to "+w.release(1), "I am oak")
		w.wantRuns(1)
		opened := time.AfterFunc(time.Second, func() {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = l.Close() })
		})
		defer opened.Stop()
		w.service.Ready.Within = action.Duration(20 * time.Second)
		if out := w.done(2, pipeline.HostDeployed); out.Already {
			t.Errorf("%+v", out)
		}
		w.wantRuns(2)
		if out := w.done(2, pipeline.HostDeployed); !out.Already {
			t.Errorf("once more: %+v", out)
		}
	})
}

// TestAHostThatIsLeftAloneGoesBack: the caller is gone before it has confirmed. The next attempt learns of it, and the one
// after that tries again.
func TestAHostThatIsLeftAloneGoesBack(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		w.service.Ready.Checks = listens(closedPort(t))
		w.service.Confirm, w.service.ConfirmSet = action.Duration(8*time.Second), true
		w.revise(2, forever+"; # two")
		w.done(2, pipeline.HostReplicated)
		w.leave(2)
		if s := w.state(); s.Running != w.release(2) || !s.Unfinished {
			t.Errorf("left alone: %+v", s)
		}
		w.wantRuns(1)
		w.service.Ready.Checks = nil
		w.wantOutcome(w.do(t.Context(), 2, pipeline.HostDeployed), action.Retry, "reverted by the host: not confirmed within 8 seconds")
		w.service.Confirm = action.Duration(time.Minute)
		w.done(2, pipeline.HostDeployed)
		w.wantRuns(2)
	})
}

// TestADeadlineTakesTheHostBack: the time is over while the release starts, or while its checks are tried. No attempt
// follows that would finish the switch, so the host goes back before the attempt ends. A switch that is final by then
// stays.
func TestADeadlineTakesTheHostBack(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		w.revise(2, forever+"; # two")
		w.done(2, pipeline.HostReplicated)
		w.service.Ready.For, w.service.Ready.Within = action.Duration(40*time.Second), action.Duration(2*time.Minute)
		w.wantOutcome(w.cut(2, true, fmt.Errorf("%w (deadline: 6s)", conductor.ErrDeadline)), action.Retry, "deadline: 6s",
			"the host went back to "+w.release(1))
		w.wantRuns(1)
		w.service.Ready = pipeline.Ready{Within: action.Duration(2 * time.Minute), Checks: listens(closedPort(t))}
		w.wantOutcome(w.cut(2, false, conductor.ErrAttemptTimeout), action.Retry, "does not accept", "the host went back to "+w.release(1))
		w.wantRuns(1)
		w.service.Ready.Checks = nil
		w.done(2, pipeline.HostDeployed)
		answer, err := w.call(2, "withdraw")
		if err != nil || answer.first("state") != "final" {
			t.Errorf("withdrawn once it was final: %v %v", answer, err)
		}
		w.wantRuns(2)
	})
}

// TestAHostThatGoesBackBeforeItsSupervisorRuns: a busy host starts the supervisor of the new release late, and that of the former
// one later still. Only the former release runs then.
func TestAHostThatGoesBackBeforeItsSupervisorRuns(t *testing.T) {
	t.Parallel()
	tools := t.TempDir()
	w := newWorld(t, tools+":/usr/bin:/bin")
	w.revise(1, forever)
	w.ship(1)
	w.revise(2, forever+"; # two")
	w.done(2, pipeline.HostReplicated)
	busy := filepath.Join(tools, "busy")
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in
*" supervise release=%s "*) while [ -e %[2]s ]; do sleep 0.05; done ;;
*" supervise "*) sleep 2 ;;
esac
exec /usr/bin/setsid "$@"
`, w.release(2), busy)
	if err := errors.Join(os.WriteFile(busy, nil, 0o600), os.WriteFile(filepath.Join(tools, "setsid"), []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	ctx, cut := context.WithCancelCause(t.Context())
	defer cut(nil)
	ended := make(chan action.Outcome, 1)
	go func() { ended <- w.do(ctx, 2, pipeline.HostDeployed) }()
	until(t, "the switch is made", func() bool { return w.state().Release == w.release(2) })
	cut(fmt.Errorf("%w (deadline: 6s)", conductor.ErrDeadline))
	var asked time.Time
	until(t, "the host goes back, or waits for its supervisor", func() bool {
		if asked.IsZero() && w.read(".waybill/withdrawn") != "" {
			asked = time.Now()
		}
		return w.state().Release == w.release(1) || !asked.IsZero() && time.Since(asked) > time.Second
	})
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	w.wantOutcome(<-ended, action.Retry, "deadline: 6s") // a slow host goes back after the attempt has ended
	w.wantRuns(1)
}

// TestALimitThatReadyDoesNotFitIntoSwitchesNothing: the service would be ended twice for a release that cannot become ready in time.
func TestALimitThatReadyDoesNotFitIntoSwitchesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "/usr/bin:/bin")
	w.revise(1, forever)
	w.ship(1)
	before := w.state()
	w.revise(2, forever+"; # two")
	w.done(2, pipeline.HostReplicated)
	w.service.Ready.For, w.service.Ready.Within = action.Duration(20*time.Minute), action.Duration(time.Hour)
	w.wantOutcome(w.do(t.Context(), 2, pipeline.HostDeployed), action.Retry,
		"nothing was switched: ready.for is 1200.0 s, and 4", "s are left", "attemptTimeout (1m0s)")
	if now := w.state(); now.Service != before.Service || now.Unfinished {
		t.Errorf("the host had %+v and has %+v", before, now)
	}
	w.wantRuns(1)
}

// TestAHostThatCannotBeAskedIsNamed: the entry reports that it is not known what runs, and what the host does on its
// own.
func TestAHostThatCannotBeAskedIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "/usr/bin:/bin")
	w.revise(1, forever)
	w.done(1, pipeline.HostReplicated)
	w.url = "ssh://waybill@" + closedPort(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(conductor.ErrDeadline)
	w.wantOutcome(w.do(ctx, 1, pipeline.HostDeployed), action.Retry, "cannot be asked to go back", "reach host oak",
		"does so by itself within 50s")
}

// cut makes an attempt to deploy whose context ends with a cause once the release's service is started, and the host
// waits for it or no longer does.
func (w *world) cut(n int64, busy bool, cause error) action.Outcome {
	w.t.Helper()
	ctx, cut := context.WithCancelCause(w.t.Context())
	defer cut(nil)
	ended := make(chan action.Outcome, 1)
	go func() { ended <- w.do(ctx, n, pipeline.HostDeployed) }()
	until(w.t, "the switch is made", func() bool { s := w.state(); return s.Running == w.release(n) && s.Service != 0 && s.Busy == busy })
	cut(cause)
	return <-ended
}

// call has the host run a verb for the deployment of a revision.
func (w *world) call(n int64, verb string) (report, error) {
	w.t.Helper()
	a := conductor.Attempt{Number: w.attempts, Action: action.Action{ID: actionID(n, pipeline.HostDeployed), Handler: "step",
		Step: &action.StepRef{Pipeline: "greeter", Deployment: n, Target: "greeter/beta/all/oak",
			Event: pipeline.HostDeployed, Revision: n, Version: 1}}}
	attempt, err := w.handler.load(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	return attempt.program().call(w.t.Context(), nil, verb, attempt.common(w.t.Context())...)
}

// leave makes an attempt to deploy whose caller goes away once the service runs. On a slow host the attempt may have failed by then.
func (w *world) leave(n int64) {
	w.t.Helper()
	ctx, cut := context.WithCancelCause(w.t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.do(ctx, n, pipeline.HostDeployed)
	}()
	until(w.t, "the switch is made", func() bool {
		select {
		case <-gone:
			return true
		default:
		}
		s := w.state()
		return s.Running == w.release(n) && s.Service != 0 && !s.Busy
	})
	cut(errors.New("gone"))
	<-gone
}

// TestAnOpenSwitchIsTakenUp: an attempt finds the switch of one that was cut off, tries the checks and confirms. The timer
// of the first one does nothing then.
func TestAnOpenSwitchIsTakenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.service.Ready.Checks = listens(closedPort(t))
	w.service.Confirm, w.service.ConfirmSet = action.Duration(20*time.Second), true
	w.done(1, pipeline.HostReplicated)
	w.leave(1)
	first := w.state()
	w.service.Ready.Checks = nil
	w.done(1, pipeline.HostDeployed)
	until(t, "the timers end", func() bool { return w.timers() == 0 })
	w.wantRuns(1)
	if s := w.state(); s.Service != first.Service {
		t.Errorf("the service was restarted: %+v", s)
	}
}

// timers counts the processes that would take the host back.
func (w *world) timers() (n int) {
	for _, verb := range w.verbs() {
		if verb == "await" {
			n++
		}
	}
	return n
}

// TestAFirstReleaseThatIsNotConfirmedIsStopped: there is nothing to go back to.
func TestAFirstReleaseThatIsNotConfirmedIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.service.Ready.Checks = listens(closedPort(t))
	w.service.Confirm, w.service.ConfirmSet = action.Duration(2*time.Second), true
	w.done(1, pipeline.HostReplicated)
	w.leave(1)
	until(t, "the service ends", func() bool { s := w.state(); return s.Service == 0 && s.Supervisor == 0 && s.Release == "" })
}
