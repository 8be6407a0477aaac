package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
)

// workUntilDone ends all work as it comes.
func (w *world) workUntilDone() {
	w.t.Helper()
	for d := w.decide(); len(d.Work) > 0; d = w.decide() {
		for _, work := range d.Work {
			w.done(work.StepKey)
		}
	}
}

// took returns the duration of a step in these tests.
func took(k StepKey) time.Duration {
	return map[string]time.Duration{BuildCompleted: 6 * time.Second, HostDeployed: 6 * time.Second, HostTested: time.Second}[k.Event]
}

func aMinute(StepKey) time.Duration { return time.Minute }

// simulate runs a scenario at noon on a copy of a world's log.
func (w *world) simulate(x Scenario) Schedule {
	w.t.Helper()
	x.Now = noon
	found, err := w.engine.Simulate(x)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// when returns when a step of a deployment ends.
func (s Schedule) when(t *testing.T, deployment int64, target, event string) time.Duration {
	t.Helper()
	i := slices.IndexFunc(s.Steps, func(p PlanStep) bool { return p.StepKey == StepKey{deployment, target, event} })
	if i < 0 {
		t.Fatalf("%s %s of %d is not in the schedule", target, event, deployment)
	}
	return s.Steps[i].End
}

// TestSimulateRunsOnVirtualTime: build 6 s; beta 7 s; prod: elm, then fir, beside yew.
func TestSimulateRunsOnVirtualTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, greeter())
	s := w.simulate(Scenario{Revision: 1, Duration: took})
	if len(s.Steps) != 36 {
		t.Fatalf("%d steps, want 36", len(s.Steps))
	}
	for target, want := range map[string]time.Duration{"greeter/beta/all/oak": 13 * time.Second, "greeter/prod/east/elm": 20 * time.Second,
		"greeter/prod/west/yew": 20 * time.Second, "greeter/prod/east/fir": 27 * time.Second} {
		if got := s.when(t, 1, target, HostFinished); got != want {
			t.Errorf("%s finishes at %s, want %s", target, got, want)
		}
	}
	want := []ExpectedEnd{{Deployment: 1, Label: "1", Status: StatusFinished, At: 27 * time.Second}}
	if !slices.Equal(s.Ends, want) {
		t.Errorf("ends %+v, want %+v", s.Ends, want)
	}
	var critical []string
	for _, step := range s.Steps {
		if step.Critical && step.End > step.Start {
			critical = append(critical, strings.TrimPrefix(step.Target, "greeter/"))
		}
	}
	path := []string{"build", "beta/all/oak", "beta/all/oak", "prod/east/elm", "prod/east/elm", "prod/east/fir", "prod/east/fir"}
	if !slices.Equal(critical, path) {
		t.Errorf("the critical path is %q, want %q", critical, path)
	}
}

// TestCriticalPathHasNothingThatTakesNoTime: such as the steps that were never measured, of which a first plan of 10,000
// hosts has 30,000 at one moment; the path leads through them without reading each again for every other.
func TestCriticalPathHasNothingThatTakesNoTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, greeter())
	s := w.simulate(Scenario{Revision: 1, Duration: func(k StepKey) time.Duration {
		if k.Event == HostDeployed {
			return 0
		}
		return took(k)
	}})
	critical := 0
	for _, step := range s.Steps {
		if step.Critical && step.End == step.Start {
			t.Errorf("%s %s takes no time and is critical", step.Target, step.Event)
		}
		if step.Critical {
			critical++
		}
	}
	if critical == 0 {
		t.Error("nothing is critical")
	}
}

// TestSimulateMeetsWindowsAndApprovals: a plan waits for the opening of a window, and takes approvals as given.
func TestSimulateMeetsWindowsAndApprovals(t *testing.T) {
	t.Parallel()
	d := greeter()
	d.Stages[2].Windows = []admission.Window{{Kind: cron.Allow, Schedule: "0 15 * * *", Duration: action.Duration(time.Hour), Timezone: "UTC"}}
	d.Stages[2].Approval = &admission.Approval{Count: 2, By: []string{"ana", "bob"}}
	want := map[string]string{"greeter/prod stage-started": "approval 0 of 2; window opens Mon 15:00 UTC",
		"greeter/prod/east/elm host-started": ""}
	found := 0
	for _, s := range newWorld(t, d).simulate(Scenario{Revision: 1, Duration: aMinute}).Steps {
		reason, known := want[s.Target+" "+s.Event]
		if !known {
			continue
		}
		found++
		if s.Start != time.Hour || s.Reason != reason {
			t.Errorf("%s %s starts at %s, %q, want 1h, %q", s.Target, s.Event, s.Start, s.Reason, reason)
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d starts", found, len(want))
	}
	d.Stages[2].Approval = &admission.Approval{Count: 3, By: []string{"ana", "group:ops"}}
	if s := newWorld(t, d).simulate(Scenario{Revision: 1, Duration: aMinute}); len(s.Ends) != 1 || s.Ends[0].Status != StatusFinished {
		t.Errorf("approved by people of a group: ends %+v", s.Ends)
	}
	d.Stages[2].Approval = &admission.Approval{Count: 1, By: []string{"ana", "bob"}}
	w := newWorld(t, d)
	w.fold(Entry{Deployment: 1, Target: "greeter", Event: DeploymentCreated, Class: Note, Revision: 1,
		Detail: raw(createdDetail{RegisteredBy: "ana"})})
	if s := w.simulate(Scenario{Revision: 2, Duration: aMinute, After: 3 * time.Hour}); len(s.Ends) != 2 ||
		s.Ends[0].Status != StatusFinished {
		t.Errorf("registered by one of those who may approve: ends %+v", s.Ends)
	}
	d.Stages[2].Windows[0] = admission.Window{Kind: cron.Deny, Schedule: "* * * * *", Duration: action.Duration(time.Hour), Timezone: "UTC"}
	s := newWorld(t, d).simulate(Scenario{Revision: 1, Duration: aMinute})
	if len(s.Ends) != 1 || s.Ends[0].Status != StatusActive || !strings.HasPrefix(s.Ends[0].Reason, "no window opens within 81 days") {
		t.Errorf("a window that never opens: ends %+v", s.Ends)
	}
}

// TestSimulateBeginsWithWhatIsUnderWay: a live action has run since its claim, and the new deployment waits for the batch.
func TestSimulateBeginsWithWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, greeter())
	w.now = noon.Add(-6 * time.Second)
	w.create(1, 1)
	w.decide()
	w.done(StepKey{1, "greeter/build", BuildCompleted}) // a second later
	w.decide()
	w.done(StepKey{1, "greeter/beta/all/oak", HostReplicated}) // likewise; the pass then deploys to oak
	w.decide()
	s := w.simulate(Scenario{Revision: 2, Duration: took})
	if got := s.when(t, 1, "greeter/beta/all/oak", HostDeployed); got != 2*time.Second {
		t.Errorf("oak is deployed after %s, want 2s: 4 of 6 have passed", got)
	}
	if got := s.when(t, 2, "greeter/beta/all/oak", HostStarted); got != 6*time.Second {
		t.Errorf("deployment 2 starts oak at %s, want 6s: when it is built", got)
	}
	if len(s.Ends) != 2 || s.Ends[0].Status != StatusFinished || s.Ends[1].Status != StatusFinished || s.Ends[0].At >= s.Ends[1].At {
		t.Errorf("ends %+v", s.Ends)
	}
}

// TestSimulateAFailure: the group's limit, what the policy does, and which deployment enters next.
func TestSimulateAFailure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		policy func(*Definition)
		want   string // what follows, without the steps
	}{
		{"release", func(*Definition) {}, "elm deployed fails; prod the stage fails; the deployment fails; 1 failed"},
		{"hold", func(d *Definition) { d.Stages[2].OnFailure = Hold },
			"elm deployed fails; prod the stage fails; the deployment fails; 1 failed"},
		{"tolerated", func(d *Definition) { d.Stages[2].Groups[0].MaxFailed = Limit{N: 1} },
			"elm deployed fails; elm the failure is tolerated; 1 finished"},
	} {
		d := greeter()
		test.policy(&d)
		s := newWorld(t, d).simulate(Scenario{Revision: 1, Duration: took, Fail: []Failing{{Target: "greeter/prod/east/elm"}}})
		var said []string
		for _, step := range s.Steps {
			at := step.Target[strings.LastIndex(step.Target, "/")+1:]
			switch {
			case step.Failed:
				said = append(said, at+" "+strings.TrimPrefix(step.Event, "host-")+" fails")
			case step.Reason != "":
				said = append(said, strings.TrimPrefix(at+" "+step.Reason, "greeter "))
			}
		}
		for _, end := range s.Ends {
			said = append(said, fmt.Sprint(end.Deployment, " ", end.Status))
		}
		if got := strings.Join(said, "; "); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestSimulateARollback: after a failure the revision before comes back, in the same schedule.
func TestSimulateARollback(t *testing.T) {
	t.Parallel()
	d := greeter()
	d.Stages[2].OnFailure = RollBack
	w := newWorld(t, d)
	w.create(1, 1)
	w.workUntilDone()
	s := w.simulate(Scenario{Revision: 2, Label: "r2", Duration: took, Fail: []Failing{{Target: "greeter/prod/east/elm", Event: HostTested}}})
	if len(s.Ends) != 2 || s.Ends[0].Status != StatusFailed || s.Ends[1].Status != StatusFinished || s.Ends[1].Label != "1" {
		t.Errorf("ends %+v, want 2 failed and 3, of revision 1, finished", s.Ends)
	}
	if i := slices.IndexFunc(s.Steps, func(p PlanStep) bool { return p.Reason == "rollback to 1" && p.Deployment == 3 }); i < 0 {
		t.Errorf("the rollback is not in the schedule: %+v", s.Steps)
	}
	if i := slices.IndexFunc(s.Steps, func(p PlanStep) bool { return p.Event == RevisionRejected }); i < 0 || s.Steps[i].Deployment != 2 {
		t.Errorf("the rejection does not name deployment 2, whose revision it is: %+v", s.Steps)
	}
}

// TestSimulateARollbackBeforeTheDeployment: a rollback that begins before the scenario's deployment is created is reported too.
func TestSimulateARollbackBeforeTheDeployment(t *testing.T) {
	t.Parallel()
	d := greeter()
	d.Stages[1].OnFailure = RollBack
	w := newWorld(t, d)
	w.create(1, 1)
	w.workUntilDone()
	w.create(2, 2)
	w.decide()
	w.done(StepKey{2, "greeter/build", BuildCompleted})
	w.decide()
	w.done(StepKey{2, "greeter/beta/all/oak", HostReplicated})
	w.decide()
	w.fold(Entry{Deployment: 2, Target: "greeter/beta/all/oak", Event: StepFailed, Class: Note, Detail: raw(StepDetail{Event: HostDeployed})})
	s := w.simulate(Scenario{Revision: 3, Label: "r3", Duration: took, After: time.Hour})
	var got []string
	for _, end := range s.Ends {
		got = append(got, fmt.Sprint(end.Deployment, " ", end.Status))
	}
	if want := "2 failed; 3 finished; 4 finished"; strings.Join(got, "; ") != want || s.Deployment != 4 {
		t.Errorf("deployment %d, ends %s, want %s", s.Deployment, strings.Join(got, "; "), want)
	}
}

// TestSimulateSaysWhereItStops: a stage is held by a failure, so the next deployment goes no further than its build.
// Without a revision nothing is created, and an approval is not taken for granted.
func TestSimulateOnlyWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	d := greeter()
	d.Stages[2].Approval = &admission.Approval{Count: 1}
	w := newWorld(t, d)
	w.create(1, 1)
	s := w.simulate(Scenario{Duration: took})
	if s.Deployment != 0 || len(s.Ends) != 1 || s.Ends[0].Status != StatusActive {
		t.Errorf("created %d, ends %+v", s.Deployment, s.Ends)
	}
	if got := s.when(t, 1, "greeter/beta", StageFinished); got != 13*time.Second {
		t.Errorf("beta ends after %s", got)
	}
	broken := errors.New("stopped")
	turns := 0
	_, err := newWorld(t, greeter()).engine.Simulate(Scenario{Now: noon, Revision: 1, Duration: took, Stop: func() error {
		if turns++; turns > 2 {
			return broken
		}
		return nil
	}})
	if !errors.Is(err, broken) || turns != 3 {
		t.Errorf("%v after %d turns", err, turns)
	}
}

func TestSimulateSaysWhereItStops(t *testing.T) {
	t.Parallel()
	d := greeter()
	d.Stages[1].OnFailure = Hold
	w := newWorld(t, d)
	w.create(1, 1)
	w.decide()
	w.done(StepKey{1, "greeter/build", BuildCompleted})
	w.decide()
	w.fold(Entry{Deployment: 1, Target: "greeter/beta/all/oak", Event: StepFailed, Class: Note,
		Detail: raw(StepDetail{Event: HostReplicated})})
	w.decide()
	s := w.simulate(Scenario{Revision: 2, Duration: took, After: time.Minute})
	if len(s.Ends) != 1 || s.Ends[0].Status != StatusActive || !strings.HasPrefix(s.Ends[0].Reason, "batch beta is held by greeter#1") {
		t.Errorf("ends %+v", s.Ends)
	}
	if got := s.when(t, 2, "greeter/build", BuildCompleted); got != time.Minute+6*time.Second {
		t.Errorf("built at %s, want 1m6s", got)
	}
}
