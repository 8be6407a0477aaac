package server_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// alike compares the answers of two callers, and notes which operations it has compared.
type alike struct {
	*testing.T
	here, there operation.Caller
	compared    map[string]bool
}

// same compares the answer of an operation in this process with that of a server. Answers that fail
// have the same code and text.
func same[In, Out any](a alike, op operation.Operation[In, Out], in In) {
	a.Helper()
	a.compared[op.ID] = true
	want, wantErr := op.Call(a.Context(), a.here, in)
	got, gotErr := op.Call(a.Context(), a.there, in)
	if fault.CodeOf(wantErr) != fault.CodeOf(gotErr) || wantErr != nil && wantErr.Error() != gotErr.Error() {
		a.Errorf("%s: the log answers %v, the server %v", op.ID, wantErr, gotErr)
	}
	if moves := []string{"status", "instances"}; wantErr == nil && !slices.Contains(moves, op.ID) { // their answers change all the time
		a.wantSame(op.ID, want, got)
	}
}

// wantSame compares two answers, without the time of the answer.
func (a alike) wantSame(name string, want, got any) {
	a.Helper()
	now := regexp.MustCompile(`\n *"now": "[^"]*",?`)
	if diff := cmp.Diff(now.ReplaceAllString(asJSON(a.T, want), ""), now.ReplaceAllString(asJSON(a.T, got), "")); diff != "" {
		a.Errorf("%s (-log +server):\n%s", name, diff)
	}
}

// TestEveryQuestionIsAnsweredAlike: whatever a command reads, it reads the same from the log of its
// process and from a server.
func TestEveryQuestionIsAnsweredAlike(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	proposal, _, first := s.shipByClient(t)
	ref := service.Ref{Pipeline: "greeter", Number: first.Deployment.Number}
	s.Until(t, ref, "ends", servertest.Ended)
	a := alike{t, server.NewLocal(s.Service, "ana"), s.client(), map[string]bool{}}
	of, deployment := operation.PipelinePath{Pipeline: "greeter"}, operation.DeploymentPath{ID: ref.String()}
	label := operation.LabelPath{PipelinePath: of, Label: "3f2c9a1"}

	same(a, operation.ListPipelines, operation.Nothing{})
	same(a, operation.GetPipeline, of)
	same(a, operation.ListVersions, of)
	same(a, operation.GetVersion, operation.VersionPath{PipelinePath: of})
	same(a, operation.PlanDeployment, operation.PlanInput{PipelinePath: of, Simulate: true, Revision: "3f2c9a1",
		From: "1h", Fail: []string{"prod/east/elm:test", "beta"}})
	same(a, operation.ListRevisions, operation.RevisionsInput{PipelinePath: of, Limit: 5})
	same(a, operation.GetRevision, label)
	same(a, operation.GetSnapshot, label)
	same(a, operation.ListDeployments, operation.DeploymentsInput{Pipeline: "greeter", Status: "finished", Limit: 5})
	same(a, operation.GetDeployment, deployment)
	same(a, operation.GetDeployment, operation.DeploymentPath{ID: first.Deployment.ID.String()})
	same(a, operation.GetDeployment, operation.DeploymentPath{ID: "greeter#9"})
	same(a, operation.ListSteps, deployment)
	same(a, operation.ExplainDeployment, operation.WhyInput{DeploymentPath: deployment, Target: "prod/east"})
	same(a, operation.ListTargets, operation.TargetsInput{PipelinePath: of, Target: "prod", After: "prod/east", Limit: 2})
	same(a, operation.GetTarget, operation.TargetInput{PipelinePath: of, Target: "prod/east"})
	same(a, operation.ListResources, operation.ResourcesInput{Pipeline: "greeter", After: "local://elm greeter", Limit: 2})
	same(a, operation.ListHistory, operation.HistoryInput{PipelinePath: of, Target: "prod", Limit: 3})
	same(a, operation.GetMetrics, operation.MetricsInput{PipelinePath: of, Stage: "prod", Weeks: 2})
	kubernetes := operation.PipelinePath{Pipeline: servertest.PromotionPipeline}
	s.Promote(t, nil)
	same(a, operation.PlanPromotion, operation.PromotionInput{PipelinePath: operation.PipelinePath{Pipeline: "apps:podinf"}, Files: true})
	same(a, operation.CheckPipeline, kubernetes)
	same(a, operation.GetDifference, operation.DifferenceInput{PipelinePath: of, From: "beta", To: "prod"})
	same(a, operation.ReadLog, operation.LogInput{PipelinePath: of, Target: "prod", Class: "fact", After: 3, Limit: 4})
	same(a, operation.ListServices, of)
	same(a, operation.GetServiceStatus,
		operation.ServiceStatusInput{ServiceHost: operation.ServiceHost{PipelinePath: of, Target: "greeter/beta/all/oak"}})
	same(a, operation.ReadServiceLog,
		operation.ServiceLogInput{ServiceHost: operation.ServiceHost{PipelinePath: of, Target: "greeter/beta/all/oak"}})
	same(a, operation.GetStatus, operation.Nothing{})
	same(a, operation.ListInstances, operation.Nothing{})
	same(a, operation.ListLimits, operation.Nothing{})
	same(a, operation.ListSchedules, operation.Nothing{})
	a.actions()
	provision(t, s, "shop/a")
	same(a, operation.ListServiceInstances, operation.ServiceInstancesInput{After: "s", Limit: 2})
	same(a, operation.GetServiceInstance, operation.ServiceInstancePath{ID: "shop/a"})
	same(a, operation.GetServiceInstance, operation.ServiceInstancePath{ID: "shop"})
	same(a, operation.ListFlows, operation.FlowsInput{Namespace: "shop"})
	same(a, operation.GetFlow, operation.FlowPath{Namespace: "shop", Name: "orders"})
	a.builds()
	a.wantAll(s)
	want, wantErr := operation.PlanEdit(t.Context(), a.here, proposal)
	got, gotErr := operation.PlanEdit(t.Context(), a.there, proposal)
	if a.wantSame("plan of an edit", want, got); wantErr != nil || gotErr != nil {
		t.Errorf("plan of an edit: %v, %v", wantErr, gotErr)
	}
}

// actions compares the part that is read of actions.
func (a alike) actions() {
	a.Helper()
	list := operation.ActionsInput{Pipeline: "greeter", Status: []string{"successful"}, Since: time.Now().Add(-time.Hour), Limit: 3}
	same(a, operation.ListActions, list)
	found, err := operation.ListActions.Call(a.Context(), a.there, list)
	if err != nil || len(found) == 0 {
		a.Fatalf("got %d actions, %v", len(found), err)
	}
	path := operation.ActionPath{ID: found[0].ID.String()}
	same(a, operation.GetAction, path)
	same(a, operation.ReadEvents, operation.EventsInput{ActionPath: path})
	same(a, operation.ReadExchange, operation.ExchangeInput{ActionPath: path, Attempt: 1})
}

// builds compares the part that is read of builds, of which there is none.
func (a alike) builds() {
	a.Helper()
	path := operation.BuildPath{ID: "7"}
	same(a, operation.ListProjects, operation.Nothing{})
	same(a, operation.ListBuilds, operation.BuildsInput{Project: "greeter", Limit: 2})
	same(a, operation.GetBuild, path)
	same(a, operation.ListBuildSteps, path)
	same(a, operation.ListBuildArtifacts, operation.BuildStepInput{BuildPath: path})
	same(a, operation.ListBuildTests, path)
	same(a, operation.SumBuildTests, path)
	same(a, operation.SummarizeBuildTests, path)
	same(a, operation.DetailBuildTests, operation.BuildTestInput{BuildPath: path})
}

// wantAll fails the test for an operation that reads and was not compared.
func (a alike) wantAll(s *testServer) {
	a.Helper()
	for path, operations := range description(a.T, s).Paths {
		for method, o := range operations {
			if strings.ToUpper(method) == http.MethodGet &&
				slices.Contains(server.ServedOperations(s.Service), o.OperationID) && !a.compared[o.OperationID] {
				a.Errorf("GET %s: the answer of %s is not compared", path, o.OperationID)
			}
		}
	}
}
