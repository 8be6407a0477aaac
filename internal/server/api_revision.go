package server

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// LabelPath is the part of a path that names a revision.
type LabelPath struct {
	PipelinePath
	Label string `path:"label" doc:"the revision's label"`
}

// Upload is a body of any size, which is read as it arrives.
type Upload struct {
	LabelPath
	body io.Reader
}

// Resolve keeps the body. huma calls it before the handler.
func (u *Upload) Resolve(ctx huma.Context) []error {
	u.body = ctx.BodyReader()
	return nil
}

type artifactUpload struct {
	Upload
	Artifact string `path:"artifact" doc:"the artifact's label, usually an architecture"`
	Name     string `query:"name" maxLength:"255" doc:"file name, whose ending decides whether hosts unpack it; default: as in the definition"`
	Digest   string `query:"digest" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of the body, in hex; a body with another one is refused, and one that is registered is not read"`
}

// Stored is the place of a stored snapshot.
type Stored struct {
	Key string `json:"key" doc:"blob key, for the revision's registration"`
}

type judgmentInput struct {
	LabelPath
	Body *judgmentBody // optional
}

// judgmentBody is the body of a judgmentInput.
type judgmentBody struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// judgment names Service.RejectRevision or Service.AcceptRevision.
type judgment func(ctx context.Context, pipeline, label, by, reason string) (pipeline.RegisteredRevision, error)

// judge returns the handler of a judgment, with the identity of the caller.
func (a *api) judge(do judgment) func(context.Context, *judgmentInput) (pipeline.RegisteredRevision, error) {
	return func(ctx context.Context, in *judgmentInput) (pipeline.RegisteredRevision, error) {
		reason := ""
		if in.Body != nil {
			reason = in.Body.Reason
		}
		return do(ctx, in.Pipeline, in.Label, IdentityOf(ctx).Name, reason)
	}
}

// revisionInput registers a revision.
type revisionInput struct {
	PipelinePath
	Body revisionBody
}

// revisionBody is the body of a revisionInput.
type revisionBody struct {
	Label       string    `json:"label" minLength:"1" maxLength:"200"`
	Commit      string    `json:"commit,omitempty" doc:"hash of its commit"`
	Subject     string    `json:"subject,omitempty"`
	CommittedAt time.Time `json:"committedAt,omitempty"`
	Branch      string    `json:"branch,omitempty" maxLength:"250" doc:"that was checked out"`
	Snapshot    string    `json:"snapshot,omitempty" doc:"blob key of its files"`
	Deploy      *bool     `json:"deploy,omitempty" doc:"create its forward deployment; default true"`
	Until       string    `json:"until,omitempty" doc:"last stage of its forward deployment; left out: all stages"`
}

type limitInput struct {
	PipelinePath
	Limit int `query:"limit" minimum:"0" maximum:"1000" doc:"default 50"`
}

func (a *api) registerRevisions() {
	handle(a, readOperation("list-revisions", "/pipelines/{pipeline}/revisions", "Registered revisions, newest first"),
		func(ctx context.Context, in *limitInput) ([]pipeline.RegisteredRevision, error) {
			return a.service.Revisions(ctx, in.Pipeline, in.Limit)
		})
	handle(a, readOperation("get-revision", "/pipelines/{pipeline}/revisions/{label}", "One revision"),
		func(ctx context.Context, in *LabelPath) (pipeline.RegisteredRevision, error) {
			return a.service.Revision(ctx, in.Pipeline, in.Label)
		})
	handle(a, writeOperation("register-revision", http.MethodPost, "/pipelines/{pipeline}/revisions", ScopeExecute,
		"Register a revision and create its forward deployment; idempotent"), a.register)
	handle(a, writeOperation("reject-revision", http.MethodPost, "/pipelines/{pipeline}/revisions/{label}/reject", ScopeOperate,
		"Deploy a revision only when it is accepted again"), a.judge(a.service.RejectRevision))
	handle(a, writeOperation("accept-revision", http.MethodPost, "/pipelines/{pipeline}/revisions/{label}/accept", ScopeOperate,
		"Accept a rejected revision again"), a.judge(a.service.AcceptRevision))
	handle(a, writeOperation("put-snapshot", http.MethodPut, "/pipelines/{pipeline}/revisions/{label}/snapshot", ScopeExecute,
		"Store a revision's files, one archive, before it is registered"),
		func(ctx context.Context, in *Upload) (Stored, error) {
			key, err := a.service.PutSnapshot(ctx, in.Pipeline, in.Label, in.body)
			return Stored{key}, err
		})
	handle(a, readOperation("get-snapshot", "/pipelines/{pipeline}/revisions/{label}/snapshot", "Whether a revision's files are in the blob store"),
		func(ctx context.Context, in *LabelPath) (SnapshotView, error) {
			return a.service.Snapshot(ctx, in.Pipeline, in.Label)
		})
	handle(a, writeOperation("put-artifact", http.MethodPut, "/pipelines/{pipeline}/revisions/{label}/artifacts/{artifact}", ScopeExecute,
		"Store an artifact of a stage with build: external; the same content again is fine"),
		func(ctx context.Context, in *artifactUpload) (pipeline.RevisionArtifact, error) {
			wanted := pipeline.RevisionArtifact{Label: in.Artifact, Name: in.Name, Digest: in.Digest, By: IdentityOf(ctx).Name}
			return a.service.PutArtifact(ctx, in.Pipeline, in.Label, wanted, in.body)
		})
}

func (a *api) register(ctx context.Context, in *revisionInput) (journal.Registered, error) {
	b := in.Body
	revision := pipeline.RegisteredRevision{
		Pipeline: in.Pipeline, Label: b.Label, Commit: b.Commit, Subject: b.Subject,
		CommittedAt: b.CommittedAt, Branch: b.Branch, Snapshot: b.Snapshot, By: IdentityOf(ctx).Name,
	}
	return a.service.Register(ctx, revision, b.Deploy == nil || *b.Deploy, b.Until)
}
