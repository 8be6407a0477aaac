package operation

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// DeploymentPath is the part of a path that names a deployment.
type DeploymentPath struct {
	ID string `path:"id" doc:"greeter#7 (the # as %23), or the deployment's id"`
}

// DeploymentsInput holds the parameters of ListDeployments.
type DeploymentsInput struct {
	Pipeline string `query:"pipeline"`
	Revision int64  `query:"revision" doc:"rev_seq"`
	Status   string `query:"status" enum:"active,finished,failed,superseded,canceled"`
	Before   int64  `query:"before" doc:"keyset: only lower numbers; needs pipeline"`
	Limit    int    `query:"limit" minimum:"0" maximum:"1000" doc:"default 50"`
}

// WhyInput holds the parameters of ExplainDeployment.
type WhyInput struct {
	DeploymentPath
	Target string `query:"target" doc:"only this target and those below it"`
}

// DryRunQuery is the part of a query that asks the effect of a command.
type DryRunQuery struct {
	DryRun bool `query:"dry-run" doc:"change nothing; the answer's preview says what would be done"`
}

// CommandAnswer answers a command on deployments.
type CommandAnswer struct {
	journal.Deployment          // the one that was made or commanded; without id and number if a dry run would make it, or a promoter is to start it
	Preview            *Preview `json:"preview,omitempty" doc:"with dry-run: what would be done"`
}

// Effect returns the expected effect of a dry run; without fields if the answer has none.
func (a CommandAnswer) Effect() Preview {
	if a.Preview == nil {
		return Preview{}
	}
	return *a.Preview
}

// Preview is the expected effect of a command, with one field set.
type Preview struct {
	Command  *service.CommandPreview  `json:"command,omitempty"`
	Rollback *service.RollbackPreview `json:"rollback,omitempty"`
	CatchUp  *service.RollbackPreview `json:"catchUp,omitempty"`
	Deploy   *service.DeployPreview   `json:"deploy,omitempty"`
}

// CommandInput is a command of a person on a deployment.
type CommandInput struct {
	DeploymentPath
	DryRunQuery
	Body *CommandBody // optional
}

// CommandBody is the body of a CommandInput.
type CommandBody struct {
	Target string `json:"target,omitempty" doc:"a stage, group or host; left out: the whole deployment. until: the last stage; left out: all stages"`
	Event  string `json:"event,omitempty" doc:"only this step of the target"`
	Reason string `json:"reason,omitempty"`
	Now    bool   `json:"now,omitempty" doc:"cancel: also interrupt builds and replication; resume of an environment of Kubernetes: skip its window and its soak once"`
	// Until ends a hold of a pipeline of Kubernetes.
	Until time.Time `json:"until,omitzero" doc:"hold of a pipeline of Kubernetes: when it ends by itself; left out: when it is resumed"`
}

// DeployInput holds the parameters of CreateDeployment.
type DeployInput struct {
	PipelinePath
	DryRunQuery
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"repeating the same request with this key within 24 hours returns the same deployment"`
	Body           DeployBody
}

// DeployBody is the body of a DeployInput.
type DeployBody struct {
	Revision string `json:"revision" doc:"label of a registered revision"`
	Target   string `json:"target,omitempty" doc:"a stage, group or host, to deploy to it alone; left out: the pipeline"`
	Until    string `json:"until,omitempty" doc:"the last stage; left out: all stages"`
}

// RollbackInput is the input of a rollback.
type RollbackInput struct {
	PipelinePath
	DryRunQuery
	Body *RollbackBody // optional
}

// RollbackBody is the body of a RollbackInput.
type RollbackBody struct {
	Target   string `json:"target,omitempty" doc:"a stage, group or host; left out: the pipeline"`
	Reason   string `json:"reason,omitempty" maxLength:"1000"`
	Undoes   int64  `json:"undoes,omitempty" minimum:"0" doc:"refuse to undo another deployment than this number, as a preview showed it"`
	Revision string `json:"revision,omitempty" doc:"refuse to bring back another revision than this label"`
	To       string `json:"to,omitempty" maxLength:"256" doc:"of a pipeline of Kubernetes: the revision to bring back; left out: the last one that finished there"`
}

// CatchUpInput is the input of a catch-up.
type CatchUpInput struct {
	PipelinePath
	DryRunQuery
	Body *CatchUpBody // optional
}

// CatchUpBody is the body of a CatchUpInput.
type CatchUpBody struct {
	Target string `json:"target,omitempty" doc:"a stage, group or host; left out: the pipeline"`
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// CommandDeployment records a command of a kind on a deployment.
func CommandDeployment(kind string) Operation[CommandInput, CommandAnswer] {
	return Operation[CommandInput, CommandAnswer]{ID: kind + "-deployment", Method: http.MethodPost,
		Path: "/api/v1/deployments/{id}/" + commandPath(kind), Scope: service.ScopeOperate,
		Summary: "Record the command " + kind}
}

// Operations on deployments.
var (
	RollbackPipeline = Operation[RollbackInput, CommandAnswer]{ID: "rollback-pipeline", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/rollback", Scope: service.ScopeOperate,
		Summary: "Bring back the newest older revision that finished the stages of a target"}
	CatchUpPipeline = Operation[CatchUpInput, CommandAnswer]{ID: "catch-up-pipeline", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/catch-up", Scope: service.ScopeExecute,
		Summary: "Bring the current revision of a group to the hosts that joined late, whose failure was tolerated, or that have lost it"}
	ListDeployments = Operation[DeploymentsInput, []journal.Deployment]{ID: "list-deployments", Method: http.MethodGet,
		Path:    "/api/v1/deployments",
		Summary: "Deployments, newest first"}
	CreateDeployment = Operation[DeployInput, CommandAnswer]{ID: "create-deployment", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/deployments", Scope: service.ScopeExecute,
		Summary: "Deploy a registered revision once more"}
	GetDeployment = Operation[DeploymentPath, service.DeploymentView]{ID: "get-deployment", Method: http.MethodGet,
		Path:    "/api/v1/deployments/{id}",
		Summary: "One deployment with its stages, groups, hosts and steps"}
	ListSteps = Operation[DeploymentPath, []pipeline.StepState]{ID: "list-steps", Method: http.MethodGet,
		Path:    "/api/v1/deployments/{id}/steps",
		Summary: "Every step of a deployment, in order"}
	ExplainDeployment = Operation[WhyInput, []pipeline.StepState]{ID: "why", Method: http.MethodGet,
		Path:    "/api/v1/deployments/{id}/why",
		Summary: "What each open step waits for"}
)

// deploymentsPage is the most deployments that ListDeployments answers with.
const deploymentsPage = 1000

// AllDeployments returns the deployments that an input selects, newest first: as many as its limit, 0: all. It reads them
// page by page; of more than a page, pipeline by pipeline if the input names none.
func AllDeployments(ctx context.Context, to Caller, in DeploymentsInput) (all []journal.Deployment, err error) {
	if in.Limit > 0 && in.Limit <= deploymentsPage {
		return ListDeployments.Call(ctx, to, in)
	}
	if in.Pipeline == "" {
		first := in
		first.Limit = deploymentsPage
		if page, err := ListDeployments.Call(ctx, to, first); err != nil || len(page) < deploymentsPage {
			return page, err
		}
		return allPipelinesDeployments(ctx, to, in)
	}
	for most := in.Limit; ; {
		if in.Limit = deploymentsPage; most > 0 {
			in.Limit = min(deploymentsPage, most-len(all))
		}
		page, err := ListDeployments.Call(ctx, to, in)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(page) < in.Limit || len(all) == most {
			return all, nil
		}
		in.Before = page[len(page)-1].Number
	}
}

// allPipelinesDeployments reads pipeline by pipeline: the numbers that begin a page count within a pipeline.
func allPipelinesDeployments(ctx context.Context, to Caller, in DeploymentsInput) ([]journal.Deployment, error) {
	pipelines, err := ListPipelines.Call(ctx, to, Nothing{})
	if err != nil {
		return nil, err
	}
	var all []journal.Deployment
	for _, p := range pipelines {
		in.Pipeline = p.Name
		its, err := AllDeployments(ctx, to, in)
		if err != nil {
			return nil, err
		}
		all = append(all, its...)
	}
	slices.SortFunc(all, func(a, b journal.Deployment) int { return bytes.Compare(b.ID[:], a.ID[:]) }) // ids grow with time
	if in.Limit > 0 {
		all = all[:min(in.Limit, len(all))]
	}
	return all, nil
}

// PathOf returns the part of an input that names a deployment.
func PathOf(ref service.Ref) DeploymentPath { return DeploymentPath{ID: ref.String()} }

// commandPath returns the last part of the path of a kind of command in the API.
func commandPath(kind string) string {
	if kind == "alarm" {
		return "alarms" // programs raise them, and several may
	}
	return kind
}
