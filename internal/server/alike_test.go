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
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// alike compares the answers of two callers, and notes which operations it has compared.
type alike struct {
	*testing.T
	here, there server.Caller
	compared    map[string]bool
}

// same compares the answer of an operation in this process with that of a server. Answers that fail
// have the same code and text.
func same[In, Out any](a alike, op server.Operation[In, Out], in In) {
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
	ref := server.Ref{Pipeline: "greeter", Number: first.Deployment.Number}
	s.Until(t, ref, "ends", servertest.Ended)
	a := alike{t, server.NewLocal(s.Service, "ana"), s.client(), map[string]bool{}}
	of, deployment := server.PipelinePath{Pipeline: "greeter"}, server.DeploymentPath{ID: ref.String()}
	label := server.LabelPath{PipelinePath: of, Label: "3f2c9a1"}

	same(a, server.ListPipelines, server.Nothing{})
	same(a, server.GetPipeline, of)
	same(a, server.ListVersions, of)
	same(a, server.GetVersion, server.VersionPath{PipelinePath: of})
	same(a, server.PlanDeployment, server.PlanInput{PipelinePath: of, Simulate: true, Revision: "3f2c9a1", From: "1h", Fail: []string{"prod/east/elm:test", "beta"}})
	same(a, server.ListRevisions, server.RevisionsInput{PipelinePath: of, Limit: 5})
	same(a, server.GetRevision, label)
	same(a, server.GetSnapshot, label)
	same(a, server.ListDeployments, server.DeploymentsInput{Pipeline: "greeter", Status: "finished", Limit: 5})
	same(a, server.GetDeployment, deployment)
	same(a, server.GetDeployment, server.DeploymentPath{ID: first.Deployment.ID.String()})
	same(a, server.GetDeployment, server.DeploymentPath{ID: "greeter#9"})
	same(a, server.ListSteps, deployment)
	same(a, server.ExplainDeployment, server.WhyInput{DeploymentPath: deployment, Target: "prod/east"})
	same(a, server.ListTargets, server.TargetsInput{PipelinePath: of, Target: "prod", After: "prod/east", Limit: 2})
	same(a, server.GetTarget, server.TargetInput{PipelinePath: of, Target: "prod/east"})
	same(a, server.ListResources, server.ResourcesInput{Pipeline: "greeter", After: "local://elm greeter", Limit: 2})
	same(a, server.ListHistory, server.HistoryInput{PipelinePath: of, Target: "prod", Limit: 3})
	same(a, server.GetMetrics, server.MetricsInput{PipelinePath: of, Stage: "prod", Weeks: 2})
	same(a, server.GetDifference, server.DifferenceInput{PipelinePath: of, From: "beta", To: "prod"})
	same(a, server.ReadLog, server.LogInput{PipelinePath: of, Target: "prod", Class: "fact", After: 3, Limit: 4})
	same(a, server.ListServices, of)
	same(a, server.GetServiceStatus, server.ServiceStatusInput{ServiceHost: server.ServiceHost{PipelinePath: of, Target: "greeter/beta/all/oak"}})
	same(a, server.ReadServiceLog, server.ServiceLogInput{ServiceHost: server.ServiceHost{PipelinePath: of, Target: "greeter/beta/all/oak"}})
	same(a, server.GetStatus, server.Nothing{})
	same(a, server.ListInstances, server.Nothing{})
	same(a, server.ListLimits, server.Nothing{})
	same(a, server.ListSchedules, server.Nothing{})
	a.actions()
	a.builds()
	a.wantAll(s)
	want, wantErr := server.PlanEdit(t.Context(), a.here, proposal)
	got, gotErr := server.PlanEdit(t.Context(), a.there, proposal)
	if a.wantSame("plan of an edit", want, got); wantErr != nil || gotErr != nil {
		t.Errorf("plan of an edit: %v, %v", wantErr, gotErr)
	}
}

// actions compares what is read of actions.
func (a alike) actions() {
	a.Helper()
	list := server.ActionsInput{Pipeline: "greeter", Status: []string{"successful"}, Since: time.Now().Add(-time.Hour), Limit: 3}
	same(a, server.ListActions, list)
	found, err := server.ListActions.Call(a.Context(), a.there, list)
	if err != nil || len(found) == 0 {
		a.Fatalf("got %d actions, %v", len(found), err)
	}
	path := server.ActionPath{ID: found[0].ID.String()}
	same(a, server.GetAction, path)
	same(a, server.ReadEvents, server.EventsInput{ActionPath: path})
	same(a, server.ReadExchange, server.ExchangeInput{ActionPath: path, Attempt: 1})
}

// builds compares what is read of builds, of which there is none.
func (a alike) builds() {
	a.Helper()
	path := server.BuildPath{ID: "7"}
	same(a, server.ListProjects, server.Nothing{})
	same(a, server.ListBuilds, server.BuildsInput{Project: "greeter", Limit: 2})
	same(a, server.GetBuild, path)
	same(a, server.ListBuildSteps, path)
	same(a, server.ListBuildArtifacts, server.BuildStepInput{BuildPath: path})
	same(a, server.ListBuildTests, path)
	same(a, server.SumBuildTests, path)
	same(a, server.SummarizeBuildTests, path)
	same(a, server.DetailBuildTests, server.BuildTestInput{BuildPath: path})
}

// wantAll fails the test for an operation that reads and was not compared.
func (a alike) wantAll(s *testServer) {
	a.Helper()
	for path, operations := range description(a.T, s).Paths {
		for method, o := range operations {
			if strings.ToUpper(method) == http.MethodGet && slices.Contains(server.ServedOperations(s.Service), o.OperationID) && !a.compared[o.OperationID] {
				a.Errorf("GET %s: the answer of %s is not compared", path, o.OperationID)
			}
		}
	}
}
