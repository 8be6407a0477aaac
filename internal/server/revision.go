package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// judgment names Service.RejectRevision or Service.AcceptRevision.
type judgment func(ctx context.Context, pipeline, label, by, reason string) (pipeline.RegisteredRevision, error)

// judge returns the handler of a judgment, with the identity of the caller.
func (a *api) judge(do judgment) func(context.Context, *operation.JudgmentInput) (pipeline.RegisteredRevision, error) {
	return func(ctx context.Context, in *operation.JudgmentInput) (pipeline.RegisteredRevision, error) {
		reason := ""
		if in.Body != nil {
			reason = in.Body.Reason
		}
		return do(ctx, in.Pipeline, in.Label, service.IdentityOf(ctx).Name, reason)
	}
}

func (a *api) registerRevisions() {
	handle(a, operation.ListRevisions,
		func(ctx context.Context, in *operation.RevisionsInput) ([]pipeline.RegisteredRevision, error) {
			return a.service.Revisions(ctx, in.Pipeline, in.Limit)
		})
	handle(a, operation.GetRevision,
		func(ctx context.Context, in *operation.LabelPath) (pipeline.RegisteredRevision, error) {
			return a.service.Revision(ctx, in.Pipeline, in.Label)
		})
	handle(a, operation.RegisterRevision, a.registerRevision)
	handle(a, operation.RejectRevision, a.judge(a.service.RejectRevision))
	handle(a, operation.AcceptRevision, a.judge(a.service.AcceptRevision))
	handle(a, operation.PutSnapshot,
		func(ctx context.Context, in *operation.Upload) (operation.Stored, error) {
			key, err := a.service.PutSnapshot(ctx, in.Pipeline, in.Label, in.Content)
			return operation.Stored{Key: key}, err
		})
	handle(a, operation.GetSnapshot,
		func(ctx context.Context, in *operation.LabelPath) (service.SnapshotView, error) {
			return a.service.Snapshot(ctx, in.Pipeline, in.Label)
		})
	handle(a, operation.PutArtifact,
		func(ctx context.Context, in *operation.ArtifactUpload) (pipeline.RevisionArtifact, error) {
			wanted := pipeline.RevisionArtifact{Label: in.Artifact, Name: in.Name, Digest: in.Digest, By: service.IdentityOf(ctx).Name}
			return a.service.PutArtifact(ctx, in.Pipeline, in.Label, wanted, in.Content)
		})
}

func (a *api) registerRevision(ctx context.Context, in *operation.RevisionInput) (journal.Registered, error) {
	b := in.Body
	revision := pipeline.RegisteredRevision{
		Pipeline: in.Pipeline, Label: b.Label, Commit: b.Commit, Subject: b.Subject,
		CommittedAt: b.CommittedAt, Branch: b.Branch, Snapshot: b.Snapshot, By: service.IdentityOf(ctx).Name,
	}
	return a.service.Register(ctx, revision, b.Deploy == nil || *b.Deploy, b.Until)
}
