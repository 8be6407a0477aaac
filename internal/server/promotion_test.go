package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// TestPipelinesOfKubernetesAreAnsweredAlike: the operations that read serve both kinds of pipelines, here and over HTTP.
func TestPipelinesOfKubernetesAreAnsweredAlike(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Promote(t, servertest.AwaitApproval)
	a := alike{t, server.NewLocal(s.Service, "ana"), s.client(), map[string]bool{}}
	of := operation.PipelinePath{Pipeline: servertest.PromotionPipeline}
	run := operation.DeploymentPath{ID: servertest.PromotionPipeline + "#12"}
	same(a, operation.ListPipelines, operation.Nothing{})
	same(a, operation.GetPipeline, of)
	same(a, operation.GetPipeline, operation.PipelinePath{Pipeline: "apps:other"})
	same(a, operation.GetVersion, operation.VersionPath{PipelinePath: of})
	same(a, operation.ListDeployments, operation.DeploymentsInput{Pipeline: of.Pipeline, Limit: 1, Before: 12})
	same(a, operation.GetDeployment, run)
	same(a, operation.GetDeployment, operation.DeploymentPath{ID: of.Pipeline})
	same(a, operation.ExplainDeployment, operation.WhyInput{DeploymentPath: run, Target: "prod"})
	same(a, operation.ListRevisions, operation.RevisionsInput{PipelinePath: of})
	same(a, operation.ReadLog, operation.LogInput{PipelinePath: of, Deployment: 12, Target: "prod"})
	same(a, operation.ReadLog, operation.LogInput{PipelinePath: of, Deployment: 12})
}

func TestApprovalsOfKubernetesNameWhatWaits(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Promote(t, servertest.AwaitApproval)
	approve := func(revision string) (operation.ApprovalInput, error) {
		in := operation.ApprovalInput{PipelinePath: operation.PipelinePath{Pipeline: servertest.PromotionPipeline}, Stage: "prod",
			Body: operation.ApprovalBody{Revision: revision, Decision: "approve"}}
		_, err := operation.ApproveStage.Call(t.Context(), s.client(), in)
		return in, err
	}
	_, err := approve("6.7.0")
	if !fault.Is(err, fault.NotWaiting) || fault.CodeOf(err).HTTP() != http.StatusUnprocessableEntity || !strings.Contains(fault.HintOf(err), "6.6.0 at prod") {
		t.Errorf("got %v; %s", err, fault.HintOf(err))
	}
	for range 2 {
		if _, err := approve("6.6.0"); err != nil {
			t.Error(err)
		}
	}
}

// TestFilesAreReadForATokenOnly: on loopback reading is free, but not with the credentials of a pipeline.
func TestFilesAreReadForATokenOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Promote(t, servertest.AwaitApproval)
	address := operation.Prefix + "/pipelines/" + servertest.PromotionPipeline
	for target, needs := range map[string]bool{"/check": true, "/promotion?files=true": true,
		"/promotion?input=true": false, "/promotion": false} {
		if status, answer, _ := s.ask(t, "GET", address+target, ""); (status == http.StatusUnauthorized) != needs {
			t.Errorf("%s without a token: %d %s", target, status, answer)
		}
		if status, answer, _ := s.ask(t, "GET", address+target, "", "Authorization", bearer); status == http.StatusUnauthorized {
			t.Errorf("%s with a token: %d %s", target, status, answer)
		}
	}
}

func TestAFreezeOfAllPipelinesOfKubernetes(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	view, err := operation.FreezeAll.Call(t.Context(), s.client(), operation.FreezeAllInput{Body: &operation.FreezeBody{Reason: "holidays"}})
	if err != nil || view.Freeze == nil || view.Freeze.Reason != "holidays" {
		t.Fatalf("got %+v, %v", view, err)
	}
	state, err := s.Ledger.Promotions.Load(t.Context(), servertest.PromotionPipeline, "")
	if err != nil || state.Frozen == nil {
		t.Errorf("a pipeline that comes later: %+v, %v", state.Frozen, err)
	}
	if view, err = operation.ThawAll.Call(t.Context(), s.client(), operation.ThawAllInput{}); err != nil || view.Freeze != nil {
		t.Errorf("got %+v, %v", view, err)
	}
}
