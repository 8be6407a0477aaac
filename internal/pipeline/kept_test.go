package pipeline

import (
	"slices"
	"testing"
)

// worksUnder returns the definition version of each action of a decision, as "host event version".
func (w *world) worksUnder() map[string]int {
	w.t.Helper()
	under := map[string]int{}
	for _, work := range w.decide().Work {
		under[work.Target+" "+work.Event] = work.Version
	}
	return under
}

// retested returns greeter with another test, or with another and longer retries.
func retested(path string, retries int) Definition {
	d := greeter()
	for i := range d.Stages {
		d.Stages[i].Test = []Check{{HTTP: path}}
		for k := range d.Stages[i].Chain {
			d.Stages[i].Chain[k].Policy.Retries = retries
		}
	}
	return d
}

// TestR26AnEventKeepsItsVersion: beta tested the revision by the old test, so prod does too; a step that nothing claimed has the new
// version, and retries are those in force.
func TestR26AnEventKeepsItsVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, retested("/old", 1))
	w.create(1, 1)
	for _, k := range []StepKey{{1, "greeter/build", BuildCompleted}, {1, "greeter/beta/all/oak", HostReplicated},
		{1, "greeter/beta/all/oak", HostDeployed}} {
		w.decide()
		w.done(k)
	}
	w.decide() // claims oak's test
	next := retested("/new", 7)
	edit := w.engine.Edit(2, compiled(t, next), w.newest(), w.now)
	if want := []string{"keeps host-deployment-tested of definition 1"}; len(edit.Effects) != 1 || !slices.Equal(edit.Effects[0].Words, want) {
		t.Errorf("the edit says %+v, want %q", edit.Effects, want)
	}
	w.define(next)
	w.done(StepKey{1, "greeter/beta/all/oak", HostTested})
	for _, k := range []StepKey{{1, "greeter/prod/east/elm", HostReplicated}, {1, "greeter/prod/east/elm", HostDeployed}} {
		w.decide()
		w.done(k)
	}
	d := w.decide()
	i := slices.IndexFunc(d.Work, func(x Work) bool { return x.Event == HostTested })
	if i < 0 {
		t.Fatalf("no test in %+v", d.Work)
	}
	if x := d.Work[i]; x.Version != 1 || x.Stage.Test[0].HTTP != "/old" || x.Step.Policy.Retries != 7 {
		t.Errorf("elm is tested under definition %d by %q with %d retries, want 1, /old and 7", x.Version,
			x.Stage.Test[0].HTTP, x.Step.Policy.Retries)
	}
}

// TestR26ARetryTakesTheNewVersion: a test that was mended reaches a retry.
func TestR26ARetryTakesTheNewVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, retested("/old", 1))
	w.create(1, 1)
	for _, k := range []StepKey{{1, "greeter/build", BuildCompleted}, {1, "greeter/beta/all/oak", HostReplicated},
		{1, "greeter/beta/all/oak", HostDeployed}} {
		w.decide()
		w.done(k)
	}
	w.decide()
	w.fold(Entry{Deployment: 1, Target: "greeter/beta/all/oak", Event: StepFailed, Class: Note, Detail: raw(StepDetail{Event: HostTested})})
	w.decide()
	w.define(retested("/new", 1))
	w.fold(Entry{Deployment: 1, Target: "greeter/beta/all/oak", Event: RetryRequested, Class: Note, Detail: raw(StepDetail{})})
	if got := w.worksUnder(); got["greeter/beta/all/oak host-deployment-tested"] != 2 {
		t.Errorf("claims %v, want the test under definition 2", got)
	}
}

// TestR26AnotherComputerHasTheNewVersion: a version's settings of one computer do not hold for another of the same
// name, and a stage that it lacks has the settings of the one in force.
func TestR26AnotherComputerHasTheNewVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, retested("/old", 1))
	w.create(1, 1)
	for _, k := range []StepKey{{1, "greeter/build", BuildCompleted}, {1, "greeter/beta/all/oak", HostReplicated}} {
		w.decide()
		w.done(k)
	}
	w.decide()
	next := retested("/new", 1)
	next.Stages[2].Groups[0].Hosts[0].URL = "local://other"
	next.Stages[2].Groups[0].MaxParallel = Limit{N: 2}
	w.define(next)
	w.done(StepKey{1, "greeter/beta/all/oak", HostDeployed})
	w.decide()
	w.done(StepKey{1, "greeter/beta/all/oak", HostTested})
	got := w.worksUnder()
	if got["greeter/prod/east/elm host-artifact-replicated"] != 2 || got["greeter/prod/east/fir host-artifact-replicated"] != 1 {
		t.Errorf("claims %v, want elm, which is another computer now, under 2, and fir under 1", got)
	}
}

// TestVersionsThatNothingIsOnAreForgotten: an engine lives for months, and a pipeline may be edited every hour. Of
// four versions the first has the test that the deployment has claimed, the last is in force, and nothing requests
// versions 2 and 3.
func TestVersionsThatNothingIsOnAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, retested("/old", 1))
	w.create(1, 1)
	for _, k := range []StepKey{{1, "greeter/build", BuildCompleted}, {1, "greeter/beta/all/oak", HostReplicated}} {
		w.decide()
		w.done(k)
	}
	w.decide()
	for range 3 {
		w.define(retested("/new", 1))
	}
	for version, want := range []bool{1: true, 2: false, 3: false, 4: true} {
		if got := w.engine.HasVersion(version); got != want {
			t.Errorf("the engine has version %d: %t, want %t", version, got, want)
		}
	}
	if got := len(w.engine.numbers.graphs); got != 2 {
		t.Errorf("the engine has the numbers of %d graphs, want 2", got)
	}
}
