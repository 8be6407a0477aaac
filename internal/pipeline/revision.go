package pipeline

import "time"

// RegisteredRevision is a version of a project that may be deployed: a label, unique in its pipeline, and its artifacts.
type RegisteredRevision struct {
	Pipeline    string             `json:"pipeline"`
	Seq         int64              `json:"seq"` // rev_seq
	Label       string             `json:"label"`
	Commit      string             `json:"commit,omitempty"`
	Subject     string             `json:"subject,omitempty"`
	CommittedAt time.Time          `json:"committedAt,omitzero"`
	Snapshot    string             `json:"snapshot,omitempty"` // blob key of the registered files
	State       string             `json:"state"`              // open | sealed | rejected
	By          string             `json:"by,omitempty"`
	CreatedAt   time.Time          `json:"createdAt"`
	Artifacts   []RevisionArtifact `json:"artifacts,omitempty"`
}

// RevisionArtifact is one result of a revision's build.
type RevisionArtifact struct {
	Label  string `json:"label"`
	Name   string `json:"name"`   // file name in the build
	Digest string `json:"digest"` // sha256, 64 hex digits
	Size   int64  `json:"size"`   // bytes
	Blob   string `json:"blob"`   // blob key
	Build  string `json:"build,omitempty"`
}
