package show

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/service"
)

// at returns a moment of the tests' deployment, in tenths of seconds after its start.
func at(tenths int) time.Time {
	return time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC).Add(time.Duration(tenths) * 100 * time.Millisecond)
}

func stepRun(event, word string, state pipeline.State, start, end int) service.StepRun {
	run := service.StepRun{StepState: pipeline.StepState{State: state}, Name: service.StepName(event), Word: word}
	run.Event = event
	if start >= 0 {
		run.StartedAt = at(start)
	}
	if end >= 0 {
		run.EndedAt = at(end)
	}
	return run
}

// hostRun returns a host with its chain: done steps first, then one that runs when running is set.
func hostRun(name string, state service.RunState, steps ...service.StepRun) service.HostRun {
	return service.HostRun{Name: name, Run: service.Run{Target: "greeter/prod/east/" + name, State: state}, Steps: steps}
}

// greeterView returns a deployment in the middle: built, beta through, elm finished, fir deploying again, gum waiting.
func greeterView() service.DeploymentView {
	built := stepRun(pipeline.BuildCompleted, "built", pipeline.StateComplete, 0, 62)
	received := stepRun(pipeline.ArtifactEvent("amd64"), "received", pipeline.StateComplete, -1, 62)
	received.Artifact = &pipeline.RevisionArtifact{Label: "amd64", Size: 4_100_000, Digest: "9b1e07d2aa"}
	again := stepRun(pipeline.HostDeployed, "tries again", pipeline.StateClaimed, 70, -1)
	again.Status, again.Attempt, again.Attempts, again.Spent = action.Backoff, 1, 3, 1
	again.RunAt, again.Error = at(120), "exit 1\nmore"
	gum := hostRun("gum", service.RunWaiting)
	gum.Reason = "1 of 1 hosts in flight"
	view := service.DeploymentView{
		Deployment: journal.Deployment{Pipeline: "greeter", Number: 1, Label: "3f2c9a1", CreatedAt: at(0)},
		State:      pipeline.DeploymentState{Status: pipeline.StatusActive, Version: 1, Done: 12, Total: 36, WorkDone: 4, Work: 13, Live: 1},
		Now:        at(100),
		Stages: []service.StageRun{
			{Name: "build", Kind: pipeline.BuildStage, Run: service.Run{State: service.RunFinished}, Steps: []service.StepRun{built, received}},
			{Name: "prod", Kind: pipeline.HostStage, Run: service.Run{
				State: service.RunRunning}, Groups: []service.GroupRun{{Name: "east", Hosts: []service.HostRun{
				hostRun("elm", service.RunFinished, stepRun(pipeline.HostReplicated, "replicated", pipeline.StateComplete, 62, 64),
					stepRun(pipeline.HostDeployed, "deployed", pipeline.StateComplete, 64, 70)),
				hostRun("fir", service.RunRunning, stepRun(pipeline.HostReplicated, "replicated", pipeline.StateComplete, 68, 70), again),
				gum,
			}}}},
		},
	}
	return view
}

func TestBoardShowsEveryRowInDefinitionOrder(t *testing.T) {
	t.Parallel()
	got := strings.Join(layout{}.render(boardLines(greeterView())), "\n")
	want := `  build  amd64     received     4.1 MB sha256:9b1e07d2           6.2s
  prod   east/elm  finished     replicated 0.2s deployed 0.6s
         east/fir  tries again  replicated 0.2s attempt 1 of 3 failed: exit 1 …; again in 2.0s  3.0s
         east/gum  waiting      1 of 1 hosts in flight`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("board (-want +got):\n%s", diff)
	}
}

func TestBoardTellsAttemptsThatWereCutOffFromThoseThatFailed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attempt, spent int
		want           string
	}{
		{1, 1, "attempt 1 of 3 failed: exit 1"},
		{1, 0, "attempt 1 was cut off and does not count: exit 1"},
		{3, 2, "attempt 3 failed, 2 of 3 counted: exit 1"},
	} {
		step := stepRun(pipeline.HostDeployed, "tries again", pipeline.StateClaimed, 70, -1)
		step.Attempt, step.Spent, step.Attempts, step.Error = c.attempt, c.spent, 3, "exit 1"
		if got := failedAttempt(step, c.attempt, at(100)); got != c.want {
			t.Errorf("attempt %d, %d spent: got %q, want %q", c.attempt, c.spent, got, c.want)
		}
	}
}

func TestBoardNeverGetsWiderThanTheTerminal(t *testing.T) {
	t.Parallel()
	for columns := 20; columns < 120; columns += 7 {
		for _, text := range (layout{Style: Style{Colours: true}, columns: columns}).render(boardLines(greeterView())) {
			if width := printedWidth(text); width > columns {
				t.Errorf("%d columns wide on a terminal of %d: %q", width, columns, text)
			}
		}
	}
}

// manyLines returns a stage of n hosts: some finished, one failed, some running, the rest waiting.
func manyLines(n int) []line {
	var lines []line
	for i := range n {
		state := service.RunWaiting
		switch {
		case i < n/2:
			state = service.RunFinished
		case i == n/2:
			state = service.RunFailed
		case i < n/2+4:
			state = service.RunRunning
		}
		lines = append(lines, line{stage: "prod", name: "h", state: state, word: string(state)})
	}
	return lines
}

func TestBoardFitsTheScreenAndKeepsWhatMatters(t *testing.T) {
	t.Parallel()
	done := []line{{stage: "beta", name: "a", state: service.RunFinished}, {stage: "beta", name: "b", state: service.RunFinished}}
	lines := append(done, manyLines(100)...)
	got := squeeze(lines, 12)
	if len(got) > 12 {
		t.Fatalf("%d rows on a screen of 12", len(got))
	}
	counts := map[service.RunState]int{}
	for _, row := range got {
		counts[row.state]++
	}
	if counts[service.RunFailed] != 1 || counts[service.RunRunning] != 3 {
		t.Errorf("kept %v, want the failed one and the three that run", counts)
	}
	if last := got[len(got)-1]; !strings.Contains(last.detail, "finished") || !strings.Contains(last.detail, "waiting") {
		t.Errorf("the last row counts %q, want what was left out", last.detail)
	}
	if few := squeeze(done, 12); len(few) != 2 {
		t.Errorf("a board that fits was changed: %v", few)
	}
}

func TestCutCountsColumnsNotBytes(t *testing.T) {
	t.Parallel()
	s := Style{Colours: true}
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"short", 10, "short"},
		{"exactly ten", 11, "exactly ten"},
		{"a long line", 6, "a lon…"},
		{s.good("finished") + " rest", 10, s.good("finished") + " …"},
		{"ääääää", 4, "äää…"},
	} {
		if got := cut(c.text, c.columns); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}

func TestWaitingForNamesTheFirstReasonWhenNothingRuns(t *testing.T) {
	t.Parallel()
	v := greeterView()
	if got := waitingText(waitingFor(v)); got != "" {
		t.Errorf("while a step is live it waits for nothing, got %q", got)
	}
	v.State.Live = 0
	if got, want := waitingText(waitingFor(v)), "1 of 1 hosts in flight"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	v.State.Held, v.State.Resume = `by ana: "checking"`, "waybill deployment resume notes#7"
	if got, want := waitingText(waitingFor(v)), `held by ana: "checking" (waybill deployment resume notes#7)`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A promotion is live while a person has to merge its pull request, so it is not a step that runs.
func TestWaitingForNamesWhatALonePromotionWaitsFor(t *testing.T) {
	t.Parallel()
	env := promotions.EnvironmentView{Reasons: []promotions.ReasonView{{Code: promotion.WhyWaitingMerge, Message: "pull request 41 is open"}}}
	v := service.DeploymentView{Stages: []service.StageRun{{Environment: &env,
		Steps: []service.StepRun{stepRun(pipeline.EnvPromoted, "promoting", pipeline.StateClaimed, 0, -1)}}}}
	v.State.Status, v.State.Live = pipeline.StatusActive, 1
	if got, _ := waitingFor(v); got != "pull request 41 is open" {
		t.Errorf("got %q", got)
	}
	v.State.Live = 2
	if got, _ := waitingFor(v); got != "" {
		t.Errorf("beside a step of a host it waits for nothing, got %q", got)
	}
}

func TestHostRowSeparatesWhatIsLeftOutFromTheReason(t *testing.T) {
	t.Parallel()
	out := func(name string) service.StepRun {
		return service.StepRun{StepState: pipeline.StepState{State: pipeline.StateExcluded}, Name: name}
	}
	for _, c := range []struct {
		state service.RunState
		steps []service.StepRun
		want  string
	}{
		{service.RunWaiting, []service.StepRun{out("warm")}, "warm left out; 1 of 1 hosts in flight"},
		{service.RunWaiting, nil, "1 of 1 hosts in flight"},
		{service.RunStopped, []service.StepRun{out("warm"), out("test")}, "warm, test left out"},
		{service.RunSkipped, []service.StepRun{out("deploy"), out("test")}, "1 of 1 hosts in flight"},
	} {
		host := service.HostRun{Name: "oak", Run: service.Run{State: c.state, Reason: "1 of 1 hosts in flight"}, Steps: c.steps}
		if got := hostLine(service.StageRun{}, service.GroupRun{}, host, time.Time{}).detail; got != c.want {
			t.Errorf("a host that is %s, with %d steps left out: %q, want %q", c.state, len(c.steps), got, c.want)
		}
	}
}
