package server_test

import (
	"context"
	"io"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// The functions here perform operations with the requests of a Service.

func pathOf(name string) operation.PipelinePath { return operation.PipelinePath{Pipeline: name} }

func applyDefinition(ctx context.Context, to operation.Caller, p service.Proposal) (service.EditView, error) {
	return operation.ApplyDefinition.Call(ctx, to, operation.DefinitionInputOf(p))
}

func putSnapshot(ctx context.Context, to operation.Caller, name, label string, r io.Reader) (string, error) {
	stored, err := operation.PutSnapshot.Call(ctx, to, operation.Upload{
		LabelPath: operation.LabelPath{PipelinePath: pathOf(name), Label: label}, Content: operation.Content{Reader: r}})
	return stored.Key, err
}

func putArtifact(ctx context.Context, to operation.Caller, name, label string, a pipeline.RevisionArtifact,
	r io.Reader) (pipeline.RevisionArtifact, error) {
	return operation.PutArtifact.Call(ctx, to, operation.ArtifactUpload{
		LabelPath: operation.LabelPath{PipelinePath: pathOf(name), Label: label},
		Artifact:  a.Label, Name: a.Name, Digest: a.Digest, Content: operation.Content{Reader: r, Size: a.Size}})
}

func register(ctx context.Context, to operation.Caller, r pipeline.RegisteredRevision, deploy bool,
	until string) (journal.Registered, error) {
	return operation.RegisterRevision.Call(ctx, to, operation.RevisionInput{PipelinePath: pathOf(
		r.Pipeline), Body: operation.RevisionBody{Label: r.Label,
		Commit: r.Commit, Subject: r.Subject, CommittedAt: r.CommittedAt, Branch: r.Branch, Snapshot: r.Snapshot, Deploy: &deploy, Until: until}})
}

func deployInput(want service.NewDeployment) operation.DeployInput {
	return operation.DeployInput{PipelinePath: pathOf(want.Pipeline), IdempotencyKey: want.Key,
		Body: operation.DeployBody{Revision: want.Revision, Target: want.Target, Until: want.Until}}
}

func deploy(ctx context.Context, to operation.Caller, want service.NewDeployment) (journal.Deployment, error) {
	answer, err := operation.CreateDeployment.Call(ctx, to, deployInput(want))
	return answer.Deployment, err
}

func previewDeploy(ctx context.Context, to operation.Caller, want service.NewDeployment) (found service.DeployPreview, err error) {
	in := deployInput(want)
	in.DryRun = true
	answer, err := operation.CreateDeployment.Call(ctx, to, in)
	if err == nil {
		found = *answer.Preview.Deploy
	}
	return found, err
}

func commandInput(ref service.Ref, c service.Command) operation.CommandInput {
	return operation.CommandInput{DeploymentPath: operation.PathOf(ref),
		Body: &operation.CommandBody{Target: c.Target, Event: c.Event, Reason: c.Reason, Now: c.Now}}
}

func command(ctx context.Context, to operation.Caller, ref service.Ref, c service.Command) error {
	_, err := operation.CommandDeployment(c.Kind).Call(ctx, to, commandInput(ref, c))
	return err
}

func previewCommand(ctx context.Context, to operation.Caller, ref service.Ref,
	c service.Command) (found service.CommandPreview, err error) {
	in := commandInput(ref, c)
	in.DryRun = true
	answer, err := operation.CommandDeployment(c.Kind).Call(ctx, to, in)
	if err == nil {
		found = *answer.Preview.Command
	}
	return found, err
}

func rollbackInput(want service.TargetRequest) operation.RollbackInput {
	return operation.RollbackInput{PipelinePath: pathOf(want.Pipeline),
		Body: &operation.RollbackBody{Target: want.Target, Reason: want.Reason, Undoes: want.Undoes, Revision: want.Revision}}
}

func rollBack(ctx context.Context, to operation.Caller, want service.TargetRequest) (journal.Deployment, error) {
	answer, err := operation.RollbackPipeline.Call(ctx, to, rollbackInput(want))
	return answer.Deployment, err
}

func previewRollback(ctx context.Context, to operation.Caller, want service.TargetRequest) (found service.RollbackPreview, err error) {
	in := rollbackInput(want)
	in.DryRun = true
	answer, err := operation.RollbackPipeline.Call(ctx, to, in)
	if err == nil {
		found = *answer.Preview.Rollback
	}
	return found, err
}

func catchUp(ctx context.Context, to operation.Caller, want service.TargetRequest) (journal.Deployment, error) {
	answer, err := operation.CatchUpPipeline.Call(ctx, to, operation.CatchUpInput{PipelinePath: pathOf(want.Pipeline),
		Body: &operation.CatchUpBody{Target: want.Target, Reason: want.Reason}})
	return answer.Deployment, err
}
