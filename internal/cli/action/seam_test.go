package action

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// actionRuns holds the commands that query the log, with the least that they need.
func actionRuns(id action.ID) clitest.Runs[*actionLog] {
	return clitest.Runs[*actionLog]{
		"action list": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return runListActions(ctx, listActionsOptions{Log: f, Out: o.Printer, Now: clitest.Noon})
		},
		"action show": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return runShowAction(ctx, showActionOptions{Actions: f, ID: id, Out: o.Printer, Now: clitest.Noon})
		},
		"action watch": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return watchAction(ctx, f, id, o.Printer)
		},
		"action add": func(ctx context.Context, f *actionLog, _ *clitest.Output) error {
			return runAddAction(ctx, addActionOptions{Actions: f})
		},
		"action retry": func(ctx context.Context, f *actionLog, _ *clitest.Output) error {
			return runRetryAction(ctx, retryActionOptions{Actions: f, ID: id})
		},
		"action cancel": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return runCancelAction(ctx, cancelActionOptions{Actions: f, ID: id, Out: o.Printer})
		},
		"action snooze": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return runSnoozeAction(ctx, snoozeActionOptions{Actions: f, ID: id, Until: "2h", Out: o.Printer, Now: clitest.Noon})
		},
		"action replay": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return runReplay(ctx, replayOptions{Actions: f, Out: o.Printer})
		},
		"action limits": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return runLimits(ctx, limitsOptions{Lanes: f, Out: o.Printer, Now: clitest.Noon})
		},
		"action schedules": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return runSchedules(ctx, schedulesOptions{Schedules: f, Out: o.Printer})
		},
		"process list": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return runListProcesses(ctx, listProcessesOptions{Processes: f, Out: o.Printer})
		},
		"process show": func(ctx context.Context, f *actionLog, o *clitest.Output) error {
			return runShowProcess(ctx, showProcessOptions{Processes: f, ID: "mirror", Out: o.Printer})
		},
		"process run": func(ctx context.Context, f *actionLog, _ *clitest.Output) error {
			return runExecute(ctx, executeOptions{Processes: f, ID: "mirror"})
		},
	}
}

func TestActionsReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	actionRuns(clitest.AnAction(t)).WantErrors(t, func() *actionLog {
		return &actionLog{Log: clitest.Log{Err: clitest.ErrAway}, processes: make([]service.ProcessOffering, 1)}
	}, func(f *actionLog) []string { return f.Calls })
}

func TestEmptyListsOfActions(t *testing.T) {
	t.Parallel()
	actionRuns(clitest.AnAction(t)).WantEmpty(t, func() *actionLog { return &actionLog{} }, map[string]string{
		"action list":      "no actions",
		"action limits":    "no lane is limited, slowed, paused or disabled",
		"action schedules": "no schedules; server.yaml describes them under schedules",
		"process list":     "no processes",
	})
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
	for given, text := range map[string]string{"days": "-p days: want name=text or name:=JSON", "=x": "want name=text",
		":=3": "want name=text", "days:=x": `"x" is not valid JSON`} {
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

func TestCompletionWordsOfActions(t *testing.T) {
	t.Parallel()
	id := clitest.AnAction(t)
	live := queue.ActionState{Action: action.Action{ID: id, Name: "notify"}, Thread: action.Thread{Status: action.Running}}
	ended := queue.ActionState{Action: action.Action{Name: "older"}, Thread: action.Thread{Status: action.Failed}}
	f := &actionLog{
		limits:  []queue.Limiter{{Key: "notify/a", State: "slowed"}},
		actions: []queue.ActionState{live, ended},
	}
	clitest.WantWords(t, map[string]clitest.Words{
		"lanes": {Of: func() ([]string, error) { return laneNames(t.Context(), f) }, Want: []string{"notify/a\tslowed"}},
		"live": {Of: func() ([]string, error) { return actionIDs(t.Context(), f, action.Status.Live) },
			Want: []string{id.String() + "\tnotify running"}},
	})
}
