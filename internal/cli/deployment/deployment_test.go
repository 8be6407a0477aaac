package deployment

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

var greeter2 = service.Ref{Pipeline: "greeter", Number: 2}

func TestListDeployments(t *testing.T) {
	t.Parallel()
	f, o := &clitest.Log{Recent: []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusFailed),
		clitest.Deployed(1, 1, pipeline.StatusFinished)}}, clitest.NewOutput(clitest.AsText)
	query := operation.DeploymentsInput{Pipeline: "greeter", Status: string(pipeline.StatusFailed), Limit: 20}
	if err := runListDeployments(t.Context(), listDeploymentsOptions{Deployments: f, Query: query, Out: o.Printer,
		Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Deployments greeter 0 failed 20")
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
		{pipeline.StatusActive, clitest.AsText, clitest.Idle, clitest.IdleWarning},
		{pipeline.StatusActive, clitest.AsText, clitest.Busy, ""},
		{pipeline.StatusActive, clitest.AsJSON, clitest.Idle, ""},
		{pipeline.StatusFinished, clitest.AsText, clitest.Idle, ""},
	} {
		f, o := &clitest.Log{Views: clitest.Seen(clitest.Deployed(2, 1, c.status))}, clitest.NewOutput(c.json)
		if err := runShowDeployment(t.Context(), showDeploymentOptions{Deployments: f, Ref: greeter2, Idle: c.idle,
			Out: o.Printer, Now: clitest.Noon}); err != nil {
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
		intent   service.Command
		out, err string
	}{
		{service.Command{Kind: "retry"}, "greeter#2: retry recorded; active, 0 of 0 steps done\n", clitest.IdleWarning},
		{service.Command{Kind: "hold", Target: "prod"}, "greeter#2: hold of prod recorded; active, 0 of 0 steps done\n", ""},
		{service.Command{Kind: "skip", Target: "greeter/prod/east", Event: "test"},
			"greeter#2: skip of prod/east test recorded; active, 0 of 0 steps done\n", clitest.IdleWarning},
	} {
		f, o := &clitest.Log{Views: clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusActive))}, clitest.NewOutput(clitest.AsText)
		if err := runIntent(t.Context(), intentOptions{Deployments: f, Ref: greeter2, Intent: c.intent, Idle: clitest.Idle,
			Out: o.Printer, Now: clitest.Noon}); err != nil {
			t.Fatal(err)
		}
		f.WantCalls(t, strings.TrimSpace("Command greeter#2 "+c.intent.Kind+" "+c.intent.Target), "Deployment greeter#2")
		if c.intent.Target == "" {
			continue
		}
		o.Want(t, c.out, c.err)
	}
}

func TestARefusedIntentShowsNothing(t *testing.T) {
	t.Parallel()
	f, o := &clitest.Log{Errs: map[string]error{"Command": fault.New(fault.Refused,
		"greeter#2 has been replaced")}}, clitest.NewOutput(clitest.AsText)
	clitest.WantFault(t, runIntent(t.Context(), intentOptions{Deployments: f, Ref: greeter2,
		Intent: service.Command{Kind: "hold"}, Out: o.Printer, Now: clitest.Noon}), fault.Refused, "has been replaced", "")
	o.Want(t, "", "")
	f.WantCalls(t, "Command greeter#2 hold")
}

func TestCreateDeployment(t *testing.T) {
	t.Parallel()
	f, o := &clitest.Log{}, clitest.NewOutput(clitest.AsText)
	create := func(ctx context.Context) (operation.CommandAnswer, error) {
		want := operation.DeployInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Body: operation.DeployBody{Revision: "r1", Until: "beta"}}
		return operation.CreateDeployment.Call(ctx, f, want)
	}
	if err := runCreateDeployment(t.Context(), createDeploymentOptions{Create: create, Idle: clitest.Idle, Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Deploy greeter r1 beta")
	o.Want(t, "greeter#9  revision r1\n", clitest.IdleWarning)
	o = clitest.NewOutput(clitest.AsJSON)
	if err := runCreateDeployment(t.Context(), createDeploymentOptions{Create: create, Idle: clitest.Idle,
		Out: o.Printer}); err != nil || o.Warned.Len() > 0 || !strings.Contains(o.Printed.String(), `"number": 9`) {
		t.Errorf("%v, printed %q and %q", err, o.Printed.String(), o.Warned.String())
	}
}

func TestWhyCountsOpenSteps(t *testing.T) {
	t.Parallel()
	step := pipeline.StepState{StepKey: pipeline.StepKey{Target: "greeter/prod", Event: pipeline.StageStarted},
		State: pipeline.StateWaiting, Reason: "waits for beta"}
	f, o := &clitest.Log{Open: []pipeline.StepState{step, step},
		Views: clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusActive))}, clitest.NewOutput(clitest.AsText)
	open, err := RunWhy(t.Context(), WhyOptions{Deployments: f, Ref: greeter2, Target: "prod", Idle: clitest.Idle, Out: o.Printer})
	if err != nil || open != 2 {
		t.Errorf("%d open, %v", open, err)
	}
	f.WantCalls(t, "Why greeter#2 prod", "Deployment greeter#2")
	o.Want(t, "prod  stage-started  waits for beta; the same holds for 1 other step\n", clitest.IdleWarning)
	f.Calls = nil
	if _, err := RunWhy(t.Context(), WhyOptions{Deployments: f, Ref: greeter2, Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Why greeter#2") // plan --why looks at nothing else
}

// logged are entries of a deployment that builds.
func logged() []pipeline.Entry {
	entry := func(seq int64, class pipeline.Class, event, detail string) pipeline.Entry {
		return pipeline.Entry{Seq: seq, Pipeline: "greeter", Deployment: 2, Target: "greeter/build", Class: class,
			Event: event, At: clitest.Noon().Add(time.Duration(seq) * time.Second), Detail: []byte(detail)}
	}
	return []pipeline.Entry{entry(1, pipeline.Note, pipeline.StepClaimed, `{"event":"build-completed"}`),
		entry(4, pipeline.Fact, pipeline.BuildCompleted, `{}`)}
}

func TestWatchShowsADeploymentUntilItsEnd(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := &clitest.Log{Views: clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusActive)), Written: logged()}
		log := clitest.NewEnding(f, 3, clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusFinished))["greeter#2"])
		o := clitest.NewOutput(clitest.AsText)
		if err := runWatch(t.Context(), watchOptions{Log: log, Ref: greeter2, Idle: clitest.Busy, Out: o.Printer}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(o.Printed.String()), "\n")
		if len(lines) != 4 || lines[0] != "greeter#2  revision r1  definition 1" ||
			!strings.Contains(lines[1], "building") || !strings.Contains(lines[2], "built") ||
			!strings.Contains(lines[2], "3.0s") || !strings.HasPrefix(lines[3], "finished: r1") {
			t.Errorf("printed %q", lines)
		}
	})
}

func TestAWatcherKnowsWhatCameBefore(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		active := clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusActive))["greeter#2"]
		f := &clitest.Log{Written: logged()}
		log := clitest.NewEnding(f, 1, clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusFinished))["greeter#2"])
		o := clitest.NewOutput(clitest.AsText)
		w := NewWatcher(log, o.Printer, active, "")
		if err := w.Skip(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Run(t.Context()); err != nil {
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
		f := &clitest.Log{Written: logged()}
		log := &away{Ending: clitest.NewEnding(f, 1, clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusFinished))["greeter#2"]), times: 3}
		f.Read = log.Deployment
		o := clitest.NewOutput(clitest.AsText)
		w := NewWatcher(log, o.Printer, clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusActive))["greeter#2"], "")
		v, err := w.Run(t.Context())
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
	*clitest.Ending
	times int
}

func (a *away) Deployment(ctx context.Context, ref service.Ref) (service.DeploymentView, error) {
	if a.times--; a.times >= 0 {
		return service.DeploymentView{}, clitest.ErrAway
	}
	return a.Ending.Deployment(ctx, ref)
}

func TestAWatcherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := &clitest.Log{Views: clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusActive))}
		w := NewWatcher(f, clitest.NewOutput(clitest.AsJSON).Printer, f.Views["greeter#2"], "")
		enough := errors.New("enough")
		ctx, stop := context.WithTimeoutCause(t.Context(), time.Minute, enough)
		defer stop()
		if _, err := w.Run(ctx); !errors.Is(err, enough) {
			t.Errorf("ended with %v", err)
		}
	})
}
