package action

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// notify is the tests' action in a status.
func notify(t *testing.T, status action.Status) queue.ActionState {
	t.Helper()
	return queue.ActionState{
		Action: action.Action{ID: clitest.AnAction(t), Name: "notify", Handler: "notify", Lane: "notify", Policy: action.Policy{Retries: 2}},
		Thread: action.Thread{Status: status}, EnqueuedAt: clitest.Noon(),
	}
}

func TestListActionsOfADeployment(t *testing.T) {
	t.Parallel()
	f, o := &actionLog{actions: []queue.ActionState{notify(t, action.Queued)},
		Log: clitest.Log{Recent: []journal.Deployment{{Pipeline: "greeter", Number: 7}}}}, clitest.NewOutput(clitest.AsText)
	err := runListActions(t.Context(), listActionsOptions{Log: f, Deployment: "greeter",
		Query: operation.ActionsInput{Handler: "step"}, Out: o.Printer, Now: clitest.Noon})
	if err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Deployments greeter 0  1", "Actions greeter 7 step")
	o.Want(t, "ACTION                                NAME    STATUS  ATTEMPT  CREATED   ERROR\n"+
		clitest.SomeAction+"  notify  queued  -        just now\n", "")
}

func TestListActionsFlags(t *testing.T) {
	t.Parallel()
	flags := listActionsFlags{query: operation.ActionsInput{Status: []string{"RUNNING", "retries_exhausted"},
		Parent: clitest.SomeAction}, since: "24h", until: "2026-02-28T00:00:00Z"}
	if err := flags.read(clitest.Noon()); err != nil {
		t.Fatal(err)
	}
	q := flags.query
	if !slices.Equal(q.Status, []string{"running", "retries_exhausted"}) || q.Parent != clitest.SomeAction ||
		q.RetryOf != "" || q.After != "" ||
		!q.Since.Equal(clitest.Noon().Add(-24*time.Hour)) || !q.Until.Equal(time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("query %+v", q)
	}
	if err := flags.read(clitest.Noon()); err != nil || len(flags.query.Status) != 2 {
		t.Errorf("read twice, the flags name %v, %v", flags.query.Status, err)
	}
	for name, wrong := range map[string]listActionsFlags{"status": {query: operation.ActionsInput{
		Status: []string{"lost"}}}, "id": {query: operation.ActionsInput{After: "7"}}, "since": {since: "yesterday"}, "until": {until: "x"}} {
		if err := wrong.read(clitest.Noon()); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
}

func TestWatchActionEndsWithTheActionsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status action.Status
		code   fault.Code
	}{{action.Successful, ""}, {action.Canceled, fault.Canceled}, {action.Failed, fault.Failed}, {action.RetriesExhausted, fault.Failed}} {
		f, o := &actionLog{action: service.ActionView{ActionState: notify(t, c.status)}, events: []action.Event{
			{Seq: 1, Status: action.Running, Source: "host-a/1", At: clitest.Noon()},
			{Seq: 2, Status: c.status, At: clitest.Noon()}}}, clitest.NewOutput(clitest.AsText)
		f.action.Output = []byte(`{"text":"sent"}`)
		err := watchAction(t.Context(), f, clitest.AnAction(t), o.Printer)
		if fault.CodeOf(err) != c.code {
			t.Errorf("%s: ended with %v, want %q", c.status, err, c.code)
		}
		lines := strings.Split(strings.TrimSpace(o.Printed.String()), "\n")
		if len(lines) != 3 || !strings.HasSuffix(lines[1], "host-a/1") || !strings.Contains(lines[2], c.status.String()) {
			t.Errorf("%s: printed %q", c.status, lines)
		}
		if sent := strings.HasSuffix(lines[2], "sent"); sent != (c.status == action.Successful) {
			t.Errorf("%s: the last line is %q", c.status, lines[2])
		}
	}
}

func TestWatchActionPrintsEventsAsJSON(t *testing.T) {
	t.Parallel()
	f, o := &actionLog{action: service.ActionView{ActionState: notify(t, action.Queued)},
		events: []action.Event{{Seq: 1, Status: action.Running}, {Seq: 2, Status: action.Failed}}}, clitest.NewOutput(clitest.AsJSON)
	if err := watchAction(t.Context(), f, clitest.AnAction(t), o.Printer); !fault.Is(err, fault.Failed) {
		t.Errorf("ended with %v", err)
	}
	if got := strings.Count(o.Printed.String(), "\n"); got != 2 || !strings.Contains(o.Printed.String(), `"status":"RUNNING"`) {
		t.Errorf("printed %q, want a line for each event", o.Printed.String())
	}
}

func TestAddAction(t *testing.T) {
	t.Parallel()
	stored := service.AddedAction{ActionState: notify(t, action.Queued), Created: true}
	again := service.AddedAction{ActionState: notify(t, action.Running)}
	over := service.AddedAction{ActionState: notify(t, action.Successful)}
	for name, c := range map[string]struct {
		made     service.AddedAction
		out, err string
	}{
		"stored":    {stored, clitest.SomeAction + "\n", clitest.IdleWarning},
		"there":     {again, clitest.SomeAction + "\n", "waybill: it was there already: running\n" + clitest.IdleWarning},
		"and ended": {over, clitest.SomeAction + "\n", "waybill: it was there already: successful\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f, o := &actionLog{added: c.made}, clitest.NewOutput(clitest.AsText)
			order := operation.AddActionInput{Body: operation.AddActionBody{Handler: "notify",
				Parameters: operation.Parameters{RawMessage: []byte(`{"team":"web"}`)}}}
			err := runAddAction(t.Context(), addActionOptions{Actions: f, Order: order,
				Then: afterAdding{Actions: f, Idle: clitest.Idle, Out: o.Printer}})
			if err != nil {
				t.Fatal(err)
			}
			f.WantCalls(t, `AddAction notify {"team":"web"}`)
			o.Want(t, c.out, c.err)
		})
	}
}

func TestAddActionAsJSONAndWatched(t *testing.T) {
	t.Parallel()
	f, o := &actionLog{added: service.AddedAction{ActionState: notify(t, action.Queued), Created: true}}, clitest.NewOutput(clitest.AsJSON)
	if err := runAddAction(t.Context(), addActionOptions{Actions: f,
		Then: afterAdding{Actions: f, Idle: clitest.Idle, Out: o.Printer}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(o.Printed.String(), `"created": true`) || o.Warned.Len() > 0 {
		t.Errorf("printed %q and %q", o.Printed.String(), o.Warned.String())
	}
	f.events, f.action = []action.Event{{Status: action.Canceled,
		At: clitest.Noon()}}, service.ActionView{ActionState: notify(t, action.Canceled)}
	o = clitest.NewOutput(clitest.AsText)
	err := runRetryAction(t.Context(), retryActionOptions{Actions: f, ID: clitest.AnAction(t),
		Then: afterAdding{Actions: f, Watch: true, Idle: clitest.Busy, Out: o.Printer}})
	clitest.WantFault(t, err, fault.Canceled, "was canceled", "")
	f.WantCalls(t, "AddAction", "RetryAction "+clitest.SomeAction, "Action "+clitest.SomeAction, "FollowAction "+clitest.SomeAction+" -1")
	if first, _, _ := strings.Cut(o.Printed.String(), "\n"); first != clitest.SomeAction+"  notify  lane notify" {
		t.Errorf("a watched action begins with %q", first)
	}
}

func TestAddFlags(t *testing.T) {
	t.Parallel()
	good := func() addFlags {
		return addFlags{parameters: []string{"team=web"}, priority: 10, at: "2h",
			order: operation.AddActionInput{Body: operation.AddActionBody{OnConflict: "return"}}}
	}
	flags := good()
	if err := flags.read(clitest.Noon()); err != nil || *flags.order.Body.Priority != 10 ||
		!flags.order.Body.At.Equal(clitest.Noon().Add(2*time.Hour)) || string(flags.order.Body.Parameters.RawMessage) != `{"team":"web"}` {
		t.Errorf("%+v, %v", flags.order, err)
	}
	for text, wrong := range map[string]func(*addFlags){
		"--priority 1001: want 0 to 1000": func(f *addFlags) { f.priority = 1001 },
		"--priority -1: want 0 to 1000":   func(f *addFlags) { f.priority = -1 },
		"--on-conflict ignore: want":      func(f *addFlags) { f.order.Body.OnConflict = "ignore" },
		"--at soon: want a time":          func(f *addFlags) { f.at = "soon" },
		"-p team: want name=text":         func(f *addFlags) { f.parameters = []string{"team"} },
	} {
		flags := good()
		wrong(&flags)
		clitest.WantFault(t, flags.read(clitest.Noon()), fault.Invalid, text, "")
	}
}

func TestCancelAction(t *testing.T) {
	t.Parallel()
	for status, want := range map[action.Status]string{action.Canceled: "canceled", action.Running: "asked to stop"} {
		f, o := &actionLog{action: service.ActionView{ActionState: notify(t, status)}}, clitest.NewOutput(clitest.AsText)
		if err := runCancelAction(t.Context(), cancelActionOptions{Actions: f, ID: clitest.AnAction(t), Out: o.Printer}); err != nil {
			t.Fatal(err)
		}
		f.WantCalls(t, "CancelAction "+clitest.SomeAction)
		o.Want(t, clitest.SomeAction+": "+want+"\n", "")
	}
}

func TestSnoozeAction(t *testing.T) {
	t.Parallel()
	f, o := &actionLog{action: service.ActionView{ActionState: notify(t, action.Backoff)}}, clitest.NewOutput(clitest.AsText)
	options := snoozeActionOptions{Actions: f, ID: clitest.AnAction(t), Until: "2h", Out: o.Printer, Now: clitest.Noon}
	if err := runSnoozeAction(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "SnoozeAction "+clitest.SomeAction+" "+clitest.Noon().Add(2*time.Hour).UTC().Format(time.RFC3339))
	o.Want(t, clitest.SomeAction+": next attempt 14:00:00 UTC\n", "")
	for until, text := range map[string]string{"": "snooze wants to know until when", "soon": "--until soon: want a time"} {
		options.Until = until
		clitest.WantFault(t, runSnoozeAction(t.Context(), options), fault.Invalid, text, "")
	}
	if len(f.Calls) != 1 {
		t.Errorf("a wrong time was sent: %v", f.Calls)
	}
}

func TestLimitsCarriesOutEachCommandInOrder(t *testing.T) {
	t.Parallel()
	f, o := &actionLog{limits: []queue.Limiter{{Key: "a", State: "open"}}}, clitest.NewOutput(clitest.AsText)
	flags := limitsFlags{pause: "a", pauseFor: time.Minute, resume: "b", enable: "c", reset: "d"}
	if err := runLimits(t.Context(), limitsOptions{Lanes: f, Commands: flags.commands(), Out: o.Printer, Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Limit a pause 1m0s", "Limit b resume 0s", "Limit c enable 0s", "Limit d reset 0s", "Limits")
	o.Want(t, "LANE  STATE  RATE  SLOTS  WINDOW  REASON\na     open   -     -      -       -\n", "")
}

func TestLimitsStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	f, o := &actionLog{Log: clitest.Log{Errs: map[string]error{"Limit": clitest.ErrAway}}}, clitest.NewOutput(clitest.AsText)
	flags := limitsFlags{pause: "a", resume: "b"}
	clitest.WantFault(t, runLimits(t.Context(),
		limitsOptions{Lanes: f, Commands: flags.commands(), Out: o.Printer, Now: clitest.Noon}), fault.LedgerUnavailable, "", "")
	f.WantCalls(t, "Limit a pause 0s")
	if none := (limitsFlags{}).commands(); none != nil {
		t.Errorf("without flags it commands %v", none)
	}
}

// replayed is an answer of the log to a part of a replay.
func replayed(id, next action.ID, found, created int) queue.Replayed {
	return queue.Replayed{ID: id, Next: next, Found: found, Created: created}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	id, none := clitest.AnAction(t), action.ID{}
	for name, c := range map[string]struct {
		dry      bool
		replays  []queue.Replayed
		out, err string
		calls    int
	}{
		"nothing": {false, []queue.Replayed{replayed(id, none, 0, 0)}, "no actions in that range\n", "", 1},
		"dry run": {true, []queue.Replayed{replayed(id, none, 3, 0)}, "would replay 3 actions\n", "", 1},
		"all": {false, []queue.Replayed{replayed(id, id, 500, 0), replayed(id, none, 1, 0), replayed(id, id, 500, 500), replayed(id, none, 1, 1)},
			"replayed 501 actions\n", "replayed 500 of 501\nreplayed 501 of 501\n", 4},
		"some": {false, []queue.Replayed{replayed(id, none, 3, 0), replayed(id, none, 3, 2)},
			"replayed 2 actions\n1 action not replayed: done by an earlier replay, or a live action has the same key\n", "replayed 3 of 3\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			f, o := &actionLog{replays: c.replays}, clitest.NewOutput(clitest.AsText)
			err := runReplay(t.Context(), replayOptions{Actions: f, Order: service.ReplayOrder{DryRun: c.dry}, Progress: true, Out: o.Printer})
			if err != nil || len(f.Calls) != c.calls {
				t.Errorf("%v after %v", err, f.Calls)
			}
			o.Want(t, c.out, c.err)
		})
	}
}

func TestAnInterruptedReplayPrintsHowToResume(t *testing.T) {
	t.Parallel()
	id := clitest.AnAction(t)
	f, o := &actionLog{replays: []queue.Replayed{replayed(id, action.ID{}, 900, 0),
		replayed(id, id, 500, 500)}}, clitest.NewOutput(clitest.AsJSON)
	order := service.ReplayOrder{Status: []string{"failed"}, Handler: "notify", Since: clitest.Noon().UTC(),
		Until: clitest.Noon().UTC().Add(time.Hour)}
	clitest.WantFault(t, runReplay(t.Context(), replayOptions{Actions: f, Order: order, Progress: true, Out: o.Printer}),
		fault.LedgerUnavailable, "", "")
	o.Want(t, "", "waybill: 500 of 900 were looked at; resume with\n  waybill action replay --resume "+clitest.SomeAction+
		" --status failed --handler notify --since "+clitest.Noon().UTC().Format(time.RFC3339)+" --until "+
		clitest.Noon().UTC().Add(time.Hour).Format(time.RFC3339)+"\n")
}

func TestReplayFlags(t *testing.T) {
	t.Parallel()
	flags := replayFlags{resume: clitest.SomeAction, since: "2h", order: service.ReplayOrder{Status: []string{"failed"}}}
	if err := flags.read(clitest.Noon()); err != nil || flags.order.ID != clitest.AnAction(t) ||
		!flags.order.Since.Equal(clitest.Noon().Add(-2*time.Hour)) || !flags.order.Until.IsZero() {
		t.Errorf("%+v, %v", flags.order, err)
	}
	none := replayFlags{}
	clitest.WantFault(t, none.read(clitest.Noon()), fault.Invalid, "which actions", "--status failed, or another end; it may be repeated")
	for _, wrong := range []replayFlags{{resume: "x"}, {since: "x"}, {until: "x"}} {
		wrong.order.Status = []string{"failed"}
		if err := wrong.read(clitest.Noon()); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
