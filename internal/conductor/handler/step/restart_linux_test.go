package step

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// restart makes an attempt to restart oak's service, which revision n runs.
func (w *world) restart(ctx context.Context, n int64, id string) action.Outcome {
	w.t.Helper()
	return w.restartAs(ctx, n, id, Restart{})
}

// restartAs makes an attempt at a restart of a kind.
func (w *world) restartAs(ctx context.Context, n int64, id string, r Restart) action.Outcome {
	w.t.Helper()
	d := w.definition()
	at, _ := d.Place("greeter/beta/all/oak")
	a, err := RestartAction(Restart{Pipeline: "greeter", Target: at.Target, Version: 1, Deployment: n, Revision: n,
		Reason: "it is slow", Verify: r.Verify}, at, d.Service, "ana")
	if err != nil {
		w.t.Fatal(err)
	}
	a.ID = actionID(n, id)
	w.mu.Lock()
	w.attempts++
	number := w.attempts
	w.mu.Unlock()
	return Restarter{w.handler}.Do(ctx, conductor.Attempt{Action: a, Number: number})
}

func TestRestartRunsTheSameReleaseAgain(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		before := w.state()
		w.wantOutcome(w.restart(t.Context(), 1, "restart"), action.Done)
		after := w.state()
		if after.Service == 0 || after.Service == before.Service || after.Supervisor == before.Supervisor ||
			after.Running != w.release(1) || after.Restarts != 0 || alive(before.Service) {
			t.Errorf("%+v, then %+v", before, after)
		}
		w.wantOutcome(w.restart(t.Context(), 1, "restart"), action.Done) // the answer to the first attempt was lost
		if again := w.state(); again.Service != after.Service {
			t.Errorf("one action has restarted the service twice: %+v, then %+v", after, again)
		}
		var detail map[string]string
		if len(w.reports) != 2 || w.reports[0].Event != pipeline.ServiceRestarted || w.reports[0].Class != pipeline.Change ||
			w.reports[0].Target != "greeter/beta/all/oak" ||
			json.Unmarshal(w.reports[0].Detail, &detail) != nil || detail["by"] != "ana" || detail["reason"] != "it is slow" ||
			detail["action"] == "" {
			t.Errorf("entries %+v", w.reports)
		}
		if audit := w.read(".waybill/audit"); !strings.Contains(audit, " restart ") || !strings.Contains(audit, "status 0: restarted") {
			t.Errorf("audit %q", audit)
		}
		if out := w.done(1, pipeline.HostDeployed); !out.Already {
			t.Error("the release was switched to again")
		}
	})
}

// TestARestartThatVerifiesBuildsAChangedReleaseBeside: a whole one is only restarted. `${release}` is the folder in use.
func TestARestartThatVerifiesBuildsAChangedReleaseBeside(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.service.Env = map[string]string{"FOLDER": "${release}"}
		w.revise(1, forever)
		w.ship(1)
		before := w.state()
		w.wantOutcome(w.restartAs(t.Context(), 1, "whole", Restart{Verify: true}), action.Done)
		if s := w.state(); s.Release != w.release(1) || s.Service == 0 || s.Service == before.Service {
			t.Errorf("a whole release: %+v, before %+v", s, before)
		}
		words, beside := filepath.Join(w.dir, "releases", w.release(1), "data", "words.txt"), w.release(1)+".2"
		if err := errors.Join(os.Chmod(words, 0o644), os.WriteFile(words, []byte("edited"), 0o644)); err != nil {
			t.Fatal(err)
		}
		o := w.restartAs(t.Context(), 1, "changed", Restart{Verify: true})
		w.wantOutcome(o, action.Done)
		s := w.state()
		if s.Release != beside || s.Running != beside || w.read("current/data/words.txt") != "revision 1\n" ||
			s.Rank != before.Rank || s.Deployment != before.Deployment {
			t.Errorf("a changed release: %+v, before %+v", s, before)
		}
		if !strings.Contains(string(o.Output), beside) || !strings.Contains(string(w.reports[1].Detail), `"release":"`+beside+`"`) {
			t.Errorf("it says %s and %s", o.Output, w.reports[1].Detail)
		}
		if unit := w.read(".waybill/units/" + beside); !strings.Contains(unit, "FOLDER='"+beside+"'") {
			t.Errorf("the unit is %s", unit)
		}
		if out := w.ship(1); !out.Already || out.Release != beside {
			t.Errorf("the next deployment: %+v", out)
		}
		w.revise(2, forever)
		w.ship(2)
		w.wantOutcome(w.restartAs(t.Context(), 1, "late", Restart{Verify: true}), action.Fatal, "not of revision")
	})
}

func TestRestartStartsAServiceThatWasStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.ship(1)
	w.stopAll()
	w.wantOutcome(w.restart(t.Context(), 1, "restart"), action.Done)
	if s := w.state(); s.Service == 0 || s.Running != w.release(1) {
		t.Errorf("%+v", s)
	}
}

// TestRestartOfAServiceThatDoesNotStayUp fails once, with the output. The supervisor keeps trying.
func TestRestartOfAServiceThatDoesNotStayUp(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, `[ ! -f ../../die ] || { echo "no more"; exit 7; }; `+forever)
		w.service.Ready.Within = 20 * w.service.Ready.For
		w.ship(1)
		if err := os.WriteFile(filepath.Join(w.dir, "die"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.wantOutcome(w.restart(t.Context(), 1, "restart"), action.Fatal, "did not stay up", "last exit status 7", "no more")
		w.wantOutcome(w.restart(t.Context(), 1, "restart"), action.Fatal, "did not stay up")
		if len(w.reports) != 2 || !strings.Contains(string(w.reports[0].Detail), "did not stay up") {
			t.Errorf("entries %+v", w.reports)
		}
		if s := w.state(); s.Supervisor == 0 || s.Release != w.release(1) || s.Unfinished {
			t.Errorf("%+v", s)
		}
	})
}

// TestRestartIsRefused where no service of Waybill runs, and where a deployment is in the midst of a switch.
func TestRestartIsRefused(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.wantOutcome(w.restart(t.Context(), 1, "none"), action.Fatal, "nothing was ever deployed")
		if _, err := os.Stat(w.dir); err == nil {
			t.Errorf("%s was made", w.dir)
		}
		w.done(1, pipeline.HostReplicated)
		w.wantOutcome(w.restart(t.Context(), 1, "replicated"), action.Fatal, "no service was deployed")
		w.done(1, pipeline.HostDeployed)
		before := w.state()
		if err := os.WriteFile(filepath.Join(w.dir, ".waybill", "revert"), []byte("armed - - 1-1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.wantOutcome(w.restart(t.Context(), 1, "open"), action.Fatal, "a switch on the host is not final yet")
		if after := w.state(); after.Service != before.Service {
			t.Errorf("the service was restarted: %+v, then %+v", before, after)
		}
		if err := os.Remove(filepath.Join(w.dir, ".waybill", "revert")); err != nil {
			t.Fatal(err)
		}
		w.service.Manager = "none"
		w.revise(2, forever)
		w.ship(2)
		w.wantOutcome(w.restart(t.Context(), 2, "unmanaged"), action.Fatal, "no service was deployed")
		if len(w.reports) != 0 {
			t.Errorf("entries %+v", w.reports)
		}
	})
}

// TestRestartWaitsForTheChecksOfReady: they pass, or the restart has failed.
func TestRestartWaitsForTheChecksOfReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.ship(1)
	w.service.Ready.Within = 60 * w.service.Ready.For
	w.service.Ready.Checks = []pipeline.Check{{Run: []string{"sh", "-c", "echo not yet; exit 1"}}}
	w.wantOutcome(w.restart(t.Context(), 1, "bad"), action.Fatal, "not yet")
	w.service.Ready.Within, w.service.Ready.Checks = 100*w.service.Ready.For, []pipeline.Check{{Run: []string{"true"}}}
	w.wantOutcome(w.restart(t.Context(), 1, "good"), action.Done)
}
