package service_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// After a stage or a group got another name, what its hosts run is listed and observed under the new one. A host is known by
// its address and its service.
func TestARenamedHostRunsWhatItRan(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	running := 8
	w.Service.Inspect = func(context.Context, pipeline.Place, string) (step.State, bool, error) {
		return step.State{Supervisor: 7, Service: running, Running: "3f2c9a1-aaaaaaaaaaaa"}, true, nil
	}
	for _, renamed := range []struct{ from, to, target, was string }{
		{"name: prod", "name: live", "greeter/live/east/elm", "greeter/prod/east/elm"},
		{"name: east", "name: eu", "greeter/prod/eu/elm", "greeter/prod/east/elm"},
		{`{url: "local://elm"`, `{name: elm-1, url: "local://elm"`, "greeter/prod/east/elm-1", "greeter/prod/east/elm"},
	} {
		w.Apply(t, strings.Replace(servertest.Definition, renamed.from, renamed.to, 1))
		if _, services, err := w.Service.ObserveOnce(t.Context()); err != nil || services[service.ServiceUp] != 4 {
			t.Errorf("%s: observed %v, %v", renamed.to, services, err)
		}
		view, err := w.Service.ServiceStatus(t.Context(), "greeter", renamed.target, false)
		if err != nil || view.Runs == nil || view.Runs.Label != "3f2c9a1" || view.Runs.Deployment != 1 ||
			view.Runs.Target != renamed.was || view.State.State != service.ServiceUp {
			t.Errorf("%s: %+v, %v", renamed.target, view, err)
		}
		at, err := w.Service.Target(t.Context(), "greeter", renamed.target)
		if err != nil || at.Runs == nil || at.Runs.String() != "3f2c9a1 (#1), deployed as prod/east/elm" {
			t.Errorf("%s: %+v, %v", renamed.target, at.Runs, err)
		}
		all, err := w.Service.Pipeline(t.Context(), "greeter")
		if err != nil || len(all.Drift)+len(all.Left) > 0 {
			t.Errorf("%s: drift %+v, left %+v, %v", renamed.to, all.Drift, all.Left, err)
		}
	}
	running = 0
	if _, _, err := w.Service.ObserveOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := w.Service.Services(t.Context(), "greeter")
	if err != nil || all[1].State.State != service.ServiceRestarting {
		t.Errorf("after it died: %+v, %v", all, err)
	}
}

// A host that another log had deployed to is listed by what it reports, never as one that runs nothing.
func TestAHostThatWasTakenOverRunsWhatItReports(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, strings.ReplaceAll(servertest.Definition, "local://", "ssh://deploy@"))
	seen := step.State{Release: "3f2c9a1-aaaaaaaaaaaa", Running: "3f2c9a1-aaaaaaaaaaaa", Supervisor: 7, Service: 8,
		Deployment: "taken over by ana"}
	var unreachable error
	w.Service.Inspect = func(_ context.Context, at pipeline.Place, _ string) (step.State, bool, error) {
		if at.Host.Name != "oak" {
			t.Errorf("%s was asked, to which nothing was deployed", at.Target)
		}
		return seen, true, unreachable
	}
	text, err := json.Marshal(pipeline.TakenDetail{By: "ana", Service: "greeter", Deployment: "greeter#9"})
	if err != nil {
		t.Fatal(err)
	}
	taken := pipeline.Entry{Target: "greeter/beta/all/oak", Event: pipeline.ServiceTakenOver, Class: pipeline.Change, Detail: text}
	if err := w.Ledger.Remark(t.Context(), "greeter", taken); err != nil {
		t.Fatal(err)
	}
	all, err := w.Service.Services(t.Context(), "greeter")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&service.Found{Release: "3f2c9a1-aaaaaaaaaaaa", Deployment: "greeter#9"},
		all[0].Found); diff != "" || all[0].State.State != service.ServiceUp || all[1].State != nil {
		t.Errorf("%+v (-want +got):\n%s", all, diff)
	}
	if _, services, err := w.Service.ObserveOnce(t.Context()); err != nil || services[service.ServiceUp] != 1 {
		t.Errorf("observed %v, %v", services, err)
	}
	w.Script.End("beta/all/oak host-deployed", action.Outcome{Kind: action.Done, Output: []byte(`{"release":"88d0e17-bbbbbbbbbbbb"}`)})
	w.Service.Inspect = nil
	w.Until(t, w.Ship(t, "greeter", "88d0e17"), "ends", servertest.Ended)
	all, err = w.Service.Services(t.Context(), "greeter")
	if err != nil || all[0].Found != nil || all[0].Runs == nil || all[0].Runs.Label != "88d0e17" {
		t.Errorf("after a deployment: %+v, %v", all[0], err)
	}
}

// A host that does not answer cannot be asked for its output either, so the status does not advise that.
func TestTheHintOfAnUnknownServiceIsThatOfItsError(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	changed := fault.New(fault.Refused, "the host key of oak has changed").WithHint("find out why")
	w.Service.Inspect = func(_ context.Context, at pipeline.Place, _ string) (step.State, bool, error) {
		switch at.Host.Name {
		case "oak":
			return step.State{}, false, changed
		case "elm":
			return step.State{}, false, context.DeadlineExceeded
		}
		return step.State{Supervisor: 7, Service: 8}, true, nil
	}
	status, err := w.Service.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hints := map[string]string{}
	for _, trouble := range status.Troubles {
		if trouble.Kind == service.TroubleService {
			hints[trouble.Subject] = trouble.Hint
		}
	}
	want := map[string]string{"greeter/beta/all/oak": "find out why",
		"greeter/prod/east/elm": "waybill service status greeter prod/east/elm asks it again"}
	if diff := cmp.Diff(want, hints); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
}

// With `was` the history, the current revision, the metrics and the rollbacks of a stage continue under its new name.
func TestWhatAStageHadCountsUnderItsNewName(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	w.Until(t, w.Ship(t, "greeter", "88d0e17"), "ends", servertest.Ended)
	source := strings.Replace(servertest.Definition, "- name: prod", "- name: live\n  was: [prod]", 1)
	w.Apply(t, strings.Replace(source, "{name: east,", "{name: eu, was: [east],", 1))
	view, err := w.Service.Pipeline(t.Context(), "greeter")
	if err != nil || view.Stages[2].Current == nil || view.Stages[2].Current.Label != "88d0e17" || len(view.Drift) > 0 {
		t.Errorf("stage %+v, drift %+v, %v", view.Stages[2], view.Drift, err)
	}
	for _, target := range []string{"live", "live/eu", "live/eu/elm"} {
		at, err := w.Service.Target(t.Context(), "greeter", target)
		if err != nil || at.Current == nil || at.Current.Label != "88d0e17" || at.Current.At.IsZero() {
			t.Errorf("%s has %+v, %v", target, at.Current, err)
		}
		passages, err := w.Service.History(t.Context(), journal.HistoryQuery{Pipeline: "greeter", Target: target})
		if err != nil || len(passages) != 2 || passages[0].Deployment != 2 {
			t.Errorf("%s: %d passages, %v", target, len(passages), err)
		}
	}
	measured, err := w.Service.Metrics(t.Context(), service.MetricsQuery{Pipeline: "greeter", Stage: "live"})
	if err != nil || len(measured) != 1 || measured[0].All.Deployments != 2 {
		t.Errorf("metrics %+v, %v", measured, err)
	}
	// Both revisions have the same artifact here, so the candidate is found and leaves nothing to do.
	_, err = w.Service.Rollback(t.Context(), service.TargetRequest{Pipeline: "greeter", Target: "live", By: "ana"})
	if err == nil || err.Error() != "live has the artifact of revision 3f2c9a1 already" {
		t.Errorf("a rollback: %v", err)
	}
	newest, err := w.Service.History(t.Context(), journal.HistoryQuery{Pipeline: "greeter", Target: "live", Limit: 1})
	if err != nil || len(newest) != 1 || newest[0].Deployment != 2 {
		t.Errorf("history %+v, %v", newest, err)
	}
}
