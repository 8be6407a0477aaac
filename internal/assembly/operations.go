package assembly

import (
	"context"
	"encoding/json"
	"io"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// Operations is the set of operations that commands call. A *server.Service answers from the log itself, a
// *server.Client from a server elsewhere; no command knows which. It is as wide as the two, because it is what makes
// them the same.
type Operations interface {
	server.Caller
	PlanEdit(ctx context.Context, p server.Proposal) (server.EditView, error)
	Apply(ctx context.Context, p server.Proposal) (server.EditView, error)
	Plan(ctx context.Context, q server.PlanQuery) (server.PlanView, error)

	PutSnapshot(ctx context.Context, pipeline, label string, r io.Reader) (key string, err error)
	PutArtifact(ctx context.Context, pipeline, label string, a pipeline.RevisionArtifact, r io.Reader) (pipeline.RevisionArtifact, error)
	Register(ctx context.Context, r pipeline.RegisteredRevision, deploy bool, until string) (journal.Registered, error)

	Deploy(ctx context.Context, want server.NewDeployment) (journal.Deployment, error)
	Deployments(ctx context.Context, q journal.DeploymentQuery) ([]journal.Deployment, error)
	Deployment(ctx context.Context, ref server.Ref) (server.DeploymentView, error)
	Why(ctx context.Context, ref server.Ref, target string) ([]pipeline.StepState, error)
	Command(ctx context.Context, ref server.Ref, c server.Command) error
	Rollback(ctx context.Context, want server.TargetRequest) (journal.Deployment, error)
	CatchUp(ctx context.Context, want server.TargetRequest) (journal.Deployment, error)
	PreviewCommand(ctx context.Context, ref server.Ref, c server.Command) (server.CommandPreview, error)
	PreviewRollback(ctx context.Context, want server.TargetRequest) (server.RollbackPreview, error)
	PreviewCatchUp(ctx context.Context, want server.TargetRequest) (server.RollbackPreview, error)
	PreviewDeploy(ctx context.Context, want server.NewDeployment) (server.DeployPreview, error)

	Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error)
	Follow(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error
	FollowAction(ctx context.Context, id action.ID, after int, each func(action.Event) error, end func() error) error
	ListProcesses(ctx context.Context) ([]server.ProcessOffering, error)
	ShowProcess(ctx context.Context, id string) (server.ProcessOffering, error)
	RunProcess(ctx context.Context, id string, inputs json.RawMessage, by string) (server.AddedAction, error)
}

var (
	_ Operations = (*server.Local)(nil)
	_ Operations = (*server.Client)(nil)
)
