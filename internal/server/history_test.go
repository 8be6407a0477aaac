package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestQuestionsAreAnsweredOverHTTP(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition)
	ana := s.client()
	if _, err := operation.GetDifference.Call(ctx, ana, operation.DifferenceInput{
		PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, From: "beta", To: "prod"}); !fault.Is(err, fault.Refused) {
		t.Errorf("difference before anything was deployed: %v", err)
	}
	finished := func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished }
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", finished)
	second := s.Ship(t, "greeter", "88d0e17")
	s.Until(t, second, "ends", finished)

	passages, err := operation.ListHistory.Call(ctx, ana,
		operation.HistoryInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Target: "beta/all/oak"})
	if err != nil || len(passages) != 2 || passages[0].Label != "88d0e17" || passages[1].Outcome != "finished" ||
		len(passages[1].Entries) == 0 {
		t.Errorf("history of oak: %+v, %v", passages, err)
	}
	older, err := operation.ListHistory.Call(ctx, ana, operation.HistoryInput{
		PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Target: "greeter/beta/all/oak", Before: passages[0].Seq, Limit: 5})
	if err != nil || len(older) != 1 || older[0].Label != "3f2c9a1" {
		t.Errorf("the page after it: %+v, %v", older, err)
	}
	if all, err := operation.ListHistory.Call(ctx, ana,
		operation.HistoryInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}}); err != nil || len(all) != 2 {
		t.Errorf("history of the pipeline: %+v, %v", all, err)
	}
	view, err := operation.GetTarget.Call(ctx, ana,
		operation.TargetInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Target: "prod"})
	if err != nil || view.Current == nil || view.Current.Label != "88d0e17" || view.Current.At.IsZero() ||
		view.Failed != nil || len(view.Open) != 0 {
		t.Errorf("prod: %+v, %v", view, err)
	}
	between, err := operation.GetDifference.Call(ctx, ana,
		operation.DifferenceInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, From: "3f2c9a1", To: "prod"})
	if err != nil || between.Newer != "prod" || len(between.Revisions) != 1 || between.Revisions[0].Label != "88d0e17" ||
		between.To.Deployment != second.Number {
		t.Errorf("difference: %+v, %v", between, err)
	}
	for _, point := range []string{"prod/east", "prod/east/elm"} { // neither a stage nor a label
		if wrong, err := operation.GetDifference.Call(ctx, ana, operation.DifferenceInput{
			PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, From: "beta", To: point}); !fault.Is(err, fault.NotFound) {
			t.Errorf("difference to %s: %+v, %v", point, wrong, err)
		}
	}
	if same, err := operation.GetDifference.Call(ctx, ana,
		operation.DifferenceInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, From: "beta",
			To: "prod"}); err != nil || same.Newer != "" || len(same.Revisions) != 0 {
		t.Errorf("difference of two equal stages: %+v, %v", same, err)
	}
	stages, err := operation.GetMetrics.Call(ctx, ana,
		operation.MetricsInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Weeks: 2})
	if err != nil || len(stages) != 3 || stages[2].Stage != "prod" || stages[2].All.Deployments != 2 || len(stages[2].Weeks) != 2 {
		t.Errorf("metrics: %+v, %v", stages, err)
	}
}

func TestQuestionsAboutWhatIsNotThereAreRefused(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition)
	ana := s.client()
	ask := map[string]func(pipeline, target string) error{
		"history": func(name, target string) error {
			_, err := operation.ListHistory.Call(ctx, ana,
				operation.HistoryInput{PipelinePath: operation.PipelinePath{Pipeline: name}, Target: target})
			return err
		},
		"target": func(name, target string) error {
			_, err := operation.GetTarget.Call(ctx, ana, operation.TargetInput{PipelinePath: operation.PipelinePath{Pipeline: name}, Target: target})
			return err
		},
		"difference": func(name, target string) error {
			_, err := operation.GetDifference.Call(ctx, ana,
				operation.DifferenceInput{PipelinePath: operation.PipelinePath{Pipeline: name}, From: target, To: target})
			return err
		},
		"metrics": func(name, target string) error {
			_, err := operation.GetMetrics.Call(ctx, ana,
				operation.MetricsInput{PipelinePath: operation.PipelinePath{Pipeline: name}, Stage: target})
			return err
		},
	}
	for name, asked := range ask {
		for _, at := range [][2]string{{"greter", "prod"}, {"greeter", "nowhere"}} {
			if err := asked(at[0], at[1]); !fault.Is(err, fault.NotFound) || fault.HintOf(err) == "" {
				t.Errorf("%s of %s: %v (%s)", name, at, err, fault.HintOf(err))
			}
		}
	}
	if _, err := operation.GetMetrics.Call(ctx, ana,
		operation.MetricsInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Weeks: 261}); !fault.Is(err, fault.Invalid) {
		t.Errorf("261 weeks: %v", err)
	}
	if _, err := s.Service.Metrics(ctx, service.MetricsQuery{Pipeline: "greeter", Weeks: -1}); !fault.Is(err, fault.Invalid) {
		t.Errorf("-1 weeks: %v", err)
	}
}

// TestTargetShowsTheHighestRank: a deployment that was resumed after a rollback has gone over it, although the rollback's number is higher.
func TestTargetShowsTheHighestRank(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition)
	ana := s.client()
	deploy := func(label string) service.Ref {
		t.Helper()
		made, err := register(ctx, ana, pipeline.RegisteredRevision{Pipeline: "greeter", Label: label}, false, "")
		if err != nil {
			t.Fatal(err)
		}
		artifact := pipeline.RevisionArtifact{Label: "any", Name: "any", Blob: "sha256/" + label, Digest: digestOf(label), Size: 6}
		if err := s.Ledger.RegisterArtifact(ctx, "greeter", made.Revision.Seq, artifact); err != nil {
			t.Fatal(err)
		}
		d, err := deploy(ctx, ana, service.NewDeployment{Pipeline: "greeter", Revision: label})
		if err != nil {
			t.Fatal(err)
		}
		return service.Ref{Pipeline: "greeter", Number: d.Number}
	}
	command := func(ref service.Ref, kind, target string) {
		t.Helper()
		if err := command(ctx, ana, ref, service.Command{Kind: kind, Target: target, Reason: "a test"}); err != nil {
			t.Fatal(err)
		}
	}
	s.Until(t, deploy("r1"), "ends", servertest.Ended)
	s.Until(t, deploy("r2"), "ends", servertest.Ended)
	s.Script.Hold("beta/all/oak host-deployed")
	third := deploy("r3")
	command(third, "hold", "")
	s.Script.Release("beta/all/oak host-deployed")
	back, err := rollBack(ctx, ana, service.TargetRequest{Pipeline: "greeter", Target: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	s.Until(t, service.Ref{Pipeline: "greeter", Number: back.Number}, "ends", servertest.Ended)
	command(third, "resume", "")
	command(third, "resume", "prod")
	s.Until(t, third, "ends", servertest.Ended)
	view, err := operation.GetTarget.Call(ctx, ana,
		operation.TargetInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Target: "prod/east"})
	if err != nil || view.Current == nil || view.Current.Deployment != third.Number || view.Current.Label != "r3" || view.Current.At.IsZero() {
		t.Errorf("current is %+v, %v; want greeter#3 of r3", view.Current, err)
	}
}

// TestTargetsAreReadInPages: the pages together name every target once, each with the result of Target.
func TestTargetsAreReadInPages(t *testing.T) {
	t.Parallel()
	for name, start := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ctx := start(t), t.Context()
			w.Apply(t, servertest.Definition)
			w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
			w.Script.Hold("beta/all/oak host-deployed")
			second := w.Ship(t, "greeter", "88d0e17")
			w.Until(t, second, "reaches oak", func(v service.DeploymentView) bool { return v.State.Done >= 9 && v.State.Live == 1 })
			var all []service.TargetView
			for after := ""; ; after = all[len(all)-1].Target {
				page, err := w.Service.Targets(ctx, service.TargetQuery{Pipeline: "greeter", After: after, Limit: 3})
				if err != nil || len(page) > 3 {
					t.Fatalf("%d targets after %q, %v", len(page), after, err)
				}
				if len(page) == 0 {
					break
				}
				all = append(all, page...)
			}
			var paths []string
			for _, view := range all {
				paths = append(paths, view.Target)
				alone, err := w.Service.Target(ctx, "greeter", view.Target)
				if err != nil {
					t.Fatal(err)
				}
				for i := range alone.Open {
					alone.Open[i].Steps = alone.Open[i].Steps[:1]
				}
				if diff := cmp.Diff(alone, view); diff != "" {
					t.Errorf("%s (-alone +in the list):\n%s", view.Target, diff)
				}
			}
			want := []string{"greeter", "greeter/beta", "greeter/beta/all", "greeter/beta/all/oak", "greeter/build", "greeter/prod",
				"greeter/prod/east", "greeter/prod/east/elm", "greeter/prod/east/fir", "greeter/prod/west", "greeter/prod/west/yew"}
			if diff := cmp.Diff(want, paths); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
			if oak := all[3]; oak.Current == nil || oak.Current.Label != "3f2c9a1" || len(oak.Open) != 1 ||
				oak.Open[0].Deployment != second.Number || oak.Open[0].Steps[0].State != pipeline.StateClaimed {
				t.Errorf("oak: %+v", oak)
			}
			below, err := w.Service.Targets(ctx, service.TargetQuery{Pipeline: "greeter", Target: "prod/east", After: "prod/east/elm"})
			if err != nil || len(below) != 1 || below[0].Target != "greeter/prod/east/fir" {
				t.Errorf("below prod/east: %+v, %v", below, err)
			}
			w.Script.Release("beta/all/oak host-deployed")
			w.Until(t, second, "ends", servertest.Ended)
		})
	}
}

// TestResourcesAreReadInPages: of all hosts, of a pipeline, of a host.
func TestResourcesAreReadInPages(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition)
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	ana := s.client()
	read := func(q journal.ResourceQuery) (found []string) {
		t.Helper()
		in := operation.ResourcesInput{Pipeline: q.Pipeline, Host: q.Address, Limit: q.Limit}
		if q.After != (pipeline.Resource{}) {
			in.After = q.After.String()
		}
		some, err := operation.ListResources.Call(ctx, ana, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range some {
			found = append(found, pipeline.Resource{Address: r.Address, Service: r.Service}.String())
		}
		return found
	}
	all := read(journal.ResourceQuery{})
	want := []string{"local://elm greeter", "local://fir greeter", "local://oak greeter", "local://yew greeter"}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	fir := pipeline.Resource{Address: "local://fir", Service: "greeter"}
	for name, c := range map[string]struct {
		q    journal.ResourceQuery
		want []string
	}{
		"the first page":          {journal.ResourceQuery{Limit: 2}, want[:2]},
		"the second page":         {journal.ResourceQuery{After: fir, Limit: 2}, want[2:]},
		"a page of a pipeline":    {journal.ResourceQuery{Pipeline: "greeter", After: fir, Limit: 1}, want[2:3]},
		"of a host":               {journal.ResourceQuery{Address: "local://oak"}, want[2:3]},
		"of a host that has none": {journal.ResourceQuery{Address: "local://ash"}, nil},
	} {
		if diff := cmp.Diff(c.want, read(c.q)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, wrong := range []string{"/api/v1/resources?after=elm", "/api/v1/resources?limit=1001",
		"/api/v1/pipelines/greeter/targets?limit=1001"} {
		if status, answer, _ := s.ask(t, "GET", wrong, ""); status/100 != 4 {
			t.Errorf("%s: %d %s", wrong, status, answer)
		}
	}
}
