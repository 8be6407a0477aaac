package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

var greeter2 = server.Ref{Pipeline: "greeter", Number: 2}

func TestListDeployments(t *testing.T) {
	t.Parallel()
	f, o := &fake{deployments: []journal.Deployment{deployed(2, 1, pipeline.StatusFailed), deployed(1, 1, pipeline.StatusFinished)}}, clitest.NewOutput(clitest.AsText)
	query := journal.DeploymentQuery{Pipeline: "greeter", Status: pipeline.StatusFailed, Limit: 20}
	if err := runListDeployments(t.Context(), listDeploymentsOptions{Deployments: f, Query: query, Out: o.Printer, Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	f.wantCalls(t, "Deployments greeter 0 failed 20")
	o.Want(t, "DEPLOYMENT  REVISION  STATUS  KIND  BY  CREATED     TOOK\ngreeter#2   r1        failed        -   1 hour ago  59m00s\n", "")
}

func TestShowDeploymentWarnsWhenNothingWorksOnIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status pipeline.Status
		json   bool
		idle   func(context.Context) bool
		want   string
	}{
		{pipeline.StatusActive, clitest.AsText, idle, idleWarning},
		{pipeline.StatusActive, clitest.AsText, busy, ""},
		{pipeline.StatusActive, clitest.AsJSON, idle, ""},
		{pipeline.StatusFinished, clitest.AsText, idle, ""},
	} {
		f, o := &fake{views: seen(deployed(2, 1, c.status))}, clitest.NewOutput(c.json)
		if err := runShowDeployment(t.Context(), showDeploymentOptions{Deployments: f, Ref: greeter2, Idle: c.idle, Out: o.Printer, Now: clitest.Noon}); err != nil {
			t.Fatal(err)
		}
		if o.Warned.String() != c.want || !strings.Contains(o.Printed.String(), string(c.status)) {
			t.Errorf("%+v: printed %q and %q", c, o.Printed.String(), o.Warned.String())
		}
	}
}

func TestIntentsAreRecordedAndShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		intent   server.Command
		out, err string
	}{
		{server.Command{Kind: "retry", By: "ana"}, "greeter#2: retry recorded; active, 0 of 0 steps done\n", idleWarning},
		{server.Command{Kind: "hold", Target: "prod", By: "ana"}, "greeter#2: hold of prod recorded; active, 0 of 0 steps done\n", ""},
		{server.Command{Kind: "skip", Target: "greeter/prod/east", Event: "test", By: "ana"}, "greeter#2: skip of prod/east test recorded; active, 0 of 0 steps done\n", idleWarning},
	} {
		f, o := &fake{views: seen(deployed(2, 1, pipeline.StatusActive))}, clitest.NewOutput(clitest.AsText)
		if err := runIntent(t.Context(), intentOptions{Deployments: f, Ref: greeter2, Intent: c.intent, Idle: idle, Out: o.Printer, Now: clitest.Noon}); err != nil {
			t.Fatal(err)
		}
		f.wantCalls(t, fmt.Sprintf("Command greeter#2 %s %s ana", c.intent.Kind, c.intent.Target), "Deployment greeter#2")
		if c.intent.Target == "" {
			continue
		}
		o.Want(t, c.out, c.err)
	}
}

func TestARefusedIntentShowsNothing(t *testing.T) {
	t.Parallel()
	f, o := &fake{errs: map[string]error{"Command": fault.New(fault.Refused, "greeter#2 has been replaced")}}, clitest.NewOutput(clitest.AsText)
	clitest.WantFault(t, runIntent(t.Context(), intentOptions{Deployments: f, Ref: greeter2, Out: o.Printer, Now: clitest.Noon}), fault.Refused, "has been replaced", "")
	o.Want(t, "", "")
	f.wantCalls(t, "Command greeter#2")
}

func TestCreateDeployment(t *testing.T) {
	t.Parallel()
	f, o := &fake{}, clitest.NewOutput(clitest.AsText)
	create := func(ctx context.Context) (journal.Deployment, error) {
		return f.Deploy(ctx, server.NewDeployment{Pipeline: "greeter", Revision: "r1", Until: "beta", By: "ana"})
	}
	if err := runCreateDeployment(t.Context(), createDeploymentOptions{Create: create, Idle: idle, Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	f.wantCalls(t, "Deploy greeter r1 beta ana")
	o.Want(t, "greeter#9  revision r1\n", idleWarning)
	o = clitest.NewOutput(clitest.AsJSON)
	if err := runCreateDeployment(t.Context(), createDeploymentOptions{Create: create, Idle: idle, Out: o.Printer}); err != nil || o.Warned.Len() > 0 || !strings.Contains(o.Printed.String(), `"number": 9`) {
		t.Errorf("%v, printed %q and %q", err, o.Printed.String(), o.Warned.String())
	}
}

func TestWhyCountsOpenSteps(t *testing.T) {
	t.Parallel()
	step := pipeline.StepState{StepKey: pipeline.StepKey{Target: "greeter/prod", Event: pipeline.StageStarted}, State: pipeline.StateWaiting, Reason: "waits for beta"}
	f, o := &fake{open: []pipeline.StepState{step, step}, views: seen(deployed(2, 1, pipeline.StatusActive))}, clitest.NewOutput(clitest.AsText)
	open, err := runWhy(t.Context(), whyOptions{Deployments: f, Ref: greeter2, Target: "prod", Idle: idle, Out: o.Printer})
	if err != nil || open != 2 {
		t.Errorf("%d open, %v", open, err)
	}
	f.wantCalls(t, "Why greeter#2 prod", "Deployment greeter#2")
	o.Want(t, "prod  stage-started  waits for beta; the same holds for 1 other step\n", idleWarning)
	f.calls = nil
	if _, err := runWhy(t.Context(), whyOptions{Deployments: f, Ref: greeter2, Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	f.wantCalls(t, "Why greeter#2") // plan --why looks at nothing else
}

// logged are entries of a deployment that builds.
func logged() []pipeline.Entry {
	entry := func(seq int64, class pipeline.Class, event, detail string) pipeline.Entry {
		return pipeline.Entry{Seq: seq, Pipeline: "greeter", Deployment: 2, Target: "greeter/build", Class: class, Event: event, At: clitest.Noon().Add(time.Duration(seq) * time.Second), Detail: []byte(detail)}
	}
	return []pipeline.Entry{entry(1, pipeline.Note, pipeline.StepClaimed, `{"event":"build-completed"}`), entry(4, pipeline.Fact, pipeline.BuildCompleted, `{}`)}
}

func TestWatchShowsADeploymentUntilItsEnd(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := &fake{views: seen(deployed(2, 1, pipeline.StatusActive)), entries: logged()}
		log := &watched{fake: f, ending: ending{fake: f, from: 3, after: seen(deployed(2, 1, pipeline.StatusFinished))["greeter#2"]}}
		o := clitest.NewOutput(clitest.AsText)
		if err := runWatch(t.Context(), watchOptions{Log: log, Ref: greeter2, Idle: busy, Out: o.Printer}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(o.Printed.String()), "\n")
		if len(lines) != 4 || lines[0] != "greeter#2  revision r1  definition 1" || !strings.Contains(lines[1], "building") || !strings.Contains(lines[2], "built") ||
			!strings.Contains(lines[2], "3.0s") || !strings.HasPrefix(lines[3], "finished: r1") {
			t.Errorf("printed %q", lines)
		}
	})
}

// watched is a fake with entries whose deployment ends.
type watched struct {
	*fake
	ending
}

func (w *watched) Deployment(ctx context.Context, ref server.Ref) (server.DeploymentView, error) {
	return w.ending.Deployment(ctx, ref)
}

func (w *watched) Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	return w.fake.Entries(ctx, q)
}

func (w *watched) Follow(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error {
	return w.fake.Follow(ctx, q, each)
}

func TestAWatcherKnowsWhatCameBefore(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		active := seen(deployed(2, 1, pipeline.StatusActive))["greeter#2"]
		f := &fake{entries: logged()}
		log := &watched{fake: f, ending: ending{fake: f, from: 1, after: seen(deployed(2, 1, pipeline.StatusFinished))["greeter#2"]}}
		o := clitest.NewOutput(clitest.AsText)
		w, err := newWatcher(t.Context(), log, o.Printer, active, 1, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := o.Printed.String(); strings.Contains(got, "building") || !strings.Contains(got, "built") || !strings.Contains(got, "3.0s") {
			t.Errorf("printed %q, want the end of the step alone, with its duration", got)
		}
	})
}

func TestAWatcherWaitsForALedgerThatIsAway(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := &fake{entries: logged()}
		log := &away{watched: watched{fake: f, ending: ending{fake: f, from: 1, after: seen(deployed(2, 1, pipeline.StatusFinished))["greeter#2"]}}, times: 3}
		o := clitest.NewOutput(clitest.AsText)
		w, err := newWatcher(t.Context(), log, o.Printer, seen(deployed(2, 1, pipeline.StatusActive))["greeter#2"], 0, "")
		if err != nil {
			t.Fatal(err)
		}
		v, err := w.run(t.Context())
		if err != nil || v.State.Status != pipeline.StatusFinished {
			t.Errorf("%s, %v", v.State.Status, err)
		}
		if got := strings.Count(o.Printed.String(), "waiting for the log: the ledger does not answer"); got != 1 {
			t.Errorf("printed %q, want the wait once", o.Printed.String())
		}
	})
}

// away is a log that does not answer some times.
type away struct {
	watched
	times int
}

func (a *away) Deployment(ctx context.Context, ref server.Ref) (server.DeploymentView, error) {
	if a.times--; a.times >= 0 {
		return server.DeploymentView{}, errAway
	}
	return a.watched.Deployment(ctx, ref)
}

func TestAWatcherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := &fake{views: seen(deployed(2, 1, pipeline.StatusActive))}
		w, err := newWatcher(t.Context(), f, clitest.NewOutput(clitest.AsJSON).Printer, f.views["greeter#2"], 0, "")
		if err != nil {
			t.Fatal(err)
		}
		enough := errors.New("enough")
		ctx, stop := context.WithTimeoutCause(t.Context(), time.Minute, enough)
		defer stop()
		if _, err := w.run(ctx); !errors.Is(err, enough) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestLogPrintsEntries(t *testing.T) {
	t.Parallel()
	f, o := &fake{entries: logged()}, clitest.NewOutput(clitest.AsText)
	if err := runLog(t.Context(), logOptions{Log: f, Query: journal.EntryQuery{Pipeline: "greeter"}, Out: o.Printer, Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	if got := o.Printed.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "     4  12:00:04  #2    greeter/build             build-completed\n") {
		t.Errorf("printed %q", got)
	}
	o = clitest.NewOutput(clitest.AsJSON)
	if err := runLog(t.Context(), logOptions{Log: f, Out: o.Printer, Now: clitest.Noon}); err != nil || strings.Count(o.Printed.String(), "\n") != 2 || !strings.HasPrefix(o.Printed.String(), "{") {
		t.Errorf("%v, printed %q", err, o.Printed.String())
	}
}

func TestLogFollows(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	f, o := &fake{entries: logged()}, clitest.NewOutput(clitest.AsText)
	stop()
	if err := runLog(ctx, logOptions{Log: f, Follow: true, Out: o.Printer, Now: clitest.Noon}); !errors.Is(err, context.Canceled) || strings.Count(o.Printed.String(), "\n") != 2 {
		t.Errorf("%v, printed %q", err, o.Printed.String())
	}
}

func TestAnEmptyLogIsExplained(t *testing.T) {
	t.Parallel()
	definition := pipeline.Definition{Pipeline: "greeter", Stages: []pipeline.Stage{{Name: "prod", Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{{Name: "elm"}}}}}}}
	f := &fake{pipelines: []server.PipelineView{{Name: "greeter", Definition: &definition}, {Name: "bare"}}}
	for _, c := range []struct {
		query      journal.EntryQuery
		code       fault.Code
		text, hint string
	}{
		{journal.EntryQuery{Pipeline: "greeter"}, "", "", ""},
		{journal.EntryQuery{Pipeline: "greeter", Target: "greeter/elm"}, fault.NotFound, "nothing is recorded for greeter/elm", "waybill log greeter --target prod/all/elm"},
		{journal.EntryQuery{Pipeline: "greeter", Target: "greeter/zzzzzzzz"}, fault.NotFound, "nothing is recorded", "waybill log greeter"},
		{journal.EntryQuery{Pipeline: "bare", Target: "bare/x"}, fault.NotFound, "nothing is recorded", "waybill log bare"},
		{journal.EntryQuery{Pipeline: "other"}, fault.NotFound, `pipeline "other" not found`, ""},
		{journal.EntryQuery{Pipeline: "greeter", Deployment: 7}, fault.NotFound, "deployment greeter#7 not found", ""},
	} {
		err := runLog(t.Context(), logOptions{Log: f, Query: c.query, Out: clitest.NewOutput(clitest.AsText).Printer, Now: clitest.Noon})
		if c.code == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.query, err)
			}
			continue
		}
		clitest.WantFault(t, err, c.code, c.text, c.hint)
	}
}

func TestServiceLog(t *testing.T) {
	t.Parallel()
	f, o := &fake{log: server.ServiceLogView{Text: "ready\x1b]0;title\x07\n\x1b[31mred\n"}}, clitest.NewOutput(clitest.AsText)
	if err := runServiceLog(t.Context(), serviceLogOptions{Log: f, At: serviceHost{"greeter", "/beta/all/oak/"}, Raw: o.Out, Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	f.wantCalls(t, "ServiceLog greeter greeter/beta/all/oak false")
	o.Want(t, "ready\nred\n", "")
	o = clitest.NewOutput(clitest.AsText)
	if err := runServiceLog(t.Context(), serviceLogOptions{Log: f, At: serviceHost{"greeter", "oak"}, Colours: true, Raw: o.Out, Out: o.Printer}); err != nil || o.Printed.String() != "ready\n\x1b[31mred\x1b[0m\n" {
		t.Errorf("%v, printed %q", err, o.Printed.String())
	}
}

func TestServiceLogIsFollowed(t *testing.T) {
	t.Parallel()
	f, o := &fake{log: server.ServiceLogView{Text: "one\n", Next: "7.4"}, follows: []server.ServiceLogView{{Next: "7.4"}, {Text: "\x1b[2Jtwo\n", Next: "7.8", More: true}, {Text: "three\n", Next: "8.6"}}}, clitest.NewOutput(clitest.AsText)
	pauses := 0
	options := serviceLogOptions{Log: f, At: serviceHost{"greeter", "beta/all/oak"}, Follow: true, Pause: func(context.Context, time.Duration) bool { pauses++; return true }, Raw: o.Out, Out: o.Printer}
	if err := runServiceLog(t.Context(), options); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	const call = "ServiceLog greeter greeter/beta/all/oak true"
	f.wantCalls(t, call, call+" 7.4", call+" 7.4", call+" 7.8", call+" 8.6")
	o.Want(t, "one\ntwo\nthree\n", "")
	if pauses != 3 {
		t.Errorf("%d pauses, want 3: none while there is more", pauses)
	}
	o = clitest.NewOutput(clitest.AsJSON)
	f.follows, options.Out = []server.ServiceLogView{{Next: "7.4"}, {Text: "two\n", Next: "7.8"}}, o.Printer
	if err := runServiceLog(t.Context(), options); !errors.Is(err, errAway) || strings.Count(o.Printed.String(), "\n") != 2 {
		t.Errorf("as JSON: %v, %s", err, o.Printed.String())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	options.Pause = func(context.Context, time.Duration) bool {
		cancel(fault.New(fault.Interrupted, "stopped"))
		return false
	}
	if err := runServiceLog(ctx, options); !fault.Is(err, fault.Interrupted) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestListServices(t *testing.T) {
	t.Parallel()
	f, o := &fake{services: []server.ServiceView{{Target: "greeter/beta/all/oak", Name: "greeter", Manager: "process", State: &server.Services{State: server.ServiceDown}}}}, clitest.NewOutput(clitest.AsText)
	if err := runListServices(t.Context(), listServicesOptions{Services: f, Pipeline: "greeter", Out: o.Printer, Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	f.wantCalls(t, "Services greeter")
	o.Want(t, "HOST          RUNS  STATE  RESTARTS  SINCE  REMARK\nbeta/all/oak  -     down   0         -\n", "")
	o = clitest.NewOutput(clitest.AsJSON)
	if err := runListServices(t.Context(), listServicesOptions{Services: &fake{}, Pipeline: "greeter", Out: o.Printer, Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	o.Want(t, "[]\n", "")
}

func TestRestartService(t *testing.T) {
	t.Parallel()
	definition := pipeline.Definition{Pipeline: "greeter", Stages: []pipeline.Stage{{Name: "beta", Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{{Name: "oak"}}}}}}}
	f, o := &fake{version: journal.Version{Definition: definition}}, clitest.NewOutput(clitest.AsText)
	options := restartServiceOptions{Services: f, At: serviceHost{"greeter", "beta/all/oak"}, Reason: "slow", Out: o.Printer}
	if err := runRestartService(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	f.wantCalls(t, "Restart greeter greeter/beta/all/oak slow")
	o.Want(t, "greeter: restarted on beta/all/oak\n", "")
	f.errs, options.At.Host = map[string]error{"Restart": fault.New(fault.NotFound, "not found")}, "oak"
	clitest.WantFault(t, runRestartService(t.Context(), options), fault.NotFound, "not found", "waybill service restart greeter beta/all/oak")
}

func TestServiceStatusOffersTheLikelyHost(t *testing.T) {
	t.Parallel()
	definition := pipeline.Definition{Pipeline: "greeter", Stages: []pipeline.Stage{{Name: "beta", Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{{Name: "oak"}}}}}}}
	f := &fake{errs: map[string]error{"ServiceStatus": fault.New(fault.NotFound, "not found")}, version: journal.Version{Definition: definition}}
	err := runServiceStatus(t.Context(), serviceStatusOptions{Services: f, At: serviceHost{"greeter", "oak"}, Out: clitest.NewOutput(clitest.AsText).Printer, Now: clitest.Noon})
	clitest.WantFault(t, err, fault.NotFound, "not found", "waybill service status greeter beta/all/oak")
	f.wantCalls(t, "ServiceStatus greeter greeter/oak", "Version greeter 0")
}

func TestServiceLogOffersTheLikelyHost(t *testing.T) {
	t.Parallel()
	missing := fault.New(fault.NotFound, "host greeter/oak not found")
	definition := pipeline.Definition{Pipeline: "greeter", Stages: []pipeline.Stage{{Name: "beta", Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{{Name: "oak"}}}}}}}
	f := &fake{errs: map[string]error{"ServiceLog": missing}, version: journal.Version{Definition: definition}}
	for host, hint := range map[string]string{"oak": "waybill service logs greeter beta/all/oak", "zzzzzzzzz": "",
		"beta": "waybill service logs greeter beta/all/oak", "beta/all": "waybill service logs greeter beta/all/oak"} {
		err := runServiceLog(t.Context(), serviceLogOptions{Log: f, At: serviceHost{"greeter", host}, Raw: io.Discard, Out: clitest.NewOutput(clitest.AsText).Printer})
		if !fault.Is(err, fault.NotFound) || fault.HintOf(err) != hint {
			t.Errorf("%s: %v, hint %q", host, err, fault.HintOf(err))
		}
	}
	f.errs["Version"] = errAway
	err := runServiceLog(t.Context(), serviceLogOptions{Log: f, At: serviceHost{"greeter", "oak"}, Raw: io.Discard, Out: clitest.NewOutput(clitest.AsText).Printer})
	clitest.WantFault(t, err, fault.NotFound, "not found", "")
}

// planning returns the options of a plan on a fake log.
func planning(f *fake, o *clitest.Output) planOptions {
	return planOptions{Plans: f, Revisions: f, Deployments: f, Pipelines: f, Query: server.PlanQuery{Pipeline: "greeter", Proposal: &server.Proposal{Definition: pipeline.Definition{Pipeline: "greeter"}}},
		Label: func(context.Context) (string, error) { return "r1", nil }, Out: o.Printer}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	r1, r2 := pipeline.RegisteredRevision{Pipeline: "greeter", Seq: 1, Label: "r1"}, pipeline.RegisteredRevision{Pipeline: "greeter", Seq: 2, Label: "r2"}
	steps := server.PlanView{Steps: []pipeline.PlanStep{{StepKey: pipeline.StepKey{Target: "greeter", Event: pipeline.PipelineStarted}}, {StepKey: pipeline.StepKey{Target: "greeter/build", Event: pipeline.BuildCompleted}, End: time.Second, Work: true}}}
	for name, c := range map[string]struct {
		fake fake
		edit bool
		todo string
		want int // planned steps
		ends fault.Code
	}{
		"a new revision":      {fake{edit: server.EditView{Unchanged: true}, plan: steps}, false, show.TodoShip, 1, fault.Pending},
		"an active one":       {fake{edit: server.EditView{Unchanged: true}, revisions: []pipeline.RegisteredRevision{r1}, deployments: []journal.Deployment{deployed(2, 1, pipeline.StatusActive)}}, false, show.TodoContinue, 0, fault.Pending},
		"a failed one":        {fake{edit: server.EditView{Unchanged: true}, revisions: []pipeline.RegisteredRevision{r1}, deployments: []journal.Deployment{deployed(2, 1, pipeline.StatusFailed)}}, false, show.TodoRetry, 0, fault.Pending},
		"a finished one":      {fake{edit: server.EditView{Unchanged: true}, revisions: []pipeline.RegisteredRevision{r1}, deployments: []journal.Deployment{deployed(2, 1, pipeline.StatusFinished)}, pipelines: []server.PipelineView{{Name: "greeter"}}}, false, show.TodoNothing, 0, ""},
		"finished and edited": {fake{edit: server.EditView{Version: 2}, revisions: []pipeline.RegisteredRevision{r1}, deployments: []journal.Deployment{deployed(2, 1, pipeline.StatusFinished)}, pipelines: []server.PipelineView{{Name: "greeter"}}}, false, show.TodoApply, 0, fault.Pending},
		"an older one":        {fake{edit: server.EditView{Version: 2}, revisions: []pipeline.RegisteredRevision{r2, r1}, deployments: []journal.Deployment{deployed(2, 1, pipeline.StatusFinished)}, pipelines: []server.PipelineView{{Name: "greeter"}}}, false, show.TodoNothing, 0, ""},
		"an edit":             {fake{edit: server.EditView{Version: 2}, plan: steps}, true, show.TodoApply, 1, fault.Pending},
		"no edit":             {fake{edit: server.EditView{Unchanged: true}}, true, show.TodoNothing, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := clitest.NewOutput(clitest.AsJSON)
			options := planning(&c.fake, o)
			options.EditOnly = c.edit
			if err := runPlan(t.Context(), options); fault.CodeOf(err) != c.ends {
				t.Errorf("ended with %v, want %q", err, c.ends)
			}
			text := o.Printed.String()
			if !strings.Contains(text, `"todo": "`+c.todo+`"`) || strings.Count(text, `"Work": true`) != c.want {
				t.Errorf("printed %s, want %s with %d steps", text, c.todo, c.want)
			}
		})
	}
}

func TestPlanOfAStoredPipeline(t *testing.T) {
	t.Parallel()
	f, o := &fake{}, clitest.NewOutput(clitest.AsText)
	clitest.WantFault(t, runPlanStored(t.Context(), planStoredOptions{Pipelines: f, Query: server.PlanQuery{Pipeline: "greeter"}, Out: o.Printer}), fault.Pending, "something would be done", "")
	f.wantCalls(t, "Plan greeter false")
}

// applying returns the options of an edit that loses work.
func applying(f *fake, o *clitest.Output) applyOptions {
	f.edit = server.EditView{Pipeline: "greeter", Version: 2, Words: []string{"- host prod/all/oak"}, Effects: []pipeline.Effect{{Deployment: 1, Drained: []pipeline.StepKey{{Target: "greeter/prod/all/oak", Event: pipeline.HostDeployed}}}}}
	return applyOptions{Edits: f, Proposal: server.Proposal{Definition: pipeline.Definition{Pipeline: "greeter"}}, Warn: func() {}, Ask: func(context.Context, string) bool { return false }, Out: o.Printer}
}

func TestApplyAsksBeforeWorkIsLost(t *testing.T) {
	t.Parallel()
	f, o := &fake{}, clitest.NewOutput(clitest.AsText)
	options := applying(f, o)
	clitest.WantFault(t, runApply(t.Context(), options), fault.Refused, "definition 2 of greeter is not applied", "--yes, to apply it all the same")
	f.wantCalls(t, "PlanEdit greeter")
	f.calls = nil
	var question string
	options.Ask = func(_ context.Context, q string) bool { question = q; return true }
	if err := runApply(t.Context(), options); err != nil || question != "apply definition 2?" {
		t.Errorf("%v, asked %q", err, question)
	}
	f.wantCalls(t, "PlanEdit greeter", "Apply greeter 1 true")
	if want := "greeter: definition 2 applied\n"; !strings.HasSuffix(o.Printed.String(), want) {
		t.Errorf("printed %q", o.Printed.String())
	}
}

func TestApplyWithYesAsksNothing(t *testing.T) {
	t.Parallel()
	f, o := &fake{}, clitest.NewOutput(clitest.AsJSON)
	options := applying(f, o)
	options.Yes, options.Ask = true, nil
	if err := runApply(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(o.Printed.String(), `"applied": true`) || !strings.Contains(o.Warned.String(), "definition 2: - host prod/all/oak\n") {
		t.Errorf("printed %q and %q", o.Printed.String(), o.Warned.String())
	}
}

func TestApplyOfTheDefinitionInForce(t *testing.T) {
	t.Parallel()
	f, o := &fake{}, clitest.NewOutput(clitest.AsText)
	options := applying(f, o)
	f.edit = server.EditView{Pipeline: "greeter", Version: 2, Unchanged: true}
	if err := runApply(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	f.wantCalls(t, "PlanEdit greeter")
	o.Want(t, "greeter: definition 2 in force already\n", "")
}
