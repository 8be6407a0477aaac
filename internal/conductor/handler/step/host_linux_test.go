package step

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func (w *world) wantOutcome(o action.Outcome, kind action.OutcomeKind, words ...string) {
	w.t.Helper()
	if o.Kind != kind {
		w.t.Errorf("outcome %s (%s: %s), want %s", o.Kind, o.Code, o.Error, kind)
	}
	for _, word := range words {
		if !strings.Contains(o.Error, word) {
			w.t.Errorf("error %q does not say %q", o.Error, word)
		}
	}
}

func TestFenceRefusesOlderDeploymentsAndForeignLedgers(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.revise(2, forever+"; # two")
		w.ship(1)
		w.ship(2)
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Fatal, "greeter#2 was here")
		w.handler.config.LedgerID = "ledger-2"
		w.wantOutcome(w.do(t.Context(), 2, pipeline.HostDeployed), action.Fatal, "greeter#2 of another ledger was here",
			"waybill pipeline trust --take-over")
		if s := w.state(); s.Release != w.release(2) || s.Ledger != "ledger-1" {
			t.Errorf("%+v", s)
		}
		w.handler.config.LedgerID = "ledger-1" // this ledger may stop it
	})
}

// TestADeploymentOfSomethingElseIsNoted: a log that was restored, or a copy of the home, passes over deployments of
// another Waybill, and reports that once.
func TestADeploymentOfSomethingElseIsNoted(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(2, forever)
		w.revise(3, forever+"; # three")
		w.revise(5, "exit 3")
		w.ship(2)
		w.parameters = json.RawMessage(`{"fence":3,"former":2}`)
		if out := w.done(3, pipeline.HostReplicated); out.Text != "" {
			t.Errorf("after what the log did last: %q", out.Text)
		}
		const want = "greeter#3 deployed to host oak last, and this log expected #1 at most: another Waybill"
		w.era = 1 // since a restore, before which the log had given 3
		w.parameters = json.RawMessage(`{"fence":2,"former":1}`)
		if out := w.done(2, pipeline.HostReplicated); !strings.HasPrefix(out.Text, want) {
			t.Errorf("after what another Waybill did: %q", out.Text)
		}
		if out := w.done(2, pipeline.HostDeployed); strings.Contains(out.Text, "another Waybill") {
			t.Errorf("it is said again: %q", out.Text)
		}
		w.parameters = json.RawMessage(`{"fence":5,"former":1}`)
		w.service.Ready.Within = action.Duration(time.Second)
		w.reports = nil
		w.wantOutcome(w.do(t.Context(), 5, pipeline.HostDeployed), action.Retry, "did not stay up")
		if !slices.ContainsFunc(w.reports, func(e pipeline.Entry) bool {
			return strings.Contains(string(e.Detail), "greeter#2 deployed to host oak last, and this log expected #1")
		}) {
			t.Errorf("the attempt fails, and notes %+v", w.reports)
		}
	})
}

// TestReleasesThatFailAreNotKept: keep.releases counts those that the host went back from, though none that works follows.
func TestReleasesThatFailAreNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.ship(1)
	w.service.Ready.Within = action.Duration(time.Second)
	for n := int64(2); n <= 5; n++ {
		w.revise(n, "exit "+strconv.FormatInt(n, 10))
		w.done(n, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), n, pipeline.HostDeployed), action.Retry, "did not stay up")
	}
	releases, err := os.ReadDir(filepath.Join(w.dir, "releases"))
	if most := w.definition().Keep.Releases + 1; err != nil || len(releases) > most { // 1 for the last that failed
		t.Errorf("%d releases are on the host, %v; want at most %d", len(releases), err, most)
	}
	w.wantRuns(1)
}

// TestATakenOverHostFollowsItsNewLog, from its first deployment on, and refuses the old one. A service that runs
// there runs on.
func TestATakenOverHostFollowsItsNewLog(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		for n := int64(1); n <= 3; n++ {
			w.revise(n, forever+" #"+strings.Repeat("x", int(n)))
		}
		w.ship(3)
		before := w.state()
		d := w.definition()
		at, _ := d.Place("greeter/beta/all/oak")
		if err := w.handler.config.TakeOver(t.Context(), at, "greeter", "ledger-2", "ana"); err != nil {
			t.Fatal(err)
		}
		if s := w.state(); s.Ledger != "ledger-2" || s.Rank != 0 || s.Service != before.Service || s.Running != before.Running {
			t.Errorf("%+v, before %+v", s, before)
		}
		w.wantOutcome(w.do(t.Context(), 3, pipeline.HostDeployed), action.Fatal, "taken over by ana of another ledger was here")
		w.wantOutcome(w.restart(t.Context(), 3, "restart"), action.Fatal,
			"taken over by ana of another pipeline or ledger was here", "--take-over")
		if s := w.state(); s.Service != before.Service {
			t.Errorf("the old log has restarted the service: %+v, before %+v", s, before)
		}
		w.handler.config.LedgerID = "ledger-2"
		w.ship(1)
		if s := w.state(); s.Deployment != "greeter#1" || s.Running != w.release(1) || s.Rank != 1 {
			t.Errorf("after the first deployment of the new log: %+v", s)
		}
		if got := w.read(".waybill/audit"); !strings.Contains(got, " adopt ") ||
			!strings.Contains(got, " status 0: taken over (taken over by ana)\n") {
			t.Errorf("audit %q", got)
		}
	})
}

func TestServiceThatDiesIsTakenBack(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.service.Ready.Within = action.Duration(4 * time.Second)
		w.revise(1, `echo "listen on :80: address already in use"; exit 3`)
		w.done(1, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Retry,
			"did not stay up", "last exit status 3", "nothing ran there before", "address already in use", "end the program that holds the port")
		if s := w.state(); s.Release != "" || s.Service != 0 || s.Supervisor != 0 || s.Unfinished {
			t.Errorf("a first release is stopped: %+v", s)
		}
		w.revise(2, forever)
		w.ship(2)
		w.revise(3, "exit 4")
		w.done(3, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), 3, pipeline.HostDeployed), action.Retry, "went back to "+w.release(2))
		until(t, "the service of #2 is up again", func() bool { return w.state().Service != 0 })
		if s := w.state(); s.Release != w.release(2) || s.Running != w.release(2) || s.Previous != "" || s.Unfinished {
			t.Errorf("after the revert: %+v", s)
		}
	})
}

func TestServiceThatDiesIsTakenBackBeforeItsAttemptEnds(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.timeout, w.service.Ready.Within = 20*time.Second, action.Duration(time.Minute)
		w.revise(1, "echo out of memory; exit 3")
		w.done(1, pipeline.HostReplicated)
		ctx, cancel := context.WithTimeout(t.Context(), w.timeout)
		defer cancel()
		w.wantOutcome(w.do(ctx, 1, pipeline.HostDeployed), action.Retry, "did not stay up", "out of memory")
	})
}

// TestABusyHostTakesNoLongerThanReadyAllows: ready.within is time and not a number of naps.
func TestABusyHostTakesNoLongerThanReadyAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t)) // a busybox has a sleep of its own
	slow := t.TempDir()
	if err := os.WriteFile(filepath.Join(slow, "sleep"), []byte("#!/bin/sh\nexec /bin/sleep 0.5\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	w.handler.config.Env = []string{"PATH=" + slow + ":" + strings.TrimPrefix(w.handler.config.Env[0], "PATH=")}
	w.timeout, w.service.Ready.Within = time.Minute, action.Duration(3*time.Minute)
	w.revise(1, "echo out of memory; exit 3")
	w.done(1, pipeline.HostReplicated)
	ctx, cancel := context.WithTimeout(t.Context(), w.timeout)
	defer cancel()
	w.wantOutcome(w.do(ctx, 1, pipeline.HostDeployed), action.Retry, "did not stay up", "out of memory")
}

// TestABusyHostKeepsAServiceThatIsUp: a nap that outlasts most of ready.within counts as time of the service, too.
func TestABusyHostKeepsAServiceThatIsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	slow := t.TempDir()
	if err := os.WriteFile(filepath.Join(slow, "sleep"), []byte("#!/bin/sh\nexec /bin/sleep 3\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	w.handler.config.Env = []string{"PATH=" + slow + ":" + strings.TrimPrefix(w.handler.config.Env[0], "PATH=")}
	w.service.Ready = pipeline.Ready{For: action.Duration(4 * time.Second), Within: action.Duration(5 * time.Second)}
	w.revise(1, forever)
	w.ship(1)
}

func TestChangedServiceThatDiesGetsItsFormerUnitBack(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, `[ "$1" = oak ] || exit 5; `+forever)
		w.ship(1)
		former := w.read(".waybill/units/" + w.release(1))
		w.service.Exec = []string{"./greeter", "elm"}
		w.service.Ready.Within = action.Duration(4 * time.Second)
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Retry, "last exit status 5", "went back to "+w.release(1))
		if got := w.read(".waybill/units/" + w.release(1)); got != former {
			t.Errorf("unit %q, want %q", got, former)
		}
		until(t, "the service is up again", func() bool { return w.state().Service != 0 })
	})
}

func TestSupervisorRestartsAndOutlivesItsCaller(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, `[ -f ../../die ] && rm ../../die && exit 9; while :; do sleep 0.1; [ -f ../../die ] && exit 9; done`)
		w.ship(1)
		first := w.state()
		if err := os.WriteFile(filepath.Join(w.dir, "die"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		until(t, "a restart", func() bool { s := w.state(); return s.Restarts > 1 && s.Service != 0 })
		second := w.state()
		if second.Service == first.Service || second.Supervisor != first.Supervisor {
			t.Errorf("%+v, then %+v", first, second)
		}
		if err := syscall.Kill(second.Supervisor, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "the supervisor is gone", func() bool { return w.state().Supervisor == 0 })
		if !alive(second.Service) {
			t.Error("the service died with its supervisor")
		}
		w.revise(2, forever)
		w.ship(2)
		until(t, "the orphan ends", func() bool { return !alive(second.Service) })
		w.stopAll()
		if s := w.state(); s.Supervisor != 0 || s.Service != 0 || s.Release != w.release(2) {
			t.Errorf("after stop: %+v", s)
		}
		if out := w.done(2, pipeline.HostDeployed); out.Already {
			t.Error("a stopped service is started again")
		}
	})
}

func TestStopEndsWhatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, `trap "" TERM; while :; do sleep 1; done`)
	w.ship(1)
	service := w.state().Service
	w.stopAll()
	if alive(service) {
		t.Error("the service lives")
	}
}

func TestStopIsNotedOnTheHostAndInTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.ship(1)
	if got, err := w.stop(); err != nil || len(got) != 1 || got[0].Kind != action.Done {
		t.Fatalf("stop: %+v, %v", got, err)
	}
	if got, err := w.stop(); err != nil || len(got) != 0 {
		t.Errorf("there is more to stop: %+v, %v", got, err)
	}
	if len(w.reports) != 1 || w.reports[0].Event != pipeline.ServiceStopped || w.reports[0].Class != pipeline.Change ||
		w.reports[0].Target != "greeter/beta/all/oak" ||
		!strings.Contains(string(w.reports[0].Detail), `"by":"ana"`) {
		t.Errorf("entries %+v", w.reports)
	}
	if got := w.read(".waybill/audit"); !strings.Contains(got, " stop ") || !strings.Contains(got, "status 0: stopped") {
		t.Errorf("audit %q", got)
	}
	d := w.definition()
	w.ship(1)
	stops, err := Stops(t.Context(), w.home, w.handler.config.LedgerID, d.Pipeline, InstalledBy(&d), "ana")
	if err != nil || len(stops) != 1 {
		t.Fatal(stops, err)
	}
	elsewhere := Stopper{Home: t.TempDir(), LedgerID: w.handler.config.LedgerID, Log: w}.Do(t.Context(),
		conductor.Attempt{Action: stops[0], Number: 1})
	w.wantOutcome(elsewhere, action.Throttle, "the service is on", "and this is")
}

// TestWhatAnotherDeployedIsNotStopped by a pipeline that has, or had, the same folder, nor restarted by it.
func TestWhatAnotherDeployedIsNotStopped(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		before := w.state()
		d := w.definition()
		d.Stages[0].Groups[0].Hosts[0].URL = "local://oak" // an ssh host has its folder there as well
		for name, other := range map[string]struct{ ledger, pipeline string }{"another pipeline": {"ledger-1", "greet"},
			"another log": {"ledger-2", "greeter"}} {
			services := InstalledBy(&d)
			if stops, err := Stops(t.Context(), w.home, other.ledger, other.pipeline, services, "ana"); len(stops) != 0 ||
				!fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), "is of greeter#1") {
				t.Errorf("%s: %+v, %v", name, stops, err)
			}
			services[0].Left = true
			if stops, err := Stops(t.Context(), w.home, other.ledger, other.pipeline, services, "ana"); len(stops) != 0 || err != nil {
				t.Errorf("%s has left it: %+v, %v", name, stops, err)
			}
			place, err := Place(w.home)
			if err != nil {
				t.Fatal(err)
			}
			stop, err := stopOf(Stop{Pipeline: other.pipeline, Target: other.pipeline + "/beta/all/oak", Folder: w.dir, Machine: place}, "ana")
			if err != nil {
				t.Fatal(err)
			}
			got := Stopper{Home: w.home, LedgerID: other.ledger, Log: w}.Do(t.Context(), conductor.Attempt{Action: stop, Number: 1})
			w.wantOutcome(got, action.Fatal, "greeter#1 of another pipeline or ledger was here")
			if exit, out := w.verb(true, "restart", "", "action=1", "attempt=1", "ledger="+other.ledger,
				"name="+other.pipeline); exit != exitFenced {
				t.Errorf("%s: restart ends with %d: %s", name, exit, out)
			}
		}
		if after := w.state(); after.Service != before.Service || after.Supervisor != before.Supervisor || len(w.reports) != 0 {
			t.Errorf("%+v, then %+v; noted %+v", before, after, w.reports)
		}
	})
}

// TestTheFenceNamesTheLastPipeline also where two pipelines have come to the same number.
func TestTheFenceNamesTheLastPipeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.ship(1)
	if exit, out := w.verb(true, "run", "", append(w.identity(1, "other", 1), "name=other#1", "--", "true")...); exit != 0 {
		t.Fatalf("run ends with %d: %s", exit, out)
	}
	if s := w.state(); s.Deployment != "other#1" || s.Rank != 1 {
		t.Errorf("%+v", s)
	}
	w.done(1, pipeline.HostReplicated) // the service is its own again
}

func TestEditedReleaseIsReplicatedAnew(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		words := filepath.Join(w.dir, "releases", w.release(1), "data", "words.txt")
		for _, damage := range []func() error{
			func() error { return os.Remove(words) },
			func() error { return errors.Join(os.Chmod(words, 0o644), os.WriteFile(words, []byte("edited"), 0o644)) }, // and cas with it
			func() error { return os.Chmod(words, 0o755) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			if out := w.done(1, pipeline.HostReplicated); out.Already {
				t.Error("the damage was not seen")
			}
			if got := w.read("releases/" + w.release(1) + "/data/words.txt"); got != "revision 1\n" {
				t.Errorf("content %q", got)
			}
		}
	})
}

func TestOnlyWhatIsMissingIsSent(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		large := strings.Repeat("x", 1<<20)
		w.register(1, "a.tar.gz", pack(t, map[string]string{"greeter*": "one", "large": large}))
		w.register(2, "a.tar.gz", pack(t, map[string]string{"greeter*": "two", "large": large, "copy": "two", "with space": large}))
		w.done(1, pipeline.HostReplicated)
		if out := w.done(2, pipeline.HostReplicated); out.Sent != 6 {
			t.Errorf("sent %d bytes, want 6", out.Sent)
		}
		if got := w.read("releases/" + w.release(2) + "/with space"); got != large {
			t.Error("a file is not what it was")
		}
		info, err := os.Stat(filepath.Join(w.dir, "releases", w.release(2), "greeter"))
		if err != nil || info.Mode().Perm() != 0o555 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	})
}

func TestOwnStepIsNotRunAgainWhenItsAnswerGotLost(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.own = []pipeline.Step{{Name: "warm", Event: "host-warm", Run: []string{"sh", "-c", "echo warmed >>../../shared/count; exit 0"}}}
		w.revise(1, forever)
		w.ship(1)
		w.done(1, "host-warm")
		w.done(1, "host-warm")
		if got := w.read("shared/count"); got != "warmed\n" {
			t.Errorf("ran as %q", got)
		}
	})
}

func TestOwnStepsSayHowTheyFailed(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		for status, kind := range map[string]action.OutcomeKind{"1": action.Retry, "75": action.Throttle, "78": action.Fatal} {
			event := "host-s" + status
			w.own = append(w.own, pipeline.Step{Name: "s" + status, Event: event, Run: []string{"sh", "-c", "echo because >&2; exit " + status}})
			w.revise(1, forever)
			w.done(1, pipeline.HostReplicated)
			w.wantOutcome(w.do(t.Context(), 1, event), kind, "exit status "+status, "because")
		}
	})
}

func TestOwnStepIsEndedAtItsLimit(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.own = []pipeline.Step{{Name: "slow", Event: "host-slow", Run: []string{"sleep", "300"},
			Policy: action.Policy{AttemptTimeout: action.Duration(3 * time.Second)}}}
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), 1, "host-slow"), action.Retry, "sleep on host oak was ended after 1s, by attemptTimeout (")
	})
}

func TestHooksSecretsAndSharedFolders(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		secret := "it's $HOME \"quoted\" `too`\nand two lines"
		if err := os.WriteFile(filepath.Join(filepath.Dir(w.home), "password"), []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.service.Secrets = map[string]string{"PASSWORD": "password"}
		w.service.Shared = []string{"state", "deep/er"}
		w.service.Before = []string{"sh", "-c", "echo before >>../../shared/state/hooks"}
		w.service.After = []string{"sh", "-c", "echo after >>../../shared/state/hooks"}
		w.revise(1, `printf %s "$PASSWORD" >state/got; echo x >deep/er/y; `+forever)
		w.done(1, pipeline.HostReplicated)
		w.done(1, pipeline.HostDeployed)
		until(t, "the service wrote", func() bool { return w.read("shared/deep/er/y") != "" })
		if got := w.read("shared/state/got"); got != secret {
			t.Errorf("secret %q, want %q", got, secret)
		}
		if got := w.read("shared/state/hooks"); got != "before\nafter\n" {
			t.Errorf("hooks %q", got)
		}
		info, err := os.Stat(filepath.Join(w.dir, ".waybill", "units", w.release(1)))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("unit: %v, %v", info.Mode(), err)
		}
		if err := os.Remove(filepath.Join(filepath.Dir(w.home), "password")); err != nil {
			t.Fatal(err)
		}
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Fatal, "read secret PASSWORD", "write the secret to")
	})
}

// TestEnvReachesTheServiceAsItIs: special characters in a value are kept. Hooks do not get the variables, nor does an own step without env.
func TestEnvReachesTheServiceAsItIs(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		value := "it's $HOME \"quoted\" `too` \\ ; & | * ~ #\n\ttwo lines, caf\u00e9\n"
		w.service.Env = map[string]string{"TEXT": value, "EMPTY": "", "WHERE": "on ${host} with ${revision}", "IFS": "x", "action": "1"}
		w.service.Shared = []string{"state"}
		w.service.Before = []string{"sh", "-c", `echo "hook $${TEXT-unset}" >>../../shared/state/others`}
		w.own = []pipeline.Step{{Name: "warm", Event: "host-warm",
			Run: []string{"sh", "-c", `echo "step $${TEXT-unset}" >>../../shared/state/others`}}}
		w.revise(1, `printf %s "$TEXT" >state/text; printf %s "${EMPTY-unset}" >state/empty; printf %s "$WHERE" >state/where; `+forever)
		w.ship(1)
		w.done(1, "host-warm")
		until(t, "the service wrote", func() bool { return w.read("shared/state/where") != "" })
		for file, want := range map[string]string{"text": value, "empty": "", "where": "on oak with r1", "others": "hook unset\nstep unset\n"} {
			if got := w.read("shared/state/" + file); got != want {
				t.Errorf("%s: %q, want %q", file, got, want)
			}
		}
	})
}

// TestChangedEnvRestartsTheService, and the same env does not.
func TestChangedEnvRestartsTheService(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.service.Env = map[string]string{"LEVEL": "info"}
		w.service.Shared = []string{"state"}
		w.revise(1, `echo "$LEVEL" >>state/levels; `+forever)
		w.ship(1)
		if again := w.done(1, pipeline.HostDeployed); !again.Already {
			t.Errorf("the same env: %+v", again)
		}
		w.service.Env = map[string]string{"LEVEL": "debug"}
		if changed := w.done(1, pipeline.HostDeployed); changed.Already {
			t.Errorf("another env: %+v", changed)
		}
		until(t, "the service started again", func() bool { return w.read("shared/state/levels") == "info\ndebug\n" })
	})
}

// TestEnvWithAZeroByteIsFatal: only a variable can bring it there.
func TestEnvWithAZeroByteIsFatal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.service.Env = map[string]string{"A": "x\x00"}
	w.revise(1, forever)
	w.done(1, pipeline.HostReplicated)
	w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Fatal, "env A has a zero byte")
}

func TestOldReleasesGo(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		for n := int64(1); n <= 5; n++ {
			w.revise(n, forever+" #"+strings.Repeat("x", int(n)))
			w.ship(n)
		}
		left, err := os.ReadDir(filepath.Join(w.dir, "releases"))
		if err != nil || len(left) != 3 {
			t.Errorf("%d releases (%v), want 3: %v", len(left), err, left)
		}
		contents, err := os.ReadDir(filepath.Join(w.dir, "cas"))
		if err != nil || len(contents) != 6 {
			t.Errorf("%d contents (%v), want 6", len(contents), err)
		}
	})
}

func TestFilesOnlyNeedNoService(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.service = pipeline.Service{Name: "greeter", Manager: "none", Restart: "restart"}
		w.register(1, "dist/page.html", []byte("<p>hello"))
		w.ship(1)
		if got := w.read("current/page.html"); got != "<p>hello" {
			t.Errorf("got %q", got)
		}
		if s := w.state(); s.Service != 0 || s.Release != w.release(1) {
			t.Errorf("%+v", s)
		}
	})
}

// noted returns how many entries attempts have noted.
func (w *world) noted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.reports)
}

func TestEndOfTheContextSaysWhatBecomesOfTheAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.done(1, pipeline.HostReplicated)
	w.test = []pipeline.Check{{TCP: "127.0.0.1:1", Timeout: action.Duration(time.Second)}}
	for cause, kind := range map[error]action.OutcomeKind{conductor.ErrShutdown: action.GivenBack, conductor.ErrCanceled: action.Stopped,
		conductor.ErrAttemptTimeout: action.Retry} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		w.wantOutcome(w.do(ctx, 1, pipeline.HostTested), kind)
		w.wantOutcome(w.do(ctx, 1, pipeline.HostDeployed), kind)
	}
}

// A log that was restored from a backup counts its deployments, and the attempts at its actions,
// again from where the backup ends.
func TestHostFollowsARestoredLog(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		for n := int64(1); n <= 3; n++ {
			w.revise(n, forever+" #"+strings.Repeat("x", int(n)))
			w.ship(n)
		}
		w.era, w.attempts = 1, 0
		w.ship(2)
		if s := w.state(); s.Release != w.release(2) || s.Running != w.release(2) || s.Deployment != "greeter#2" {
			t.Errorf("after the restore: %+v", s)
		}
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostReplicated), action.Fatal, "greeter#2 was here",
			"restored from an older backup", ".waybill/fence")
		w.era = 0 // an instance that still has the log as it was
		w.wantOutcome(w.do(t.Context(), 3, pipeline.HostDeployed), action.Fatal, "greeter#2 was here")
	})
}

// TestWhatAServiceStartedInSessionsOfItsOwnEndsWithIt: it would hold the lock, and maybe the port, of the next release.
func TestWhatAServiceStartedInSessionsOfItsOwnEndsWithIt(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		away := func() int {
			pid, _ := strconv.Atoi(strings.TrimSpace(w.read("away"))) // 0 is not alive
			return pid
		}
		w.revise(1, `setsid sleep 600 & echo $! >../../away; `+forever)
		w.revise(2, `setsid sleep 600 & echo $! >../../away; sleep 2; exit 3`)
		w.ship(1)
		first := away()
		w.ship(2)
		if alive(first) {
			t.Error("what the first release had started still runs")
		}
		second := away()
		until(t, "it is restarted", func() bool { return w.state().Restarts > 0 && away() != second })
		if alive(second) {
			t.Error("what the service left behind when it ended still runs")
		}
	})
}
