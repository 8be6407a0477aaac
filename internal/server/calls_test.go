package server_test

import (
	"context"
	"io"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// The functions here perform operations with the requests of a Service.

func pathOf(name string) server.PipelinePath { return server.PipelinePath{Pipeline: name} }

func applyDefinition(ctx context.Context, to server.Caller, p server.Proposal) (server.EditView, error) {
	return server.ApplyDefinition.Call(ctx, to, p.Input())
}

func putSnapshot(ctx context.Context, to server.Caller, name, label string, r io.Reader) (string, error) {
	stored, err := server.PutSnapshot.Call(ctx, to, server.Upload{
		LabelPath: server.LabelPath{PipelinePath: pathOf(name), Label: label}, Content: server.Content{Reader: r}})
	return stored.Key, err
}

func putArtifact(ctx context.Context, to server.Caller, name, label string, a pipeline.RevisionArtifact, r io.Reader) (pipeline.RevisionArtifact, error) {
	return server.PutArtifact.Call(ctx, to, server.ArtifactUpload{LabelPath: server.LabelPath{PipelinePath: pathOf(name), Label: label},
		Artifact: a.Label, Name: a.Name, Digest: a.Digest, Content: server.Content{Reader: r, Size: a.Size}})
}

func register(ctx context.Context, to server.Caller, r pipeline.RegisteredRevision, deploy bool, until string) (journal.Registered, error) {
	return server.RegisterRevision.Call(ctx, to, server.RevisionInput{PipelinePath: pathOf(r.Pipeline), Body: server.RevisionBody{Label: r.Label,
		Commit: r.Commit, Subject: r.Subject, CommittedAt: r.CommittedAt, Branch: r.Branch, Snapshot: r.Snapshot, Deploy: &deploy, Until: until}})
}

func deployInput(want server.NewDeployment) server.DeployInput {
	return server.DeployInput{PipelinePath: pathOf(want.Pipeline), IdempotencyKey: want.Key,
		Body: server.DeployBody{Revision: want.Revision, Target: want.Target, Until: want.Until}}
}

func deploy(ctx context.Context, to server.Caller, want server.NewDeployment) (journal.Deployment, error) {
	answer, err := server.CreateDeployment.Call(ctx, to, deployInput(want))
	return answer.Deployment, err
}

func previewDeploy(ctx context.Context, to server.Caller, want server.NewDeployment) (found server.DeployPreview, err error) {
	in := deployInput(want)
	in.DryRun = true
	answer, err := server.CreateDeployment.Call(ctx, to, in)
	if err == nil {
		found = *answer.Preview.Deploy
	}
	return found, err
}

func commandInput(ref server.Ref, c server.Command) server.CommandInput {
	return server.CommandInput{DeploymentPath: ref.Path(), Body: &server.CommandBody{Target: c.Target, Event: c.Event, Reason: c.Reason, Now: c.Now}}
}

func command(ctx context.Context, to server.Caller, ref server.Ref, c server.Command) error {
	_, err := server.CommandDeployment(c.Kind).Call(ctx, to, commandInput(ref, c))
	return err
}

func previewCommand(ctx context.Context, to server.Caller, ref server.Ref, c server.Command) (found server.CommandPreview, err error) {
	in := commandInput(ref, c)
	in.DryRun = true
	answer, err := server.CommandDeployment(c.Kind).Call(ctx, to, in)
	if err == nil {
		found = *answer.Preview.Command
	}
	return found, err
}

func rollbackInput(want server.TargetRequest) server.RollbackInput {
	return server.RollbackInput{PipelinePath: pathOf(want.Pipeline),
		Body: &server.RollbackBody{Target: want.Target, Reason: want.Reason, Undoes: want.Undoes, Revision: want.Revision}}
}

func rollBack(ctx context.Context, to server.Caller, want server.TargetRequest) (journal.Deployment, error) {
	answer, err := server.RollbackPipeline.Call(ctx, to, rollbackInput(want))
	return answer.Deployment, err
}

func previewRollback(ctx context.Context, to server.Caller, want server.TargetRequest) (found server.RollbackPreview, err error) {
	in := rollbackInput(want)
	in.DryRun = true
	answer, err := server.RollbackPipeline.Call(ctx, to, in)
	if err == nil {
		found = *answer.Preview.Rollback
	}
	return found, err
}

func catchUp(ctx context.Context, to server.Caller, want server.TargetRequest) (journal.Deployment, error) {
	answer, err := server.CatchUpPipeline.Call(ctx, to, server.CatchUpInput{PipelinePath: pathOf(want.Pipeline),
		Body: &server.CatchUpBody{Target: want.Target, Reason: want.Reason}})
	return answer.Deployment, err
}
