package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestRejectedRevisionsAreNotDeployedOverHTTP(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition)
	ref := s.Ship(t, "greeter", "3f2c9a1")
	ana := s.client()
	if _, err := operation.AcceptRevision.Call(ctx, ana,
		operation.JudgmentInput{LabelPath: operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Label: "3f2c9a1"}, Body: &operation.JudgmentBody{Reason: ""}}); !fault.Is(err, fault.Refused) {
		t.Errorf("accept a revision that is not rejected: %v", err)
	}
	storeToken(t, s.Ledger, "cyd", "an-executing-token", "execute", "approve")
	if _, err := operation.RejectRevision.Call(ctx, client.New(s.URL, "an-executing-token", ""),
		operation.JudgmentInput{LabelPath: operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Label: "3f2c9a1"}, Body: &operation.JudgmentBody{Reason: ""}}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("with the scope execute: %v", err)
	}
	if r, err := operation.RejectRevision.Call(ctx, ana,
		operation.JudgmentInput{LabelPath: operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Label: "3f2c9a1"}, Body: &operation.JudgmentBody{Reason: "loses sessions"}}); err != nil || r.State != journal.RevisionRejected {
		t.Fatalf("rejected: %+v, %v", r, err)
	}
	if _, err := operation.RejectRevision.Call(ctx, ana,
		operation.JudgmentInput{LabelPath: operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Label: "3f2c9a1"}, Body: &operation.JudgmentBody{Reason: ""}}); !fault.Is(err, fault.Refused) ||
		!strings.Contains(err.Error(), "was rejected by ana: loses sessions") {
		t.Errorf("rejected twice: %v", err)
	}
	want := service.NewDeployment{Pipeline: "greeter", Revision: "3f2c9a1"}
	if _, err := deploy(ctx, ana, want); !fault.Is(err, fault.Refused) || fault.HintOf(err) != "waybill revision accept greeter 3f2c9a1" {
		t.Errorf("deploy: %v (%s)", err, fault.HintOf(err))
	}
	if _, err := operation.RejectRevision.Call(ctx, ana,
		operation.JudgmentInput{LabelPath: operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Label: "unknown"}, Body: &operation.JudgmentBody{Reason: ""}}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown revision: %v", err)
	}
	if r, err := operation.AcceptRevision.Call(ctx, ana,
		operation.JudgmentInput{LabelPath: operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Label: "3f2c9a1"}, Body: &operation.JudgmentBody{Reason: ""}}); err != nil || r.State == journal.RevisionRejected {
		t.Errorf("accepted: %+v, %v", r, err)
	}
	if _, err := deploy(ctx, ana, want); err != nil {
		t.Errorf("deploy the accepted revision: %v", err)
	}
	// The second one may pass the first, whose build has not ended although its artifact is there.
	s.Until(t, ref, "ends", servertest.Ended)
}

func TestRollbackOverHTTP(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition)
	ana := s.client()
	finished := func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished }
	if _, err := rollBack(ctx, ana, service.TargetRequest{Pipeline: "greeter"}); !fault.Is(err, fault.Refused) ||
		!strings.Contains(err.Error(), "nothing has been deployed to greeter") {
		t.Errorf("before anything was deployed: %v", err)
	}
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", finished)
	second, err := register(ctx, ana, pipeline.RegisteredRevision{Pipeline: "greeter", Label: "88d0e17"}, false, "")
	if err != nil {
		t.Fatal(err)
	}
	artifact := pipeline.RevisionArtifact{Label: "any", Name: "any", Blob: "sha256/second", Digest: digestOf("second"), Size: 6}
	if err := s.Ledger.RegisterArtifact(ctx, "greeter", second.Revision.Seq, artifact); err != nil {
		t.Fatal(err)
	}
	if _, err := deploy(ctx, ana, service.NewDeployment{Pipeline: "greeter", Revision: "88d0e17"}); err != nil {
		t.Fatal(err)
	}
	s.Until(t, service.Ref{Pipeline: "greeter", Number: 2}, "ends", finished)
	storeToken(t, s.Ledger, "cyd", "an-executing-token", "execute", "approve")
	if _, err := rollBack(ctx, client.New(s.URL, "an-executing-token", ""),
		service.TargetRequest{Pipeline: "greeter"}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("with the scope execute: %v", err)
	}
	for _, seen := range []service.TargetRequest{{Pipeline: "greeter", Undoes: 1, Revision: "3f2c9a1"},
		{Pipeline: "greeter", Undoes: 2, Revision: "88d0e17"}} {
		if _, err := s.Service.Rollback(ctx, seen); !fault.Is(err, fault.Refused) ||
			!strings.Contains(err.Error(), "would now undo greeter#2 and bring back 3f2c9a1") {
			t.Errorf("other than the person has seen: %v", err)
		}
	}
	d, err := rollBack(ctx, ana, service.TargetRequest{Pipeline: "greeter", Target: "prod", Reason: "error rate"})
	if err != nil || d.Number != 3 || d.Kind != journal.Rollback || d.Label != "3f2c9a1" || d.By != "ana" {
		t.Fatalf("rollback: %+v, %v", d, err)
	}
	if r, err := operation.GetRevision.Call(ctx, ana, operation.LabelPath{
		PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Label: "88d0e17"}); err != nil || r.State != journal.RevisionRejected {
		t.Errorf("what was undone: %+v, %v", r, err)
	}
	s.Until(t, service.Ref{Pipeline: "greeter", Number: 3}, "ends", finished)
	if _, err := rollBack(ctx, ana, service.TargetRequest{Pipeline: "greeter", Target: "greeter/prod"}); !fault.Is(err, fault.Refused) {
		t.Errorf("a second rollback: %v, want no older revision", err)
	}
	if _, err := rollBack(ctx, ana, service.TargetRequest{Pipeline: "greeter", Target: "nowhere"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown target: %v", err)
	}
}

// TestFailureIsRolledBackOverHTTP: a client sees which rollback follows a failure, and that none follows the rollback's own.
func TestFailureIsRolledBackOverHTTP(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition+"  onFailure: rollback\n")
	ana := s.client()
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	second, err := register(ctx, ana, pipeline.RegisteredRevision{Pipeline: "greeter", Label: "88d0e17"}, false, "")
	if err != nil {
		t.Fatal(err)
	}
	artifact := pipeline.RevisionArtifact{Label: "any", Name: "any", Blob: "sha256/second", Digest: digestOf("second"), Size: 6}
	if err := s.Ledger.RegisterArtifact(ctx, "greeter", second.Revision.Seq, artifact); err != nil {
		t.Fatal(err)
	}
	s.Script.End("prod/east/elm host-deployed", action.Outcome{Kind: action.Fatal, Error: "no"})
	if _, err := deploy(ctx, ana, service.NewDeployment{Pipeline: "greeter", Revision: "88d0e17"}); err != nil {
		t.Fatal(err)
	}
	s.Until(t, service.Ref{Pipeline: "greeter", Number: 2}, "ends", servertest.Ended)
	v, err := operation.GetDeployment.Call(ctx, ana, operation.PathOf(service.Ref{Pipeline: "greeter", Number: 2}))
	if err != nil || v.State.RolledBackBy != 3 {
		t.Fatalf("what failed: %+v, %v", v.State, err)
	}
	back := s.Until(t, service.Ref{Pipeline: "greeter", Number: 3}, "ends", servertest.Ended)
	if back.Kind != journal.Rollback || back.Label != "3f2c9a1" || back.Status != pipeline.StatusFailed || back.State.RolledBackBy != 0 {
		t.Errorf("the rollback: %+v", back)
	}
	entries, err := operation.ReadLog.Call(ctx, ana, operation.LogInputOf(journal.EntryQuery{Pipeline: "greeter", Deployment: 3}))
	if err != nil {
		t.Fatal(err)
	}
	alarms := slices.DeleteFunc(entries, func(e pipeline.Entry) bool { return e.Event != pipeline.AlarmRaised })
	if len(alarms) != 1 || alarms[0].Target != "greeter/prod" ||
		!strings.Contains(string(alarms[0].Detail), "greeter#3 is a rollback that failed") {
		t.Errorf("alarms: %+v", alarms)
	}
}

func TestCatchUpOverHTTP(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition)
	ana := s.client()
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	if _, err := catchUp(ctx, ana, service.TargetRequest{Pipeline: "greeter"}); !fault.Is(err, fault.Refused) ||
		!strings.Contains(err.Error(), "no host of greeter lacks") {
		t.Errorf("where every host is current: %v", err)
	}
	s.Apply(t, strings.Replace(servertest.Definition, `{url: "local://yew"`,
		`{url: "local://ash", vars: {port: 7105}}, {url: "local://yew"`, 1))
	storeToken(t, s.Ledger, "ben", "a-reading-token-1", "read")
	if _, err := catchUp(ctx, client.New(s.URL, "a-reading-token-1", ""),
		service.TargetRequest{Pipeline: "greeter"}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("with the scope read: %v", err)
	}
	if _, err := catchUp(ctx, ana, service.TargetRequest{Pipeline: "greeter", Target: "nowhere"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown target: %v", err)
	}
	d, err := catchUp(ctx, ana, service.TargetRequest{Pipeline: "greeter", Target: "prod/west", Reason: "more load"})
	if err != nil || d.Number != 2 || d.Kind != journal.CatchUp || d.Label != "3f2c9a1" || d.By != "ana" {
		t.Fatalf("catch-up: %+v, %v", d, err)
	}
	s.Until(t, service.Ref{Pipeline: "greeter", Number: 2}, "ends",
		func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished })
	view, err := operation.GetPipeline.Call(ctx, ana, operation.PipelinePath{Pipeline: "greeter"})
	if err != nil || len(view.Drift) > 0 {
		t.Errorf("after it: %+v, %v", view.Drift, err)
	}
}
