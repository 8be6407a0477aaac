package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// stores returns the databases that a log can be on.
func stores() map[string]func(testing.TB) *servertest.World {
	all := map[string]func(testing.TB) *servertest.World{"sqlite": servertest.Start}
	maps.Copy(all, sharedStores)
	return all
}

func TestDeploymentShowsWhatItDid(t *testing.T) {
	t.Parallel()
	for name, start := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tellsWhatItDid(t, start(t))
		})
	}
}

func tellsWhatItDid(t *testing.T, w *servertest.World) {
	t.Helper()
	w.Apply(t, servertest.Definition)
	ref := w.Ship(t, "greeter", "3f2c9a1")
	view := w.Until(t, ref, "ends", servertest.Ended)
	if view.Status != pipeline.StatusFinished || view.State.Done != view.State.Total || view.State.Total != 36 {
		t.Errorf("got %s with %d of %d facts, want finished with 36 of 36", view.Status, view.State.Done, view.State.Total)
	}
	steps, err := w.Service.Steps(t.Context(), ref)
	work := 0 // without markers
	for _, step := range steps {
		if step.Work {
			work++
		}
	}
	if view.State.WorkDone != work || view.State.Work != work || work == 0 {
		t.Errorf("%d of %d steps are done, want %d", view.State.WorkDone, view.State.Work, work)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if step.State == pipeline.StateComplete && (step.At.Before(view.State.CreatedAt) || step.At.After(view.State.EndedAt)) {
			t.Errorf("%s %s was done at %v, want a time between %v and %v", step.Target, step.Event, step.At,
				view.State.CreatedAt, view.State.EndedAt)
		}
	}
	var got []string
	for _, stage := range view.Stages {
		got = append(got, stage.Name+" "+string(stage.State))
		for _, step := range stage.Steps {
			got = append(got, "  "+step.Name+" "+step.Word)
		}
		for _, group := range stage.Groups {
			for _, host := range group.Hosts {
				line := "  " + group.Name + "/" + host.Name + " " + string(host.State)
				for _, step := range host.Steps {
					line += " " + step.Word
				}
				got = append(got, line)
			}
		}
	}
	want := []string{
		"build finished", "  build built", "  any received",
		"beta finished", "  all/oak finished replicated deployed tested",
		"prod finished", "  east/elm finished replicated deployed tested", "  east/fir finished replicated deployed tested",
		"  west/yew finished replicated deployed tested",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

func TestFailureSaysWhereWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Script.End("prod/east/elm host-deployed", action.Outcome{Kind: action.Retry, Error: "not healthy within 60s: exit 1"})
	ref := w.Ship(t, "greeter", "3f2c9a1")
	view := w.Until(t, ref, "fails", servertest.Ended)
	if len(view.Failures) != 1 {
		t.Fatalf("got %d failures, want 1: %+v", len(view.Failures), view.Failures)
	}
	got := view.Failures[0]
	got.Action = action.ID{}
	want := service.Failure{
		Target: "greeter/prod/east/elm", Event: "host-deployed", Why: "not healthy within 60s: exit 1",
		Todo: "fix the revision and ship it; if the cause was elsewhere and is fixed: waybill deployment retry greeter#1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failure (-want +got):\n%s", diff)
	}

	w.Script.End("prod/east/elm host-deployed", action.Outcome{})
	if err := w.Service.Command(t.Context(), ref, service.Command{Kind: "retry", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	view = w.Until(t, ref, "finishes", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished })
	if len(view.Failures) != 0 {
		t.Errorf("after the retry there are failures still: %+v", view.Failures)
	}
}

func TestPipelineShowsWhatIsAtAndInsideEachStage(t *testing.T) {
	t.Parallel()
	for name, start := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tellsWhatIsWhere(t, start(t))
		})
	}
}

func tellsWhatIsWhere(t *testing.T, w *servertest.World) {
	t.Helper()
	w.Apply(t, servertest.Definition)
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	w.Script.Hold("prod/east/fir host-deployed")
	ref := w.Ship(t, "greeter", "88d0e17")
	w.Until(t, ref, "reaches fir", func(v service.DeploymentView) bool { return v.State.Done >= 30 })
	view, err := w.Service.Pipeline(t.Context(), "greeter")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, stage := range view.Stages {
		line := stage.Name + " " + stage.Current.Label
		for _, at := range stage.Inside {
			line += " <- " + at.Label
		}
		got = append(got, line)
	}
	want := []string{"build 88d0e17", "beta 88d0e17", "prod 3f2c9a1 <- 88d0e17"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if len(view.Drift) != 0 {
		t.Errorf("drift while a deployment is inside: %+v", view.Drift)
	}
}

func TestApplyStoresOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	proposal, err := service.ReadProposal("waybill.yaml", []byte("# a comment\n"+servertest.Definition))
	if err != nil {
		t.Fatal(err)
	}
	view, err := w.Service.Apply(t.Context(), proposal)
	if err != nil || !view.Unchanged || view.Applied || view.Version != 1 {
		t.Errorf("the same definition: got %+v, %v; want unchanged version 1", view, err)
	}
	none := 0
	proposal.IfVersion = &none
	if view, err := w.Service.Apply(t.Context(), proposal); err != nil || !view.Unchanged {
		t.Errorf("the same definition over version 0, applied by another: got %+v, %v; want unchanged", view, err)
	}
	proposal.Definition.Keep.Releases++
	if _, err := w.Service.Apply(t.Context(), proposal); !fault.Is(err, fault.Conflict) {
		t.Errorf("version 0 wanted, 1 in force: got %v, want a conflict", err)
	}
	proposal.IfVersion = nil
	if view, err := w.Service.Apply(t.Context(), proposal); err != nil || !view.Applied || view.Version != 2 {
		t.Errorf("another definition: got %+v, %v; want version 2 applied", view, err)
	}
}

func TestPlanChangesNothing(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	proposal, err := service.ReadProposal("waybill.yaml", []byte(servertest.Definition))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := w.Service.Plan(t.Context(), service.PlanQuery{Pipeline: "greeter", Proposal: &proposal})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Steps) != 36 || plan.Total != 0 || unmeasured(plan) != 13 {
		t.Errorf("got %d steps, %d unmeasured, in %s; want 36, 13 and no expectation", len(plan.Steps), unmeasured(plan),
			service.Took(time.Duration(plan.Total)))
	}
	if _, err := w.Service.Pipeline(t.Context(), "greeter"); !fault.Is(err, fault.NotFound) {
		t.Errorf("after a plan the pipeline answers %v, want not found", err)
	}
	w.Apply(t, servertest.Definition)
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	if plan, err = w.Service.Plan(t.Context(), service.PlanQuery{Pipeline: "greeter"}); err != nil || unmeasured(plan) != 0 {
		t.Errorf("after a run: %d unmeasured, %v; want recorded durations", unmeasured(plan), err)
	}
}

func unmeasured(plan service.PlanView) int {
	n := 0
	for _, step := range plan.Steps {
		if step.Unmeasured {
			n++
		}
	}
	return n
}

func TestUnknownNamesSayWhatIsNear(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	_, err := w.Service.Pipeline(t.Context(), "greetr")
	if !fault.Is(err, fault.NotFound) || fault.HintOf(err) != `did you mean "greeter"?` {
		t.Errorf("got %v (%s)", err, fault.HintOf(err))
	}
	if _, err := w.Service.Deployment(t.Context(), service.Ref{Pipeline: "greeter", Number: 9}); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want not found", err)
	}
	if err := w.Service.Command(t.Context(), service.Ref{Pipeline: "greeter", Number: 9},
		service.Command{Kind: "explode"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v, want invalid", err)
	}
}

// TestAnOutputThatIsNotStoredYetIsUnavailable: an end does not wait for the blob store, so a client may ask too early.
func TestAnOutputThatIsNotStoredYetIsUnavailable(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	state := queue.ActionState{OutputRef: "action/outputs.json"}
	if _, err := w.Service.Output(t.Context(), state); !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("before: %v", err)
	}
	if _, _, _, err := w.Blobs.Put(t.Context(), state.OutputRef, strings.NewReader(`{"n": 1}`)); err != nil {
		t.Fatal(err)
	}
	if output, err := w.Service.Output(t.Context(), state); err != nil || string(output) != `{"n": 1}` {
		t.Errorf("after: %s, %v", output, err)
	}
}

// The last stage of a deployment is in the row that creates it, even if its creator dies right after that.
func TestDeploymentIsCreatedWithItsLastStage(t *testing.T) {
	t.Parallel()
	starts := map[string]func(t *testing.T) (*servertest.World, operation.Caller){
		"over HTTP": func(t *testing.T) (*servertest.World, operation.Caller) {
			s := serve(t, "127.0.0.1:7070")
			return s.World, s.client()
		},
	}
	for name, start := range stores() {
		starts[name] = func(t *testing.T) (*servertest.World, operation.Caller) {
			w := start(t)
			return w, server.NewLocal(w.Service, "ana")
		}
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, client := start(t)
			w.Apply(t, servertest.Definition)
			revision := pipeline.RegisteredRevision{Pipeline: "greeter", Label: "3f2c9a1", By: "ana"}
			if _, err := register(t.Context(), client, revision, true, "bata"); !fault.Is(err, fault.Invalid) ||
				!strings.Contains(err.Error(), `stage "bata" not found`) {
				t.Errorf("register until an unknown stage: %v", err)
			}
			made, err := register(t.Context(), client, revision, true, "beta")
			if err != nil {
				t.Fatal(err)
			}
			again, err := deploy(t.Context(), client, service.NewDeployment{Pipeline: "greeter", Revision: "3f2c9a1", Until: "build"})
			if err != nil {
				t.Fatal(err)
			}
			for number, want := range map[int64]string{made.Deployment.Number: "beta", again.Number: "build"} {
				ref := service.Ref{Pipeline: "greeter", Number: number}
				view := w.Until(t, ref, "stops", func(v service.DeploymentView) bool {
					return v.State.Live == 0 && slices.ContainsFunc(v.Stages,
						func(s service.StageRun) bool { return s.Name == want && s.State == service.RunFinished })
				})
				prod := view.Stages[2]
				if view.State.Until != want || prod.State != service.RunWaiting || prod.Reason != ref.String()+" goes no further than "+want {
					t.Errorf("%s until %q: prod is %s: %s", ref, view.State.Until, prod.State, prod.Reason)
				}
			}
			ref := service.Ref{Pipeline: "greeter", Number: again.Number}
			if err := command(t.Context(), client, ref, service.Command{Kind: "until", Target: "prod"}); err != nil {
				t.Fatal(err)
			}
			w.Until(t, ref, "finishes", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished })
		})
	}
}

// Services are listed with the reports of their hosts, and one is shown in full, here and through a server.
func TestServicesOfHosts(t *testing.T) {
	t.Parallel()
	w := serve(t, "127.0.0.1:0")
	began := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	w.Service.Inspect = func(_ context.Context, at pipeline.Place, service string) (step.State, bool, error) {
		switch at.Host.Name {
		case "elm":
			return step.State{Supervisor: 7, Service: 8, Restarts: 12, Exit: "3", Started: began, Release: "r1",
				Running: service, Unfinished: true}, true, nil
		case "fir":
			return step.State{}, false, nil
		}
		return step.State{}, true, errors.New("no route to " + at.Host.Name)
	}
	w.Apply(t, servertest.Definition)
	client := w.client()
	if err := onlyError(operation.ListServices.Call(t.Context(), client,
		operation.PipelinePath{Pipeline: "unknown"})); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown pipeline: %v", err)
	}
	before, err := operation.ListServices.Call(t.Context(), client, operation.PipelinePath{Pipeline: "greeter"})
	if err != nil || len(before) != 4 || before[0].State.State != service.ServiceUnknown ||
		before[1].Found.Release != "r1" || before[2].State != nil || before[0].Runs != nil {
		t.Errorf("before the first deployment: %+v, %v", before, err)
	}
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	all, err := operation.ListServices.Call(t.Context(), client, operation.PipelinePath{Pipeline: "greeter"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range all {
		got = append(got, fmt.Sprintf("%s %s %s %s %s", v.Target, v.Name, v.Manager, v.Runs.Label, v.State))
	}
	want := []string{"greeter/beta/all/oak greeter process 3f2c9a1 unknown: no route to oak",
		"greeter/prod/east/elm greeter process 3f2c9a1 up, 12 restarts, last exit status 3",
		"greeter/prod/east/fir greeter process 3f2c9a1 unknown: its folder is not on this machine any more",
		"greeter/prod/west/yew greeter process 3f2c9a1 unknown: no route to yew"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	full, err := operation.GetServiceStatus.Call(t.Context(), client,
		operation.ServiceStatusInput{ServiceHost: serviceOn("greeter/prod/east/elm")})
	if err != nil || full.Host == nil || !full.Host.Unfinished || full.Host.Release != "r1" || !full.State.Since.Equal(began) {
		t.Errorf("status of elm: %+v, %v", full, err)
	}
	if err := onlyError(operation.GetServiceStatus.Call(t.Context(), client,
		operation.ServiceStatusInput{ServiceHost: serviceOn("greeter/prod/east/elm"), Verify: true})); !fault.Is(err,
		fault.Unavailable) || !strings.Contains(err.Error(), "reaches no hosts") {
		t.Errorf("the files, where no host is reached: %v", err)
	}
	w.Service.Verify = func(_ context.Context, at pipeline.Place, service string) ([]string, error) {
		return []string{at.Host.Name + "/" + service}, nil
	}
	verified, err := operation.GetServiceStatus.Call(t.Context(), client,
		operation.ServiceStatusInput{ServiceHost: serviceOn("greeter/prod/east/elm"), Verify: true})
	if err != nil || full.Verified || !verified.Verified || !slices.Equal(verified.Changed, []string{"elm/greeter"}) {
		t.Errorf("the files: %+v, %v", verified, err)
	}
	away, err := operation.GetServiceStatus.Call(t.Context(), client,
		operation.ServiceStatusInput{ServiceHost: serviceOn("greeter/prod/west/yew")})
	if err != nil || away.Host != nil || away.State == nil || away.State.Error != "no route to yew" {
		t.Errorf("status of yew: %+v, %v", away, err)
	}
	if err := onlyError(operation.GetServiceStatus.Call(t.Context(), client,
		operation.ServiceStatusInput{ServiceHost: serviceOn("greeter/prod/east")})); !fault.Is(err, fault.NotFound) {
		t.Errorf("a group: %v", err)
	}
}

// The output of a service is read from place to place, by those who may read it.
func TestServiceLogIsContinued(t *testing.T) {
	t.Parallel()
	w := serve(t, "127.0.0.1:0")
	w.Service.ReadLog = func(_ context.Context, _ pipeline.Place, _ *pipeline.Service, q step.LogQuery) (step.ServiceLog, bool, error) {
		return step.ServiceLog{Text: fmt.Appendf(nil, "after %s, whole %v\xff", q.After, q.Whole),
			Next: step.LogPlace{File: 7, Offset: q.After.Offset + 4}}, true, nil
	}
	w.Apply(t, servertest.Definition)
	q := operation.ServiceLogInput{ServiceHost: serviceOn("greeter/beta/all/oak"), Follow: true}
	for _, want := range []service.ServiceLogView{{Text: "after 0.0, whole true\ufffd", Next: "7.4"},
		{Text: "after 7.4, whole true\ufffd", Next: "7.8"}} {
		got, err := operation.ReadServiceLog.Call(t.Context(), w.client(), q)
		if err != nil || got.Text != want.Text || got.Next != want.Next {
			t.Errorf("%+v: %+v, %v; want %+v", q, got, err, want)
		}
		q.After = got.Next
	}
	q.After = "7"
	if err := onlyError(operation.ReadServiceLog.Call(t.Context(), w.client(), q)); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), `after: want a place in a log such as 4711.80, found "7"`) {
		t.Errorf("a place that is none: %v", err)
	}
	if err := onlyError(operation.ReadServiceLog.Call(t.Context(), client.New(w.URL, "", "ana"), q)); !fault.Is(err,
		fault.Forbidden) && !fault.Is(err, fault.Unauthorized) {
		t.Errorf("without a token: %v", err)
	}
}

// What a unit of the host prints is in the host's journal, and no host is asked for it.
func TestServiceLogOfAUnitIsInTheJournal(t *testing.T) {
	t.Parallel()
	w := serve(t, "127.0.0.1:0")
	w.Service.ReadLog = func(context.Context, pipeline.Place, *pipeline.Service, step.LogQuery) (step.ServiceLog, bool, error) {
		t.Error("a host was asked")
		return step.ServiceLog{}, false, nil
	}
	w.Apply(t, strings.Replace(servertest.Definition, `{url: "local://yew", vars: {port: 7104}}`,
		`{url: "local://yew", vars: {port: 7104}, service: {manager: systemd, unit: greeter.service}}`, 1))
	err := onlyError(operation.ReadServiceLog.Call(t.Context(), w.client(),
		operation.ServiceLogInput{ServiceHost: serviceOn("greeter/prod/west/yew")}))
	if !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), "is in the journal of its host") ||
		fault.HintOf(err) != "on the host: journalctl --unit=greeter.service" {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}

// A restart is an action of the caller, and is refused where Waybill runs no service or a deployment is at work.
func TestRestartService(t *testing.T) {
	t.Parallel()
	w := serve(t, "127.0.0.1:0")
	w.Apply(t, strings.Replace(servertest.Definition, `{url: "local://yew", vars: {port: 7104}}`,
		`{url: "local://yew", vars: {port: 7104}, service: {manager: none}}`, 1))
	restart := func(host, reason string) error {
		return onlyError(operation.RestartService.Call(t.Context(), w.client(),
			operation.ServiceRestartInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
				Body: operation.ServiceRestartBody{Target: "greeter/" + host, Reason: reason}}))
	}
	refuse := func(err error, code fault.Code, text string) {
		t.Helper()
		if !fault.Is(err, code) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s: %s", err, code, text)
		}
	}
	refuse(restart("beta/all/oak", ""), fault.Refused, "nothing was deployed to greeter/beta/all/oak yet")
	refuse(restart("prod/west/yew", ""), fault.Refused, "its manager is none")
	refuse(restart("prod/west/oak", ""), fault.NotFound, `has no host "greeter/prod/west/oak"`)
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)

	storeToken(t, w.Ledger, "ci", "an-executing-token", "execute")
	refuse(onlyError(operation.RestartService.Call(t.Context(), client.New(w.URL, "an-executing-token", ""),
		operation.ServiceRestartInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Body: operation.ServiceRestartBody{Target: "greeter/beta/all/oak"}})), fault.Forbidden, "")
	if err := onlyError(w.Service.RestartService(t.Context(), service.ServiceRestart{Pipeline: "greeter",
		Target: "greeter/beta/all/oak", Reason: strings.Repeat("a", 1001)})); !fault.Is(err, fault.Invalid) {
		t.Errorf("a long reason: %v", err)
	}

	w.Script.Hold("beta/all/oak host-deployed")
	second := w.Ship(t, "greeter", "88d0e17")
	w.Until(t, second, "deploys to oak", func(v service.DeploymentView) bool {
		return slices.ContainsFunc(v.Stages[1].Groups[0].Hosts[0].Steps, func(s service.StepRun) bool {
			return s.Event == pipeline.HostDeployed && s.State == pipeline.StateClaimed
		})
	})
	refuse(restart("beta/all/oak", ""), fault.Refused, "greeter#2 is at work on greeter/beta/all/oak")
	if err := restart("prod/east/elm", "slow"); err != nil {
		t.Errorf("a host that the deployment has not reached: %v", err)
	}
	w.Script.Release("beta/all/oak host-deployed")
	w.Until(t, second, "ends", servertest.Ended)
	added, err := operation.RestartService.Call(t.Context(), w.client(),
		operation.ServiceRestartInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Body: operation.ServiceRestartBody{Target: "greeter/prod/east/elm", Reason: "again"}})
	if err != nil || added.Created || added.CreatedBy != "ana" || added.Handler != step.RestartHandler ||
		!strings.Contains(string(added.Parameters), `"deployment":1,"revision":1,"reason":"slow"`) {
		t.Errorf("while a restart is live: %+v, %s, %v; want that one", added, added.Parameters, err)
	}
	added, err = operation.RestartService.Call(t.Context(), w.client(),
		operation.ServiceRestartInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Body: operation.ServiceRestartBody{Target: "greeter/beta/all/oak", Verify: true}})
	if err != nil || !added.Created || !strings.Contains(string(added.Parameters), `"verify":true`) {
		t.Errorf("a restart that verifies: %s, %v", added.Parameters, err)
	}
}

func onlyError[T any](_ T, err error) error { return err }

// A host runs the release that it switched to last, and the state of its service is read if the host is on this machine.
func TestPipelineShowsReleasesAndServicesOfHosts(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Service.Inspect = func(_ context.Context, at pipeline.Place, service string) (step.State, bool, error) {
		switch at.Host.Name {
		case "elm":
			return step.State{Supervisor: 7, Restarts: 12, Exit: "3"}, true, nil
		case "fir":
			return step.State{Supervisor: 7, Service: 8, Restarts: 1, Exit: "1", Running: service}, true, nil
		case "yew":
			return step.State{}, true, nil
		}
		return step.State{}, false, nil
	}
	w.Apply(t, servertest.Definition)
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	w.Script.End("prod/east/elm host-deployment-tested", action.Outcome{Kind: action.Fatal, Error: "503"})
	w.Until(t, w.Ship(t, "greeter", "88d0e17"), "fails", servertest.Ended)
	view, err := w.Service.Pipeline(t.Context(), "greeter")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range view.Hosts {
		line := h.Target + " " + h.Runs.Label + " " + h.Runs.Doubt
		if h.Service != nil {
			line += "; " + h.Service.String()
		}
		got = append(got, line)
	}
	want := []string{"greeter/beta/all/oak 88d0e17 ; unknown: its folder is not on this machine any more",
		"greeter/prod/east/elm 88d0e17 test failed; restarting, 12 restarts, last exit status 3",
		"greeter/prod/east/fir 3f2c9a1 ; up, 1 restart, last exit status 1", "greeter/prod/west/yew 88d0e17 ; down"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if len(view.Drift) == 0 || view.Drift[0].Reason != "runs 88d0e17 of #2, test failed, which has failed" {
		t.Errorf("drift %+v", view.Drift)
	}
	status, err := w.Service.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var troubles []string
	for _, trouble := range status.Troubles {
		if trouble.Kind == service.TroubleService {
			troubles = append(troubles, trouble.Text)
		}
	}
	want = []string{"the service on greeter/prod/east/elm is restarting, 12 restarts, last exit status 3",
		"the service on greeter/prod/west/yew is down"}
	if diff := cmp.Diff(want, troubles); diff != "" || !status.KeepsUp {
		t.Errorf("troubles (-want +got):\n%s", diff)
	}
}

// serviceOn names the service of a host of the tests' pipeline.
func serviceOn(target string) operation.ServiceHost {
	return operation.ServiceHost{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Target: target}
}
