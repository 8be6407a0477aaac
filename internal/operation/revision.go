package operation

import (
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// LabelPath is the part of a path that names a revision.
type LabelPath struct {
	PipelinePath
	Label string `path:"label" doc:"the revision's label"`
}

// Upload holds the files of a revision.
type Upload struct {
	LabelPath
	Content Content
}

// ArtifactUpload is an artifact of a revision. The server may answer before it reads the content.
type ArtifactUpload struct {
	LabelPath
	Content  Content `expect:"100-continue"`
	Artifact string  `path:"artifact" doc:"the artifact's label, usually an architecture"`
	Name     string  `query:"name" maxLength:"255" doc:"file name, whose ending decides whether hosts unpack it; default: as in the definition"`
	Digest   string  `query:"digest" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of the body, in hex; a body with another one is refused, and one that is registered is not read"`
}

// Stored is the place of a stored snapshot.
type Stored struct {
	Key string `json:"key" doc:"blob key, for the revision's registration"`
}

// JudgmentInput holds the parameters of RejectRevision.
type JudgmentInput struct {
	LabelPath
	Body *JudgmentBody // optional
}

// JudgmentBody is the body of a JudgmentInput.
type JudgmentBody struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// RevisionInput registers a revision.
type RevisionInput struct {
	PipelinePath
	Body RevisionBody
}

// RevisionBody is the body of a RevisionInput.
type RevisionBody struct {
	Label       string    `json:"label" minLength:"1" maxLength:"200"`
	Commit      string    `json:"commit,omitempty" doc:"hash of its commit"`
	Subject     string    `json:"subject,omitempty"`
	CommittedAt time.Time `json:"committedAt,omitzero"`
	Branch      string    `json:"branch,omitempty" maxLength:"250" doc:"that was checked out"`
	Snapshot    string    `json:"snapshot,omitempty" doc:"blob key of its files"`
	Deploy      *bool     `json:"deploy,omitempty" doc:"create its forward deployment; default true"`
	Until       string    `json:"until,omitempty" doc:"last stage of its forward deployment; left out: all stages"`
}

// RevisionsInput holds the parameters of ListRevisions.
type RevisionsInput struct {
	PipelinePath
	Limit int `query:"limit" minimum:"0" maximum:"1000" doc:"default 50"`
}

// Operations on revisions.
var (
	ListRevisions = Operation[RevisionsInput, []pipeline.RegisteredRevision]{ID: "list-revisions", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/revisions",
		Summary: "Registered revisions, newest first"}
	GetRevision = Operation[LabelPath, pipeline.RegisteredRevision]{ID: "get-revision", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/revisions/{label}",
		Summary: "One revision"}
	RegisterRevision = Operation[RevisionInput, journal.Registered]{ID: "register-revision", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/revisions", Scope: service.ScopeExecute,
		Summary: "Register a revision and create its forward deployment; idempotent"}
	RejectRevision = Operation[JudgmentInput, pipeline.RegisteredRevision]{ID: "reject-revision", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/revisions/{label}/reject", Scope: service.ScopeOperate,
		Summary: "Deploy a revision only when it is accepted again"}
	AcceptRevision = Operation[JudgmentInput, pipeline.RegisteredRevision]{ID: "accept-revision", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/revisions/{label}/accept", Scope: service.ScopeOperate,
		Summary: "Accept a rejected revision again"}
	PutSnapshot = Operation[Upload, Stored]{ID: "put-snapshot", Method: http.MethodPut,
		Path: "/api/v1/pipelines/{pipeline}/revisions/{label}/snapshot", Scope: service.ScopeExecute,
		Summary: "Store a revision's files, one archive, before it is registered"}
	GetSnapshot = Operation[LabelPath, service.SnapshotView]{ID: "get-snapshot", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/revisions/{label}/snapshot",
		Summary: "Whether a revision's files are in the blob store"}
	PutArtifact = Operation[ArtifactUpload, pipeline.RevisionArtifact]{ID: "put-artifact", Method: http.MethodPut,
		Path: "/api/v1/pipelines/{pipeline}/revisions/{label}/artifacts/{artifact}", Scope: service.ScopeExecute,
		Summary: "Store an artifact of a stage with build: external; the same content again is fine"}
)
