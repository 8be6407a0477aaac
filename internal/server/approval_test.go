package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// withProd returns the world's definition with a key of the stage prod.
func withProd(key string) string {
	return strings.Replace(servertest.Definition, "- name: prod\n", "- name: prod\n  "+key+"\n", 1)
}

// waitsAt reports whether a deployment waits for approval of a stage.
func waitsAt(stage string) func(service.DeploymentView) bool {
	return func(v service.DeploymentView) bool {
		return len(v.State.Approvals) == 1 && v.State.Approvals[0].Stage == stage
	}
}

// Who is in a group when they approve, counts for it; who is not, may not approve. The groups are those of the configuration
// in force.
func TestApprovalsOfGroups(t *testing.T) {
	t.Parallel()
	groups := map[string][]string{"ops": {"bob", "cyd"}, "qa": {"dan"}}
	s := serveOffers(t, service.Offers{Groups: func() map[string][]string { return groups }})
	apply := func(key string) error {
		proposal, err := service.ReadProposal("waybill.yaml", []byte(withProd(key)))
		if err != nil {
			t.Fatal(err)
		}
		return onlyError(applyDefinition(t.Context(), s.client(), proposal))
	}
	for key, want := range map[string]string{
		`approval: {by: ["group:opps"]}`: `waybill.yaml:12:19: stages[2].approval.by[0]: group "opps" not found: groups of people are described in server.yaml (did you mean "ops"?)`,
		`approval: {count: 4, by: ["group:ops", bob, dan]}`: "waybill.yaml:12:21: stages[2].approval.count: 4 approvals " +
			"wanted, 3 people may give them",
	} {
		if err := apply(key); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
	if err := apply(`approval: {count: 3, by: ["group:ops", "group:qa"]}`); err != nil {
		t.Errorf("three approvals of three people: %v", err)
	}
	if err := apply(`approval: {count: 2, by: ["group:ops"]}`); err != nil {
		t.Fatal(err)
	}
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "waits", waitsAt("prod"))
	approve := func(by string) (service.ApprovalView, error) {
		return operation.ApproveStage.Call(t.Context(), client.New(s.URL, homeToken, by), operation.ApprovalInput{
			PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Stage: "prod", Body: operation.ApprovalBody{Decision: "approve"}})
	}
	if _, err := approve("dan"); !fault.Is(err, fault.Forbidden) || fault.HintOf(err) != "one of these may: group:ops" {
		t.Errorf("approved by dan: %v, hint %q", err, fault.HintOf(err))
	}
	if view, err := approve("bob"); err != nil || view.Pending == nil || !slices.Equal(view.Pending.Given, []string{"bob"}) {
		t.Errorf("approved by bob: %+v, %v", view, err)
	}
	groups = map[string][]string{"ops": {"dan"}} // bob has left since; his approval stays
	if view, err := approve("dan"); err != nil || view.Pending != nil {
		t.Errorf("approved by dan, who has joined: %+v, %v", view, err)
	}
}

func TestApprovalsOverHTTP(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	ana, bob := s.client(), client.New(s.URL, homeToken, "bob")
	s.Apply(t, withProd("approval: {count: 2, by: [bob, cyd, ana]}"))
	approve := func(c *client.Client, revision string, reject bool) (service.ApprovalView, error) {
		decision := "approve"
		if reject {
			decision = "reject"
		}
		return operation.ApproveStage.Call(ctx, c, operation.ApprovalInput{
			PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Stage: "prod",
			Body: operation.ApprovalBody{Decision: decision, Revision: revision, Reason: "looks good"}})
	}
	if _, err := approve(bob, "", false); !fault.Is(err, fault.Refused) ||
		!strings.Contains(err.Error(), "nothing waits for approval of prod in greeter") {
		t.Errorf("before anything waits: %v", err)
	}
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "waits", waitsAt("prod"))
	if _, err := approve(ana, "", false); !fault.Is(err, fault.Forbidden) {
		t.Errorf("by the one who registered it: %v, want forbidden", err)
	}
	if _, err := approve(bob, "unknown", false); !fault.Is(err, fault.Refused) ||
		!strings.Contains(fault.HintOf(err), "greeter#1 (3f2c9a1) at prod") {
		t.Errorf("an unknown revision: %v (%s), want what waits", err, fault.HintOf(err))
	}
	for range 2 { // once more is the same
		view, err := approve(bob, "", false)
		if err != nil || view.Deployment != 1 || view.Revision != "3f2c9a1" || view.Pending == nil || len(view.Pending.Given) != 1 {
			t.Errorf("approved by bob: %+v, %v", view, err)
		}
	}
	rows, err := s.Service.Entries(ctx, entriesOf(ref))
	if err != nil {
		t.Fatal(err)
	}
	given := 0
	for _, row := range rows {
		if row.Event == pipeline.ApprovalGiven && row.Target == "greeter/prod" &&
			strings.Contains(string(row.Detail), `"bob"`) && !row.At.IsZero() && row.Revision == 1 {
			given++
		}
	}
	if given != 1 {
		t.Errorf("%d approvals in the log, want 1", given)
	}

	// The scope approve is needed, and no other one suffices; the token's name is recorded.
	storeToken(t, s.Ledger, "operator", "an-operating-token", "operate", "execute", "define")
	storeToken(t, s.Ledger, "cyd", "an-approving-token", "approve")
	if _, err := approve(client.New(s.URL, "an-operating-token", ""), "", false); !fault.Is(err, fault.Forbidden) {
		t.Errorf("with the scope operate: %v, want forbidden", err)
	}
	cyd := client.New(s.URL, "an-approving-token", "ana")
	if view, err := approve(cyd, "3f2c9a1", true); err != nil || view.Pending == nil || view.Pending.Rejected != "by cyd: looks good" {
		t.Errorf("rejected by cyd: %+v, %v", view, err)
	}
	view, err := s.Service.Deployment(ctx, ref)
	if stage := view.Stages[2]; err != nil || stage.State != service.RunWaiting || stage.Reason != "rejected by cyd: looks good" ||
		stage.Who != "waybill approve greeter prod --revision 3f2c9a1" {
		t.Errorf("rejected: %+v, %v", stage.Run, err)
	}
	if view, err := approve(cyd, "", false); err != nil || view.Pending != nil {
		t.Errorf("approved by cyd: %+v, %v", view, err)
	}
	s.Until(t, ref, "ends", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished })
	if _, err := approve(cyd, "3f2c9a1", false); !fault.Is(err, fault.Refused) {
		t.Errorf("after its end: %v, want a refusal", err)
	}
}

func TestApprovalNamesTheRevisionWhenSeveralWait(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, withProd("approval: {self: true}"))
	first := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, first, "waits", waitsAt("prod")) // or the second may start beta before it
	second := s.Ship(t, "greeter", "88d0e17")
	s.Until(t, second, "waits", waitsAt("prod"))
	_, err := operation.ApproveStage.Call(ctx, s.client(), operation.ApprovalInput{
		PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Stage: "prod", Body: operation.ApprovalBody{Decision: "approve"}})
	if want := "name the revision: greeter#1 (3f2c9a1) at prod; greeter#2 (88d0e17) at prod"; !fault.Is(err,
		fault.Refused) || fault.HintOf(err) != want {
		t.Errorf("got %v (%s), want %s", err, fault.HintOf(err), want)
	}
	if _, err := operation.ApproveStage.Call(ctx, s.client(),
		operation.ApprovalInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Stage: "prod",
			Body: operation.ApprovalBody{Decision: "approve", Revision: "88d0e17"}}); err != nil {
		t.Fatal(err)
	}
	// R19: what waits for people keeps no other deployment out.
	s.Until(t, second, "ends", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished })
	s.Until(t, first, "is superseded", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusSuperseded })
}

// TestApprovalByTheOneWhoDeploys: who registered a revision may not approve it, also in a deployment that another person made;
// who made that deployment may.
func TestApprovalByTheOneWhoDeploys(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, withProd("approval: {}"))
	s.Ship(t, "greeter", "3f2c9a1") // by ana
	again, err := s.Service.Deploy(ctx, service.NewDeployment{Pipeline: "greeter", Revision: "3f2c9a1", By: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	s.Until(t, service.Ref{Pipeline: "greeter", Number: again.Number}, "waits", waitsAt("prod"))
	want := service.Approval{Pipeline: "greeter", Stage: "prod", Deployment: again.Number, By: "ana"}
	if _, err := s.Service.Approve(ctx, want); !fault.Is(err, fault.Forbidden) {
		t.Errorf("approved by ana: %v, want forbidden", err)
	}
	want.By = "bob"
	if _, err := s.Service.Approve(ctx, want); err != nil {
		t.Errorf("approved by bob: %v", err)
	}
}

// TestApprovalByTheOneWhoUploads: what is built elsewhere comes from who uploads it.
func TestApprovalByTheOneWhoUploads(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, strings.Replace(withProd("approval: {}"), "build: .wharf-ci.yml", "build: external", 1))
	revision := pipeline.RegisteredRevision{Pipeline: "greeter", Label: "v1", Commit: "3f2c9a1", By: "ana"}
	registered, err := s.Service.Register(ctx, revision, true, "")
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Service.Version(ctx, "greeter", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range v.Definition.ExternalArtifacts() {
		if _, err := s.Service.PutArtifact(ctx, "greeter", "v1", pipeline.RevisionArtifact{Label: a.Label, By: "bob"},
			strings.NewReader("abc")); err != nil {
			t.Fatal(err)
		}
	}
	ref := service.Ref{Pipeline: "greeter", Number: registered.Deployment.Number}
	s.Until(t, ref, "waits", waitsAt("prod"))
	for by, want := range map[string]string{"ana": "ana registered revision v1 and may not approve it",
		"bob": "bob uploaded an artifact of revision v1 and may not approve it"} {
		if _, err := s.Service.Approve(ctx, service.Approval{Pipeline: "greeter", Stage: "prod", By: by}); !fault.Is(err,
			fault.Forbidden) || !strings.Contains(err.Error(), want) {
			t.Errorf("approved by %s: %v", by, err)
		}
	}
	if r, err := s.Service.Revision(ctx, "greeter", "v1"); err != nil || r.Artifacts[0].By != "bob" {
		t.Errorf("the revision is %+v, %v", r, err)
	}
	if _, err := s.Service.Approve(ctx, service.Approval{Pipeline: "greeter", Stage: "prod", By: "carl"}); err != nil {
		t.Errorf("approved by carl: %v", err)
	}
}

func TestFreezeOverHTTP(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	c := s.client()
	s.Apply(t, servertest.Definition)
	if _, err := operation.ThawPipeline.Call(ctx, c, operation.ThawInput{
		PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Body: &operation.ThawBody{Reason: ""}}); !fault.Is(err, fault.Refused) {
		t.Errorf("thaw of what is not frozen: %v, want a refusal", err)
	}
	if _, err := operation.FreezePipeline.Call(ctx, c,
		operation.FreezeInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Body: &operation.FreezeBody{Until: time.Now().Add(-time.Hour)}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a freeze that has ended: %v, want invalid", err)
	}
	view, err := operation.FreezePipeline.Call(ctx, c,
		operation.FreezeInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Body: &operation.FreezeBody{Reason: "holidays"}})
	if err != nil || view.Freeze == nil || view.Freeze.By != "ana" || view.Freeze.Reason != "holidays" {
		t.Fatalf("frozen: %+v, %v", view, err)
	}
	storeToken(t, s.Ledger, "approver", "an-approving-token", "approve", "execute")
	if _, err := operation.ThawPipeline.Call(ctx, client.New(s.URL, "an-approving-token", ""), operation.ThawInput{
		PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Body: &operation.ThawBody{Reason: ""}}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("thaw without the scope operate: %v, want forbidden", err)
	}
	ref := s.Ship(t, "greeter", "3f2c9a1")
	v := s.Until(t, ref, "is frozen", func(v service.DeploymentView) bool { return strings.HasPrefix(v.Stages[0].Reason, "frozen") })
	if stage := v.Stages[0]; stage.Reason != `frozen by ana: "holidays"` || stage.Who != "waybill pipeline thaw greeter" {
		t.Errorf("the reason is %q, %q", stage.Reason, stage.Who)
	}
	if p, err := operation.GetPipeline.Call(ctx, c, operation.PipelinePath{Pipeline: "greeter"}); err != nil ||
		p.Freeze == nil || p.Freeze.By != "ana" {
		t.Errorf("the pipeline shows the freeze %+v, %v", p.Freeze, err)
	}
	if view, err := operation.ThawPipeline.Call(ctx, c,
		operation.ThawInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Body: &operation.ThawBody{Reason: "back"}}); err != nil || view.Freeze != nil {
		t.Errorf("thawed: %+v, %v", view, err)
	}
	s.Until(t, ref, "ends", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished })
}

// TestFreezeEndsByItself: the deployer wakes at the time that its pass has named.
func TestFreezeEndsByItself(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	until := time.Now().Add(10 * time.Second) // on a busy machine the request takes a while
	if _, err := operation.FreezePipeline.Call(t.Context(), s.client(), operation.FreezeInput{
		PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Body: &operation.FreezeBody{Until: until}}); err != nil {
		t.Fatal(err)
	}
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "ends", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished })
	rows, err := s.Service.Entries(t.Context(), entriesOf(ref))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Event == pipeline.StageStarted && row.Target == "greeter/build" && row.At.Before(until.Truncate(time.Millisecond)) {
			t.Errorf("the stage began at %s, the freeze ended at %s", row.At, until)
		}
	}
}

func entriesOf(ref service.Ref) journal.EntryQuery {
	return journal.EntryQuery{Pipeline: ref.Pipeline, Deployment: ref.Number, Limit: 1000}
}
