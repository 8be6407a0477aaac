package cli

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/token"
)

// commandRuns is every command that asks the log, with the least it needs.
func commandRuns(id action.ID) map[string]func(ctx context.Context, f *fake, o *clitest.Output) error {
	ref := server.Ref{Pipeline: "greeter", Number: 7}
	return map[string]func(ctx context.Context, f *fake, o *clitest.Output) error{
		"action list": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runListActions(ctx, listActionsOptions{Log: f, Out: o.Printer, Now: clitest.Noon})
		},
		"action show": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runShowAction(ctx, showActionOptions{Actions: f, ID: id, Out: o.Printer, Now: clitest.Noon})
		},
		"action watch": func(ctx context.Context, f *fake, o *clitest.Output) error { return watchAction(ctx, f, id, o.Printer) },
		"action add": func(ctx context.Context, f *fake, _ *clitest.Output) error {
			return runAddAction(ctx, addActionOptions{Actions: f})
		},
		"action retry": func(ctx context.Context, f *fake, _ *clitest.Output) error {
			return runRetryAction(ctx, retryActionOptions{Actions: f, ID: id})
		},
		"action cancel": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runCancelAction(ctx, cancelActionOptions{Actions: f, ID: id, Out: o.Printer})
		},
		"action snooze": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runSnoozeAction(ctx, snoozeActionOptions{Actions: f, ID: id, Until: "2h", Out: o.Printer, Now: clitest.Noon})
		},
		"action replay": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runReplay(ctx, replayOptions{Actions: f, Out: o.Printer})
		},
		"action limits": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runLimits(ctx, limitsOptions{Lanes: f, Out: o.Printer, Now: clitest.Noon})
		},
		"action schedules": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runSchedules(ctx, schedulesOptions{Schedules: f, Out: o.Printer})
		},
		"deployment list": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runListDeployments(ctx, listDeploymentsOptions{Deployments: f, Out: o.Printer, Now: clitest.Noon})
		},
		"deployment show": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runShowDeployment(ctx, showDeploymentOptions{Deployments: f, Ref: ref, Out: o.Printer, Now: clitest.Noon})
		},
		"deployment watch": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runWatch(ctx, watchOptions{Log: f, Ref: ref, Out: o.Printer})
		},
		"deployment why": func(ctx context.Context, f *fake, o *clitest.Output) error {
			_, err := runWhy(ctx, whyOptions{Deployments: f, Ref: ref, Out: o.Printer})
			return err
		},
		"deployment create": func(ctx context.Context, f *fake, o *clitest.Output) error {
			create := func(ctx context.Context) (journal.Deployment, error) { return f.Deploy(ctx, server.NewDeployment{}) }
			return runCreateDeployment(ctx, createDeploymentOptions{Create: create, Out: o.Printer})
		},
		"deployment hold": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runIntent(ctx, intentOptions{Deployments: f, Ref: ref, Out: o.Printer, Now: clitest.Noon})
		},
		"log": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runLog(ctx, logOptions{Log: f, Query: journal.EntryQuery{Pipeline: "greeter"}, Out: o.Printer, Now: clitest.Noon})
		},
		"pipeline list": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runListPipelines(ctx, listPipelinesOptions{Pipelines: f, Out: o.Printer})
		},
		"pipeline show": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runShowPipeline(ctx, showPipelineOptions{Pipelines: f, Name: "greeter", Out: o.Printer})
		},
		"pipeline versions": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runListVersions(ctx, listVersionsOptions{Definitions: f, Name: "greeter", Out: o.Printer})
		},
		"pipeline apply": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runApply(ctx, applyOptions{Edits: f, Out: o.Printer})
		},
		"plan": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runPlan(ctx, planOptions{Query: server.PlanQuery{Proposal: &server.Proposal{}}, Plans: f, Revisions: f, Deployments: f, Pipelines: f, Out: o.Printer})
		},
		"plan greeter": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runPlanStored(ctx, planStoredOptions{Pipelines: f, Query: server.PlanQuery{Pipeline: "greeter"}, Out: o.Printer})
		},
		"process list": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runListProcesses(ctx, listProcessesOptions{Processes: f, Out: o.Printer})
		},
		"process show": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runShowProcess(ctx, showProcessOptions{Processes: f, ID: "mirror", Out: o.Printer})
		},
		"process run": func(ctx context.Context, f *fake, _ *clitest.Output) error {
			return runExecute(ctx, executeOptions{Processes: f, ID: "mirror"})
		},
		"revision list": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runListRevisions(ctx, listRevisionsOptions{Revisions: f, Pipeline: "greeter", Out: o.Printer, Now: clitest.Noon})
		},
		"revision show": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runShowRevision(ctx, showRevisionOptions{Log: f, Pipeline: "greeter", Label: "r1", Out: o.Printer})
		},
		"service list": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runListServices(ctx, listServicesOptions{Services: f, Pipeline: "greeter", Out: o.Printer, Now: clitest.Noon})
		},
		"service status": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runServiceStatus(ctx, serviceStatusOptions{Services: f, At: serviceHost{"greeter", "beta/all/oak"}, Out: o.Printer, Now: clitest.Noon})
		},
		"service restart": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runRestartService(ctx, restartServiceOptions{Services: f, At: serviceHost{"greeter", "beta/all/oak"}, Out: o.Printer})
		},
		"service logs": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runServiceLog(ctx, serviceLogOptions{Log: f, At: serviceHost{"greeter", "beta/all/oak"}, Raw: o.Out, Out: o.Printer})
		},
		"ship": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runShip(ctx, shipOptions{Revisions: f, Deployments: f, Pipelines: f, Edits: f, Entries: f, Pipeline: "greeter", Label: "r1", Out: o.Printer, Now: clitest.Noon})
		},
		"status": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runStatus(ctx, statusOptions{Log: f, Out: o.Printer})
		},
		"token list": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runListTokens(ctx, listTokensOptions{Tokens: f, Out: o.Printer, Now: clitest.Noon})
		},
		"token create": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runCreateToken(ctx, createTokenOptions{Tokens: f, Out: o.Printer, Now: clitest.Noon})
		},
		"token revoke": func(ctx context.Context, f *fake, o *clitest.Output) error {
			return runRevokeToken(ctx, revokeTokenOptions{Tokens: f, Out: o.Printer})
		},
	}
}

// Every command passes the error of the log on, and prints no half answer.
func TestCommandsReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	for name, run := range commandRuns(anAction(t)) {
		for _, json := range []bool{clitest.AsText, clitest.AsJSON} {
			f, o := &fake{err: errAway, processes: make([]server.ProcessOffering, 1)}, clitest.NewOutput(json)
			if err := run(t.Context(), f, o); !errors.Is(err, errAway) {
				t.Errorf("waybill %s: got %v, want the ledger's error", name, err)
			}
			if o.Printed.Len() > 0 {
				t.Errorf("waybill %s printed %q before its error", name, o.Printed.String())
			}
			if len(f.calls) != 1 {
				t.Errorf("waybill %s went on after the error: %v", name, f.calls)
			}
		}
	}
}

// Every list of nothing is [] for programs, and a remark beside the output for people.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	remarks := map[string]string{
		"action list": "no actions", "action limits": "no lane is limited, slowed, paused or disabled",
		"action schedules": "no schedules; server.yaml describes them under schedules",
		"deployment list":  "no deployments", "deployment why": "greeter#7 has no open step",
		"pipeline list": "no pipelines", "pipeline versions": "no definition was applied", "process list": "no processes",
		"revision list": "no revisions", "token list": "no tokens but the home's",
	}
	runs := commandRuns(anAction(t))
	for name, remark := range remarks {
		text, document := clitest.NewOutput(clitest.AsText), clitest.NewOutput(clitest.AsJSON)
		if err := runs[name](t.Context(), &fake{}, text); err != nil {
			t.Fatalf("waybill %s: %v", name, err)
		}
		if err := runs[name](t.Context(), &fake{}, document); err != nil {
			t.Fatalf("waybill %s -o json: %v", name, err)
		}
		if text.Printed.Len() > 0 || text.Warned.String() != remark+"\n" {
			t.Errorf("waybill %s printed %q and %q, want the remark %q", name, text.Printed.String(), text.Warned.String(), remark)
		}
		if document.Printed.String() != "[]\n" || document.Warned.Len() > 0 {
			t.Errorf("waybill %s -o json printed %q and %q", name, document.Printed.String(), document.Warned.String())
		}
	}
}

func TestResolveFindsADeploymentByEachOfItsNames(t *testing.T) {
	t.Parallel()
	id := anAction(t)
	f := &fake{deployments: []journal.Deployment{{ID: id, Pipeline: "greeter", Number: 7}, {Pipeline: "notes", Number: 2}}}
	for name, want := range map[string]string{"greeter": "greeter#7", "notes": "notes#2", "greeter#3": "greeter#3", "greeter/3": "greeter#3", id.String(): "greeter#7"} {
		if got, err := cmdline.Resolve(t.Context(), f, name); err != nil || got.String() != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
	_, err := cmdline.Resolve(t.Context(), f, "other")
	clitest.WantFault(t, err, fault.NotFound, "other has no deployment yet", "waybill ship")
	_, err = cmdline.Resolve(t.Context(), f, "01a1f866-0d10-7c55-9d3e-5b0c7c1a2f70")
	clitest.WantFault(t, err, fault.NotFound, "deployment 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f70 not found", "waybill deployment list")
	_, err = cmdline.Resolve(t.Context(), &fake{err: errAway}, id.String())
	clitest.WantFault(t, err, fault.LedgerUnavailable, "does not answer", "")
	_, err = cmdline.Resolve(t.Context(), f, "greeter#x")
	if err == nil {
		t.Error("greeter#x names a deployment")
	}
}

func TestNearestHint(t *testing.T) {
	t.Parallel()
	known := []string{"active", "failed"}
	for name, want := range map[string]string{"activ": "--status active", "faild": "--status failed", "nothing": "--status of the list"} {
		err := cmdline.NearestHint(fault.New(fault.Invalid, "x"), name, known, "--status %s", "--status of the list")
		if got := fault.HintOf(err); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestParseStatusOfDeployments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]pipeline.Status{"": "", "active": pipeline.StatusActive, "superseded": pipeline.StatusSuperseded} {
		if got, err := parseStatus(text); err != nil || got != want {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
	_, err := parseStatus("cancelled")
	clitest.WantFault(t, err, fault.Invalid, `"cancelled" is not a status of a deployment`, "--status canceled")
	_, err = parseStatus("gone")
	clitest.WantFault(t, err, fault.Invalid, "not a status", "--status active, finished, failed, superseded or canceled")
}

func TestCompletionWords(t *testing.T) {
	t.Parallel()
	id := anAction(t)
	view := server.DeploymentView{Stages: []server.StageRun{{Name: "build"}, {Name: "prod", Groups: []server.GroupRun{{Hosts: []server.HostRun{{Run: server.Run{Target: "greeter/prod/east/elm"}, Steps: []server.StepRun{{Name: "deploy"}}}}}}}}}
	live := queue.ActionState{Action: action.Action{ID: id, Name: "notify"}, Thread: action.Thread{Status: action.Running}}
	ended := queue.ActionState{Action: action.Action{Name: "older"}, Thread: action.Thread{Status: action.Failed}}
	f := &fake{
		pipelines:   []server.PipelineView{{Name: "greeter", Hosts: []server.HostView{{Target: "greeter/beta/all/oak"}}}},
		deployments: []journal.Deployment{{Pipeline: "greeter", Number: 7, Label: "3f2c9a1", Status: pipeline.StatusActive}},
		views:       map[string]server.DeploymentView{"greeter#7": view},
		revisions:   []pipeline.RegisteredRevision{{Label: "3f2c9a1", Subject: "Greet"}},
		limits:      []queue.Limiter{{Key: "notify/a", State: "slowed"}},
		tokens:      []token.Token{{Name: "ci"}},
		actions:     []queue.ActionState{live, ended},
	}
	for name, c := range map[string]struct {
		words func() ([]string, error)
		want  []string
	}{
		"pipelines":   {func() ([]string, error) { return cmdline.PipelineNames(t.Context(), f) }, []string{"greeter"}},
		"deployments": {func() ([]string, error) { return cmdline.DeploymentNames(t.Context(), f) }, []string{"greeter#7\tactive 3f2c9a1"}},
		"steps":       {func() ([]string, error) { return deploymentSteps(t.Context(), f, "greeter") }, []string{"deploy"}},
		"targets":     {func() ([]string, error) { return cmdline.TargetNames(t.Context(), f, "greeter") }, []string{"build", "prod", "prod/east/elm"}},
		"revisions":   {func() ([]string, error) { return cmdline.RevisionLabels(t.Context(), f, "greeter") }, []string{"3f2c9a1\tGreet"}},
		"hosts":       {func() ([]string, error) { return cmdline.HostNames(t.Context(), f, "greeter") }, []string{"beta/all/oak"}},
		"lanes":       {func() ([]string, error) { return laneNames(t.Context(), f) }, []string{"notify/a\tslowed"}},
		"tokens":      {func() ([]string, error) { return tokenNames(t.Context(), f, clitest.Noon()) }, []string{"ci\tgood"}},
		"live":        {func() ([]string, error) { return actionIDs(t.Context(), f, action.Status.Live) }, []string{id.String() + "\tnotify running"}},
	} {
		got, err := c.words()
		if err != nil || len(got) != len(c.want) || got[0] != c.want[0] || got[len(got)-1] != c.want[len(c.want)-1] {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestReadAt(t *testing.T) {
	t.Parallel()
	now := clitest.Noon().UTC()
	for text, want := range map[string]time.Time{"": {}, "0s": now, "2h": now.Add(2 * time.Hour), "7d": now.Add(7 * 24 * time.Hour), "2026-12-01T03:00:00Z": time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)} {
		if got, err := cmdline.ReadAt("--at", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "-2h", "2026-12-01"} {
		_, err := cmdline.ReadAt("--at", text, now)
		clitest.WantFault(t, err, fault.Invalid, "--at "+text+": want a time such as", "")
	}
}

func TestReadAssignments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given []string
		want  string
	}{
		{nil, `{}`},
		{[]string{"text=r42 is live", "team="}, `{"team":"","text":"r42 is live"}`},
		{[]string{"days:=30", `scene:={"id": 1}`, "plain=1=2"}, `{"days":30,"plain":"1=2","scene":{"id":1}}`},
	} {
		got, err := readAssignments("-p", "parameter", c.given)
		if err != nil || !equalJSON(t, got, c.want) {
			t.Errorf("%q: got %s, %v, want %s", c.given, got, err, c.want)
		}
	}
	for given, text := range map[string]string{"days": "-p days: want name=text or name:=JSON", "=x": "want name=text", ":=3": "want name=text", "days:=x": `"x" is not valid JSON`} {
		_, err := readAssignments("-p", "parameter", []string{given})
		clitest.WantFault(t, err, fault.Invalid, text, "")
	}
	_, err := readAssignments("-p", "parameter", []string{"a=1", "a:=2"})
	clitest.WantFault(t, err, fault.Invalid, `the parameter "a" is given twice`, "")
}

func equalJSON(t *testing.T, got json.RawMessage, want string) bool {
	t.Helper()
	var a, b any
	if err := errors.Join(json.Unmarshal(got, &a), json.Unmarshal([]byte(want), &b)); err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
