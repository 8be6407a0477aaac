package server_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// twoRevisions returns a world in which greeter#1 has finished with 3f2c9a1, greeter#2 with 88d0e17
// stopped at elm in prod, and greeter#3 waits behind it.
func twoRevisions(t *testing.T) *servertest.World {
	t.Helper()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	second, err := w.Service.Register(t.Context(), pipeline.RegisteredRevision{Pipeline: "greeter", Label: "88d0e17"}, false, "")
	if err != nil {
		t.Fatal(err)
	}
	artifact := pipeline.RevisionArtifact{Label: "any", Name: "any", Blob: "sha256/second", Digest: strings.Repeat("5e", 32), Size: 6}
	if err := w.Ledger.RegisterArtifact(t.Context(), "greeter", second.Revision.Seq, artifact); err != nil {
		t.Fatal(err)
	}
	w.Script.Hold("prod/east/elm host-deployed")
	for range 2 {
		if _, err := w.Service.Deploy(t.Context(), service.NewDeployment{Pipeline: "greeter", Revision: "88d0e17"}); err != nil {
			t.Fatal(err)
		}
	}
	w.Until(t, service.Ref{Pipeline: "greeter", Number: 2}, "reaches elm", func(v service.DeploymentView) bool {
		return v.State.Live == 1 && v.Stages[2].State == service.RunRunning && v.Stages[2].Groups[1].State == service.RunFinished
	})
	return w
}

// The rollback does what its preview reported.
func TestPreviewOfARollbackSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	w, ctx := twoRevisions(t), t.Context()
	if _, err := w.Service.PreviewRollback(ctx,
		service.TargetRequest{Pipeline: "greeter", Target: "nowhere"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown target: %v, want it not found", err)
	}
	want := service.TargetRequest{Pipeline: "greeter", Target: "prod", By: "ana"}
	got, err := w.Service.PreviewRollback(ctx, want)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, host := range got.Hosts {
		hosts = append(hosts, host.Target)
	}
	if diff := cmp.Diff([]string{"greeter/prod/east/elm", "greeter/prod/west/yew"}, hosts); diff != "" {
		t.Errorf("hosts: %s", diff)
	}
	if runs := got.Hosts[1].Runs; runs == nil || runs.Label != "88d0e17" {
		t.Errorf("yew runs %+v, want 88d0e17", runs)
	}
	got.Hosts = nil
	if diff := cmp.Diff(service.RollbackPreview{Target: "greeter/prod", Revision: "3f2c9a1", Undoes: 2, Undone: "88d0e17",
		Rejects: true, Cancels: true, Holds: []int64{3}}, got); diff != "" {
		t.Error(diff)
	}
	made, err := w.Service.Rollback(ctx, want)
	if err != nil || made.Label != got.Revision {
		t.Fatalf("the rollback is of %s, %v; want %s", made.Label, err, got.Revision)
	}
	undone, err := w.Service.Deployment(ctx, service.Ref{Pipeline: "greeter", Number: got.Undoes})
	if err != nil || undone.Status != pipeline.StatusCanceled || undone.Snapshot.State != journal.RevisionRejected {
		t.Errorf("#2 is %s, its revision %q, %v; want it canceled and rejected", undone.Status, undone.Snapshot.State, err)
	}
	behind, err := w.Service.Deployment(ctx, service.Ref{Pipeline: "greeter", Number: 3})
	if err != nil || behind.State.Held == "" {
		t.Errorf("#3 is held %q, %v; want it held", behind.State.Held, err)
	}
	w.Script.Release("prod/east/elm host-deployed")
}

// The preview of a deployment names the stages that it takes back to an older revision, and is refused for a rejected
// one.
func TestPreviewOfADeploymentSaysWhatItReplaces(t *testing.T) {
	t.Parallel()
	w, ctx := twoRevisions(t), t.Context()
	again := service.NewDeployment{Pipeline: "greeter", Revision: "3f2c9a1"}
	got, err := w.Service.PreviewDeploy(ctx, again)
	if err != nil || got.Version != 1 || len(got.Stages) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if beta, prod := got.Stages[0], got.Stages[1]; !beta.Newer || beta.Current.Label != "88d0e17" || prod.Newer ||
		prod.Current.Label != "3f2c9a1" {
		t.Errorf("beta %+v, prod %+v; want a newer revision in beta only", beta, prod)
	}
	again.Target = "prod/east"
	if part, err := w.Service.PreviewDeploy(ctx, again); err != nil || len(part.Stages) != 1 || part.Stages[0].Stage != "prod" {
		t.Errorf("of prod/east: %+v, %v; want prod only", part, err)
	}
	for _, target := range []string{"build", "nowhere"} {
		again.Target = target
		_, err := w.Service.PreviewDeploy(ctx, again)
		if _, deployed := w.Service.Deploy(ctx, again); err == nil || fault.CodeOf(err) != fault.CodeOf(deployed) {
			t.Errorf("of %s: the preview says %v, the deployment %v; want both refused alike", target, err, deployed)
		}
	}
	again.Target = ""
	if _, err := w.Service.RejectRevision(ctx, "greeter", "3f2c9a1", "ana", ""); err != nil {
		t.Fatal(err)
	}
	_, err = w.Service.PreviewDeploy(ctx, again)
	if _, deployed := w.Service.Deploy(ctx, again); !fault.Is(err, fault.Refused) || !fault.Is(deployed, fault.Refused) {
		t.Errorf("the preview says %v, the deployment %v; want both refused", err, deployed)
	}
	w.Script.Release("prod/east/elm host-deployed")
}

// The preview of a skip counts the steps that are left out, and is refused as the skip would be.
func TestPreviewOfASkipSaysWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	w, ctx := servertest.Start(t), t.Context()
	w.Apply(t, servertest.Definition)
	w.Script.End("prod/east/elm host-deployed", action.Outcome{Kind: action.Fatal, Error: "no"})
	ref := w.Ship(t, "greeter", "3f2c9a1")
	w.Until(t, ref, "fails", servertest.Ended)
	for _, c := range []struct {
		target, event string
		steps, hosts  int
	}{
		{"prod/east/elm", "", 2, 1},
		{"prod/east/elm", "deploy", 1, 1},
		{"prod/east", "", 5, 2},
		{"beta", "", 0, 0},
		{"", "", 0, 0},
	} {
		got, err := w.Service.PreviewCommand(ctx, ref, service.Command{Kind: "skip", Target: c.target, Event: c.event})
		if (err != nil) != (c.steps == 0) || len(got.Steps) != c.steps || got.Hosts != c.hosts {
			t.Errorf("%s %s: %d steps of %d hosts, %v; want %d of %d", c.target, c.event, len(got.Steps), got.Hosts, err, c.steps, c.hosts)
		}
		if err != nil && !fault.Is(err, fault.Refused) {
			t.Errorf("%s: %v, want it refused", c.target, err)
		}
	}
}

// A dry run over HTTP answers with the effect of the command, is refused as the command would be, and changes
// nothing.
func TestDryRunsOverHTTPChangeNothing(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition)
	ana := s.client()
	if _, err := previewRollback(ctx, ana, service.TargetRequest{Pipeline: "greeter"}); !fault.Is(err, fault.Refused) {
		t.Errorf("a rollback of nothing: %v, want it refused", err)
	}
	s.Script.End("prod/east/elm host-deployed", action.Outcome{Kind: action.Fatal, Error: "no"})
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "fails", servertest.Ended)
	before, err := s.Ledger.Head(ctx, "greeter")
	if err != nil {
		t.Fatal(err)
	}
	retry, err := previewCommand(ctx, ana, ref, service.Command{Kind: "retry"})
	if err != nil || len(retry.Steps) != 1 || retry.Steps[0].Event != pipeline.HostDeployed || retry.Hosts != 1 {
		t.Errorf("retry: %+v, %v; want the deploy of elm", retry, err)
	}
	skip, err := previewCommand(ctx, ana, ref, service.Command{Kind: "skip", Target: "prod/east", Reason: "broken"})
	if err != nil || len(skip.Steps) != 5 || skip.Hosts != 2 || skip.Target != "greeter/prod/east" {
		t.Errorf("skip: %+v, %v; want five steps of two hosts", skip, err)
	}
	if _, err := previewCommand(ctx, ana, ref, service.Command{Kind: "alarm"}); !fault.Is(err, fault.Refused) {
		t.Errorf("an alarm where nothing bakes: %v, want it refused", err)
	}
	again, err := previewDeploy(ctx, ana, service.NewDeployment{Pipeline: "greeter", Revision: "3f2c9a1"})
	if err != nil || again.Revision != "3f2c9a1" || len(again.Stages) != 2 {
		t.Errorf("deploy: %+v, %v; want two stages", again, err)
	}
	for _, want := range []service.NewDeployment{
		{Pipeline: "greeter", Revision: "3f2c9a1", Until: "nowhere"}, {Pipeline: "greeter", Revision: "3f2c9a1", Target: "prod", Until: "prod"},
	} {
		_, would := previewDeploy(ctx, ana, want)
		if _, does := deploy(ctx, ana, want); would == nil || does == nil || !strings.Contains(does.Error(), would.Error()) {
			t.Errorf("%+v: the dry run says %v, the command %v", want, would, does)
		}
	}
	if after, err := s.Ledger.Head(ctx, "greeter"); err != nil || after.Seq != before.Seq {
		t.Errorf("the log is at %d, %v; want %d as before", after.Seq, err, before.Seq)
	}
}

// A rollback that would do something else than was shown is refused where it is appended.
func TestARollbackDoesWhatWasShown(t *testing.T) {
	t.Parallel()
	w, ctx := twoRevisions(t), t.Context()
	for _, want := range []service.TargetRequest{
		{Pipeline: "greeter", Target: "prod", Undoes: 1, Revision: "3f2c9a1"},
		{Pipeline: "greeter", Target: "prod", Undoes: 2, Revision: "88d0e17"},
	} {
		if _, err := w.Service.Rollback(ctx, want); !fault.Is(err, fault.Refused) ||
			!strings.Contains(err.Error(), "would now undo greeter#2 and bring back 3f2c9a1") {
			t.Errorf("%+v: %v, want it refused", want, err)
		}
	}
	made, err := w.Service.Rollback(ctx, service.TargetRequest{Pipeline: "greeter", Target: "prod", Undoes: 2, Revision: "3f2c9a1"})
	if err != nil || made.Label != "3f2c9a1" {
		t.Errorf("what was shown: %+v, %v", made, err)
	}
}
