package show

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/testresult"
	"github.com/waybill-dev/waybill/internal/token"
)

var rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing")

// TestMain shows times in UTC, wherever the tests run.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// now returns the time at which the golden files show their views.
func now() time.Time { return at(6000) }

// id returns an action's id that ends with a digit.
func id(t *testing.T, last string) action.ID {
	t.Helper()
	made, err := action.ParseID("01a1f866-0d10-7c55-9d3e-5b0c7c1a2f7" + last)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestViews compares each view with testdata/NAME.golden.
func TestViews(t *testing.T) {
	t.Parallel()
	for name, lines := range views(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(lines, "\n") + "\n"
			path := filepath.Join("testdata", name+".golden")
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		})
	}
}

// TestEveryGoldenFileIsOfAView finds the files that a removed or renamed view left behind.
func TestEveryGoldenFileIsOfAView(t *testing.T) {
	t.Parallel()
	known := views(t)
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".golden"); known[name] == nil {
			t.Errorf("%s is of no view", file)
		}
	}
}

// views returns the text of each view, by the name of its golden file.
func views(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, more := range []map[string][]string{actionViews(t), limitViews(), deploymentViews(t), pipelineViews(),
		serviceViews(), editViews(), statusViews(), processViews(), buildViews(), shipViews(), problemViews()} {
		for name, lines := range more {
			if all[name] != nil {
				t.Fatalf("two views are called %s", name)
			}
			all[name] = lines
		}
	}
	return all
}

// notify returns an action of a handler that has made one attempt of three.
func notify(t *testing.T, status action.Status) queue.ActionState {
	t.Helper()
	return queue.ActionState{
		Action: action.Action{ID: id(t, "7"), Kind: "action", Name: "notify", Handler: "notify",
			Lane: "notify/hooks.example.org", Policy: action.Policy{Retries: 2}},
		Thread: action.Thread{Status: status, Spent: 1, Attempt: 1}, EnqueuedAt: at(0),
	}
}

func actionViews(t *testing.T) map[string][]string {
	t.Helper()
	step := notify(t, action.RetriesExhausted)
	step.ID, step.Name = id(t, "8"), ""
	step.Step = &action.StepRef{Pipeline: "greeter", Deployment: 7, Target: "greeter/prod/east/elm", Event: pipeline.HostDeployed}
	step.Thread.Spent, step.Error = 3, "exit 1\nand a very long explanation that continues on the next line"
	long := notify(t, action.Queued)
	long.Name, long.Error = "", strings.Repeat("a reason that is too long ", 5)
	waiting := service.ActionView{ActionState: notify(t, action.Backoff),
		Limit: &queue.Limiter{Key: "notify/hooks.example.org", State: "paused", Bucket: action.Bucket{PausedBy: "ana"}}}
	waiting.Error = "500\nInternal Server Error"
	waiting.Events = []action.Event{
		{Seq: 0, Status: action.Queued, At: at(0)},
		{Seq: 1, Status: action.Running, At: at(10), Attempt: 1, Source: "host-a/42"},
		{Seq: 2, Status: action.Backoff, At: at(20), Attempt: 1, Spent: 1, Error: "500", Until: at(50)},
		{Seq: 3, Status: action.Backoff, At: at(30), Attempt: 1, Spent: 1},
	}
	done := service.ActionView{ActionState: notify(t, action.Successful)}
	done.Output, done.Ref = json.RawMessage(`{"text":"sent to 3 people"}`), "https://flows.example.org/1"
	done.Events = []action.Event{{Seq: 2, Status: action.Successful, At: at(20), Attempt: 2, Spent: 1}}
	done.Children = []service.Child{{ID: id(t, "9"), Kind: "callback", Handler: "archive", Status: action.Running}}
	tick := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	return map[string][]string{
		"actions":        Actions([]queue.ActionState{notify(t, action.Running), step, long}, now()),
		"action-waiting": Action(waiting, now()),
		"action-done":    Action(done, now()),
		"schedules": Schedules([]service.ScheduleView{
			{Name: "nightly", Cron: "0 3 * * *", Timezone: "Europe/Helsinki", Handler: "tidy",
				Last: &service.TickView{At: tick, Status: action.Successful}, Next: []time.Time{tick.AddDate(0, 0, 1), tick.AddDate(0, 0, 2)}},
			{Name: "hourly", Cron: "0 * * * *", Timezone: "UTC", Process: "mirror", Waiting: 2},
		}),
	}
}

func limitViews() map[string][]string {
	lane := func(key, state string, b action.Bucket) queue.Limiter {
		return queue.Limiter{Key: key, State: state, Bucket: b}
	}
	slowed := lane("notify/a", "slowed", action.Bucket{Slowed: 1, SlowedAt: at(100), OK: 3, Bad: 2,
		Reason: "429 Too Many Requests\nslow down"})
	slowed.Rate, slowed.Configured = 0.5, 10
	limits := []queue.Limiter{
		slowed,
		lane("notify/b", "paused", action.Bucket{PausedBy: "ana"}),
		lane("notify/c", "paused", action.Bucket{PausedBy: "ana", PauseUntil: at(9000)}),
		lane("notify/d", "disabled", action.Bucket{DisabledAt: at(50), Reason: "410: the target is gone for good"}),
		lane("notify/e", "open", action.Bucket{}),
	}
	var why []string
	for _, l := range limits {
		why = append(why, whyLane(l, now()))
	}
	return map[string][]string{"limits": Limits(limits, now()), "limits-why": why}
}

func deploymentViews(t *testing.T) map[string][]string {
	t.Helper()
	of := func(number int64, status pipeline.Status, ended time.Time) journal.Deployment {
		return journal.Deployment{Pipeline: "greeter", Number: number, Label: "3f2c9a1", Status: status, Kind: "forward",
			By: "ana", CreatedAt: at(0), EndedAt: ended}
	}
	failed := greeterView()
	failed.State.Status, failed.State.EndedAt, failed.State.Live = pipeline.StatusFailed, at(500), 0
	failed.Failures = []service.Failure{{Target: "greeter/prod/east/fir", Event: pipeline.HostDeployed,
		Action: id(t, "7"), Why: "exit 1\nport in use", Todo: "waybill deployment retry greeter#1"}}
	failed.Stages[1].Groups[0].Hosts[0].Runs = &service.Running{Label: "3f2c9a1", Doubt: service.DoubtUntested}
	nothingFailed := greeterView()
	nothingFailed.State.Status, nothingFailed.State.EndedAt, nothingFailed.State.Live, nothingFailed.Failures = pipeline.StatusFailed, at(
		500), 0, nil
	held := greeterView()
	held.State.Live, held.State.Held, held.State.Resume, held.State.Until = 0, "by ana: checking", "waybill deployment "+
		"resume greeter#1", "beta"
	superseded := greeterView()
	superseded.State.Status, superseded.State.By, superseded.State.EndedAt = pipeline.StatusSuperseded, 2, at(400)
	state := func(target, event string, state pipeline.State, reason, who string) pipeline.StepState {
		return pipeline.StepState{StepKey: pipeline.StepKey{Target: target, Event: event}, State: state, Reason: reason, Who: who}
	}
	entries := []pipeline.Entry{
		entry(0, "greeter", pipeline.Note, pipeline.DeploymentCreated, `{"by":"ana"}`),
		entry(62, "greeter/build", pipeline.Fact, pipeline.ArtifactEvent("amd64"), `{"size":4100000,"digest":"9b1e07d2aa"}`),
		entry(70, "greeter/prod/east/elm", pipeline.Note, pipeline.StepFailed, `{"event":"host-deployed","error":"exit 1\nlong"}`),
		entry(80, "greeter", pipeline.Note, pipeline.HoldSet, `{"by":"ana","reason":"checking"}`),
		{Seq: 5, Pipeline: "greeter", Target: "greeter", Class: pipeline.Note, Event: pipeline.HoldCleared, At: at(90),
			Detail: json.RawMessage(`not json`)},
	}
	var log []string
	for _, e := range entries {
		log = append(log, Entry(e, Style{}, now()))
	}
	return map[string][]string{
		"deployments": Deployments([]journal.Deployment{of(3, pipeline.StatusActive, time.Time{}), of(2, pipeline.StatusFailed, at(300)),
			of(1, pipeline.StatusFinished, at(200)), of(0, pipeline.StatusCanceled, time.Time{})}, Style{}, now()),
		"deployment-active":         Deployment(greeterView(), Style{}, now()),
		"deployment-failed":         Deployment(failed, Style{Colours: true}, now()),
		"deployment-held":           Deployment(held, Style{}, now()),
		"deployment-nothing-failed": Deployment(nothingFailed, Style{}, now()),
		"deployment-superseded":     Deployment(superseded, Style{}, now()),
		"recorded": {
			Recorded(greeterView(), service.Command{Kind: "hold"}, Style{}, now()),
			Recorded(greeterView(), service.Command{Kind: "skip", Target: "greeter/prod/east", Event: "host-deployed"}, Style{}, now()),
		},
		"open-steps": OpenSteps([]pipeline.StepState{
			state("greeter", pipeline.PipelineFinished, pipeline.StateWaiting, "waits for prod", ""),
			state("greeter/prod/east/elm", pipeline.HostDeployed, pipeline.StateWaiting, "1 of 1 hosts in flight", "greeter#1"),
			state("greeter/prod/east/fir", pipeline.HostDeployed, pipeline.StateWaiting, "1 of 1 hosts in flight", "greeter#1"),
			expectedAt(state("greeter/prod", pipeline.StageStarted, pipeline.StateWaiting,
				"batch prod is held by greeter#2 since 14:02 UTC (host-deployed on fir)", "")),
			expectedAt(state("greeter/west", pipeline.StageStarted, pipeline.StateWaiting, "waits for prod stage-finished-successfully", "")),
			state("greeter/prod/east/gum", pipeline.HostDeployed, pipeline.StateFailed, "exit 1\nlong", "waybill deployment retry greeter#1"),
			state("greeter/prod/east/ivy", pipeline.HostDeployed, pipeline.StateExcluded, "excluded: by ana", ""),
			state("greeter/prod/east/oak", pipeline.HostDeployed, pipeline.StateClaimed, "", ""),
		}),
		"entries": log,
	}
}

// expectedAt adds when a step is expected to begin, on a day that has been.
func expectedAt(step pipeline.StepState) pipeline.StepState {
	step.Expected = time.Date(2026, 6, 1, 14, 3, 0, 0, time.UTC)
	return step
}

// leftOn returns a service that the definition no longer has at an address.
func leftOn(address, target string, state *service.Services) service.LeftService {
	return service.LeftService{Address: address,
		ServiceView: service.ServiceView{Target: target, Name: "notes", Runs: &service.Running{Deployment: 1, Label: "3f2c9a1"}, State: state}}
}

// greeterPipeline returns a pipeline with a deployment inside, and hosts to look at.
func greeterPipeline() service.PipelineView {
	return service.PipelineView{
		Name: "greeter", Version: 2,
		Stages: []service.StageView{
			{Name: "build", Current: &service.Standing{Label: "88d0e17", Deployment: 2}},
			{Name: "prod", Inside: []service.Standing{
				{Label: "88d0e17", Deployment: 2, Hosts: 4, HostsDone: 2, Status: pipeline.StatusActive},
				{Label: "3f2c9a1", Deployment: 1, Status: pipeline.StatusFailed}}},
		},
		Active: []pipeline.DeploymentState{{Deployment: 2, Done: 3, Total: 9, WorkDone: 1, Work: 4, Until: "beta", Held: "by ana"},
			{Deployment: 3, Done: 3, Total: 9, WorkDone: 1, Work: 4,
				Approvals: []admission.ApprovalState{{Stage: "prod", Count: 1, By: []string{"ana", "bob"}}}}},
		Freeze: &admission.Freeze{By: "ana", Reason: "holidays"},
		Hosts: []service.HostView{
			{Target: "greeter/prod/east/elm", Runs: &service.Running{Label: "88d0e17", Deployment: 2, Doubt: service.DoubtUntested}},
			{Target: "greeter/prod/east/fir", Service: &service.Services{State: service.ServiceDown}},
			{Target: "greeter/prod/east/gum"},
		},
		Drift: []service.Drift{{Target: "greeter/prod/east/oak", Reason: "has no release yet", CatchUp: true},
			{Target: "greeter/prod/west/yew", Reason: "has lost 88d0e17 of #2", Lost: true, CatchUp: true},
			{Target: "greeter/beta/all/ash", Reason: "runs 3f2c9a1 of #1, not of #2"}},
		Last: &journal.Deployment{Pipeline: "greeter", Number: 2, Label: "88d0e17", Status: pipeline.StatusFailed},
	}
}

// unknownPipeline returns a pipeline whose hosts do not answer, or have other releases than those in the log, under
// names that they did not have when they were deployed.
func unknownPipeline() service.PipelineView {
	view := service.PipelineView{Name: "greeter", Version: 2, Stages: []service.StageView{{Name: "prod"}}}
	for _, name := range []string{"elm", "fir", "gum", "oak"} {
		view.Hosts = append(view.Hosts, service.HostView{Target: "greeter/prod/east/" + name,
			Runs:    &service.Running{Label: "88d0e17", Deployment: 2, Doubt: service.DoubtUntested, Target: "greeter/live/east/" + name},
			Service: &service.Services{State: service.ServiceUnknown, Error: "not seen within 5s"}})
	}
	oak := &view.Hosts[3]
	oak.Service, oak.Found = &service.Services{State: service.ServiceUp}, &service.Found{Release: "3f2c9a1-2c26b46b68ff",
		Instead: oak.Runs.String()}
	view.Hosts = append(view.Hosts, service.HostView{Target: "greeter/prod/east/yew",
		Service: &service.Services{State: service.ServiceUnknown, Error: "not seen within 5s"}})
	view.Drift = []service.Drift{{Target: oak.Target, Reason: "has release 3f2c9a1-2c26b46b68ff, not 88d0e17 of #2"}}
	return view
}

func pipelineViews() map[string][]string {
	pending := admission.ApprovalState{Stage: "prod", Count: 2, Given: []string{"bob"}}
	definition := pipeline.Definition{Pipeline: "greeter", Stages: []pipeline.Stage{{Name: "prod",
		Groups: []pipeline.Group{{Name: "east", Hosts: []pipeline.Host{{Name: "elm"}, {Name: "fir"}}}}}}}
	revision := pipeline.RegisteredRevision{Pipeline: "greeter", Seq: 2, Label: "88d0e17", Commit: "88d0e17aa",
		Subject: "Greet the world", State: "sealed", By: "ana", CreatedAt: at(0),
		Artifacts: []pipeline.RevisionArtifact{{Label: "amd64", Name: "dist/greeter.tar.gz", Size: 4_100_000, Digest: "9b1e07d2aa"}}}
	return map[string][]string{
		"pipelines": Pipelines([]service.PipelineView{greeterPipeline(), {Name: "notes"}}, Style{}),
		"pipeline":  Pipeline(greeterPipeline(), Style{}, now()),
		"pipeline-left": Pipeline(service.PipelineView{Name: "notes", Version: 2, Left: []service.LeftService{
			leftOn("local://oak", "notes/prod/all/oak", &service.Services{State: service.ServiceUp}),
			leftOn("elm.example.net:22", "notes/prod/all/elm", nil),
			leftOn("local://fir", "notes/prod/all/fir", &service.Services{State: service.ServiceStopped})}}, Style{}, now()),
		"pipeline-unknown": Pipeline(unknownPipeline(), Style{}, now()),
		"pipeline-quiet": Pipeline(service.PipelineView{Name: "notes", Version: 1,
			Stages: []service.StageView{{Name: "prod"}}}, Style{}, now()),
		"freeze": {Freeze(service.FreezeView{Pipeline: "greeter",
			Freeze: &admission.Freeze{By: "ana", Reason: "holidays", Until: at(99000)}}, now()),
			Freeze(service.FreezeView{Pipeline: "greeter"}, now())},
		"approval": {Approval(service.ApprovalView{Pipeline: "greeter", Deployment: 2, Revision: "88d0e17", Stage: "prod"}),
			Approval(service.ApprovalView{Pipeline: "greeter", Deployment: 2, Revision: "88d0e17", Stage: "prod", Pending: &pending}),
			Approval(service.ApprovalView{Pipeline: "greeter", Deployment: 2, Revision: "88d0e17", Stage: "prod",
				Rejected: true, Pending: &pending})},
		"versions":  Versions([]journal.Version{{Version: 2, Definition: definition, By: "ana", At: at(0)}, {Version: 1, At: at(0)}}),
		"revisions": Revisions([]pipeline.RegisteredRevision{revision, {Label: "older", State: "open", CreatedAt: at(-999999)}}, Style{}, now()),
		"revision":  Revision(revision, []journal.Deployment{{Pipeline: "greeter", Number: 2, Status: pipeline.StatusActive}}),
	}
}

func editViews() map[string][]string {
	keys := func(n int) (steps []pipeline.StepKey) {
		for range n {
			steps = append(steps, pipeline.StepKey{Deployment: 1, Target: "greeter/prod/east/ivy", Event: pipeline.HostDeployed})
		}
		return steps
	}
	edit := service.EditView{Pipeline: "greeter", Version: 2, Words: []string{"+ host prod/east/ivy",
		"- host prod/east/oak"}, Effects: []pipeline.Effect{
		{Deployment: 4, Added: keys(1), Elided: keys(2), Excluded: keys(3), Removed: keys(4), Drained: keys(5),
			Drifting: []string{"prod/east/oak"}},
		{Deployment: 3, Words: []string{"skips beta", "drains 1 step"}},
		{Deployment: 2},
		{Deployment: 1, Failed: true, Removed: keys(1)},
		{Deployment: 5, Failed: true},
	}}
	return map[string][]string{
		"edit":         Edit(edit, Style{Colours: true}),
		"edit-new":     Edit(service.EditView{Pipeline: "greeter", Version: 1}, Style{}),
		"edit-nothing": Edit(service.EditView{Pipeline: "greeter", Version: 3}, Style{}),
	}
}

func statusViews() map[string][]string {
	busy := service.StatusView{
		Now: now(),
		Troubles: []service.Trouble{
			{Text: "no process serves handler mail, which has 1 live action", Since: at(100), Hint: "start a conductor: waybill up"},
			{Text: "the lane notify is slowed\nby 429", Warning: true},
		},
		Processes: []service.InstanceView{
			{Name: "host-a/1", State: "alive", Guard: "lock", Roles: []string{"conductor", "deployer"}, LeaseEnd: at(6120),
				Since: at(0), Version: "1.2.3"},
			{Name: "host-b/2", State: "draining", Guard: "lease", Roles: []string{"api"}, LeaseEnd: at(5600), Since: at(0),
				Version: "1.2.2", Reload: &queue.Reload{Since: at(10)}},
			{Name: "host-c/3", State: "alive", Guard: "lease", Reload: &queue.Reload{Since: at(10), TriedAt: at(20), Faults: []string{"bad"}}},
		},
		Handlers: []service.HandlerView{{Served: 2, Backlog: queue.Backlog{Handler: "mail", Ready: 3, Oldest: at(5000),
			Counts: map[action.Status]int{action.Queued: 3, action.Running: 1}}}},
		NextDue: at(7000), Rescues: map[string]int{"lease_lost": 2, "died": 1},
	}
	return map[string][]string{
		"status-busy":  Status(busy),
		"status-quiet": Status(service.StatusView{Now: now(), KeepsUp: true}),
	}
}

func processViews() map[string][]string {
	mirror := service.ProcessOffering{ID: "mirror", Version: "2", Title: "Mirror a scene",
		Description: "Copies each asset\nof a scene.", Executed: []string{"sync-execute", "async-execute"},
		Inputs: []service.ValueView{{Name: "payload", Required: true, Schema: map[string]any{"type": "object"}},
			{Name: "mode", Schema: map[string]any{"type": []any{"string", "null"}}}},
		Outputs: []service.ValueView{{Name: "result", Schema: map[string]any{}}}}
	return map[string][]string{
		"processes": Processes([]service.ProcessOffering{mirror, {ID: "tile", Version: "1", Title: "Tile"}}),
		"process":   Process(mirror),
		"tokens": Tokens([]token.Token{
			{Name: "ci", Scopes: []string{"execute", "define"}, CreatedAt: at(0)},
			{Name: "old", Scopes: []string{"read"}, CreatedAt: at(0), ExpiresAt: at(3000)},
			{Name: "short", Scopes: []string{"read"}, CreatedAt: at(0), ExpiresAt: at(9000)},
			{Name: "gone", Scopes: []string{"read"}, CreatedAt: at(0), RevokedAt: at(10)},
		}, now()),
	}
}

// toolPlan returns the plan of a build with the types of steps that run tools.
func toolPlan() *build.Plan {
	return &build.Plan{File: ".wharf-ci.yml", Stages: []build.PlanStage{{Name: "s", RunsIf: build.Success}}, Steps: []build.PlanStep{
		{ID: 1, Stage: "s", Name: "apply", Type: "kubectl",
			Replaces: []build.Replacement{{Path: "deploy/shop.yml", Variables: 2}, {Path: "b.yml", Variables: 1}},
			Spec:     build.Spec{Summary: "apply deploy/shop.yml", Argv: []string{"kubectl", "apply", "--filename", "deploy/my shop.yml"}}},
		{ID: 2, Stage: "s", Name: "pack", Type: "helm-package",
			Spec: build.Spec{Summary: ". to oci://h", Argv: []string{"/bin/sh", "-c", "a\nb", "helm-package", ""}}},
		{ID: 3, Stage: "s", Name: "image", Type: "docker", Spec: build.Spec{Summary: "r/x:t",
			Argv:     []string{"/bin/sh", "-c", "exec \"$0\" \"$@\"", "buildctl"},
			Services: []build.Service{{Name: "db", Image: "postgres:18"}}}},
	}}
}

// testPlan returns the plan of a build with a stage after another.
func testPlan() *build.Plan {
	spec := build.Spec{Image: "golang:1.26", Argv: []string{"/bin/sh", "-ec", "go vet ./...\ngo test ./..."}}
	return &build.Plan{File: ".wharf-ci.yml", Environment: "stage",
		Stages: []build.PlanStage{{Name: "test", RunsIf: build.Success}, {Name: "clean", RunsIf: build.Always}},
		Steps: []build.PlanStep{
			{ID: 1, Stage: "test", Name: "unit", Type: "container", Spec: spec, Timeout: 10 * time.Minute,
				At: fault.Position{File: ".wharf-ci.yml", Line: 3, Column: 5}},
			{ID: 2, Stage: "test", Name: "vet", Type: "container", Spec: spec},
			{ID: 3, Stage: "clean", Name: "up", Type: "container", Spec: spec, After: []int{1, 2}, Timeout: 2 * time.Hour},
		}}
}

// testFiles returns files of every kind: with one failed test, with several, and one that cannot be read.
func testFiles() []build.TestFile {
	many := testresult.Report{Counts: testresult.Counts{Tests: 20, Failed: 12, Flaky: 1, Skipped: 1}}
	for i := range 11 {
		many.Results = append(many.Results, testresult.Result{Name: fmt.Sprintf("test %d", i), Outcome: testresult.Failed,
			Message: "\x1b[31mno\x1b[0m:\nsecond line"})
	}
	many.Results = append(many.Results, testresult.Result{Suite: "shop.Cart", Name: "stores", Outcome: testresult.Flaky, File: "Cart.java"})
	return []build.TestFile{
		{Name: "out/unit.xml", Report: testresult.Report{Counts: testresult.Counts{Tests: 214, Failed: 1}, Results: []testresult.Result{
			{Suite: "shop/cart", Name: "TestCheckout", Outcome: testresult.Failed, Message: "total = 12, want 15",
				File: "cart_test.go", Line: 41}}}},
		{Name: "out/more.xml", Report: many},
		{Name: "out/bad.xml", Problem: &testresult.Error{Line: 17, Text: "unexpected EOF"}},
	}
}

func buildViews() map[string][]string {
	board := newBuildBoard(testPlan(), at(0))
	board.status(1, build.Update{Status: build.Running, Timestamp: at(0)})
	board.output(1, []build.Entry{{Text: []byte("ok  "), Marks: build.Marks{Partial: true}}, {Text: []byte("greeter")},
		{Text: []byte("FAIL"), Marks: build.Marks{Stderr: true}}})
	board.status(2, build.Update{Status: build.Completed, Timestamp: at(19)})
	board.steps[2].tests = []build.TestFile{{Name: "out/vet.xml", Report: testresult.Report{Counts: testresult.Counts{Tests: 7, Skipped: 2}}}}
	running := board.rows(Style{}, at(100), "*", 0)
	board.status(1, build.Update{Status: build.Failed, Reason: "exit status 1\nlook at the log", Timestamp: at(120)})
	board.status(3, build.Update{Status: build.Skipped, Reason: "test failed", Timestamp: at(120)})
	board.steps[1].tests = testFiles()
	document := BuildDocument{
		Tests: map[int][]build.TestFile{1: testFiles()[:1], 2: testFiles()},
		BuildSummary: BuildSummary{ID: "3", Status: build.Failed, Reason: "1 step failed", StartedAt: at(0),
			EndedAt: at(120), Results: "/tmp/3", Steps: 3},
		Plan: testPlan(),
		Updates: map[int][]build.Update{1: {{Status: build.Running, Timestamp: at(0)},
			{Status: build.Failed, Reason: "exit status 1", Timestamp: at(120)}}},
		Artifacts: []build.Artifact{{Name: "dist/greeter", Size: 1000, SHA256: "9b1e07d2aa"}},
	}
	gone := BuildDocument{BuildSummary: BuildSummary{ID: "2", Status: "Lost", Lost: true, StartedAt: at(0),
		Results: "/tmp/2"}, Plan: testPlan(),
		Updates: map[int][]build.Update{1: {{Status: build.Running, Timestamp: at(0)}}, 2: {{Status: build.Completed, Timestamp: at(5)}}}}
	lost := BuildSummary{ID: "2", Status: "Lost", StartedAt: at(-100000), Source: "/srv/other"}
	return map[string][]string{
		"build-plan":       BuildPlan(testPlan()),
		"build-plan-tools": BuildPlan(toolPlan()),
		"build-lost":       Build(gone, "2", Style{}, now()),
		"build-running":    running,
		"build-summary":    board.summary(Style{}, "waybill build log 3", 0),
		"build":            Build(document, "3", Style{}, now()),
		"builds": Builds([]BuildSummary{document.BuildSummary, lost},
			func(path string) string { return strings.TrimPrefix(path, "/srv/") }, now()),
	}
}

func shipViews() map[string][]string {
	ended := func(status pipeline.Status, by int64, reason string) service.DeploymentView {
		v := greeterView()
		v.State.Status, v.State.By, v.State.Reason = status, by, reason
		return v
	}
	errorLines := func(err error) []string {
		return append(strings.Split(err.Error(), "\n"), "try: "+fault.HintOf(err))
	}
	var stopped []string
	for _, v := range []service.DeploymentView{ended(pipeline.StatusCanceled, 0, "by ana: wrong branch"),
		ended(pipeline.StatusCanceled, 0, ""),
		ended(pipeline.StatusSuperseded, 2, ""), ended(pipeline.StatusSuperseded, 0, "a newer one")} {
		stopped = append(stopped, errorLines(Stopped(v))...)
	}
	rolledBack := ended(pipeline.StatusFinished, 0, "")
	rolledBack.State.RolledBackBy = 3
	stopped = append(stopped, errorLines(Replaced(rolledBack, journal.Deployment{Pipeline: "greeter", Number: 3, Label: "88d0e17"}))...)
	failed := ended(pipeline.StatusFailed, 0, "beta failed")
	several := ended(pipeline.StatusFailed, 0, "")
	several.Failures = []service.Failure{{Target: "greeter/prod/east/elm", Event: pipeline.HostDeployed,
		Why: "exit 1\nlong"}, {Target: "greeter/beta", Event: pipeline.HostTested, Why: "503"}}
	one := ended(pipeline.StatusFailed, 0, "")
	one.Failures = several.Failures[1:]
	finished := ended(pipeline.StatusFinished, 0, "")
	finished.State.EndedAt = at(320)
	empty := finished
	empty.Stages = nil
	halfway := ended(pipeline.StatusActive, 0, "")
	halfway.State.Until = "beta"
	held := ended(pipeline.StatusActive, 0, "")
	held.State.Held, held.State.Resume = "by ana", "waybill deployment resume greeter#1"
	work := func(target, event string, start, end time.Duration, unmeasured bool) pipeline.PlanStep {
		return pipeline.PlanStep{StepKey: pipeline.StepKey{Target: target, Event: event}, Start: start * time.Second,
			End: end * time.Second, Unmeasured: unmeasured, Work: true}
	}
	steps := []pipeline.PlanStep{work("greeter/build", pipeline.BuildCompleted, 0, 6, false),
		work("greeter/prod/east/elm", pipeline.HostDeployed, 6, 12, false), work("greeter/prod/east/fir", pipeline.HostDeployed, 12, 12, true)}
	plan := PlanDocument{Pipeline: "greeter", Revision: "3f2c9a1", Todo: TodoShip, Steps: steps, Total: action.Duration(
		12 * time.Second), Edit: &service.EditView{Pipeline: "greeter", Version: 2, Words: []string{"+ host prod/east/fir"}}}
	measured, unmeasured := plan, plan
	measured.Edit, measured.Steps = nil, steps[:2]
	unmeasured.Edit, unmeasured.Steps = nil, steps[2:]
	return map[string][]string{
		"ship-stopped": stopped,
		"ship-failed":  append(append(errorLines(Failed(failed)), errorLines(Failed(one))...), errorLines(Failed(several))...),
		"ship-lines": {Header(held, Style{Colours: true}), InProgress(held), InProgress(halfway),
			Finished(finished, Style{}, 0), Finished(empty, Style{}, 40), Halfway(halfway, Style{})},
		"plan":            ShipPlan(plan, Style{}),
		"plan-measured":   ShipPlan(measured, Style{}),
		"plan-unmeasured": ShipPlan(unmeasured, Style{}),
		"plan-continue":   ShipPlan(PlanDocument{Todo: TodoContinue, Deployment: "greeter#7"}, Style{}),
		"plan-retry":      ShipPlan(PlanDocument{Todo: TodoRetry, Deployment: "greeter#7"}, Style{}),
		"plan-nothing": ShipPlan(PlanDocument{Todo: TodoNothing, Revision: "3f2c9a1", Deployment: "greeter#7",
			Differs: []string{"prod/east/elm has no release yet"}}, Style{}),
		"plan-refused": ShipPlan(PlanDocument{Todo: TodoNothing,
			Refused: Replaced(greeterView(), journal.Deployment{Pipeline: "greeter", Number: 2, Label: "88d0e17"})}, Style{}),
		"plan-edit-nothing": ShipPlan(PlanDocument{Todo: TodoNothing, Edit: &service.EditView{Unchanged: true}}, Style{}),
	}
}

func problemViews() map[string][]string {
	problems := fault.Problems{
		{Position: fault.Position{File: "/srv/waybill.yaml", Line: 2, Column: 3}, Code: "field-unknown",
			Text: "unknown key stagse", Suggestion: "stages"},
		{Position: fault.Position{File: "/srv/waybill.yaml", Line: 9, Column: 1}, Code: "stage-unused",
			Text: "a line that the file lacks", Warning: true},
	}
	shorten := func(path string) string { return strings.TrimPrefix(path, "/srv/") }
	source := func(string) []string { return []string{"pipeline: greeter", "\tstagse: []"} }
	return map[string][]string{"problems": Problems(problems, shorten, nil), "problems-excerpt": Problems(problems, shorten, source)}
}
