package pipeline

import "time"

// RegisteredRevision is a version of a project that may be deployed: a label, unique in its
// pipeline, and its artifacts.
type RegisteredRevision struct {
	Pipeline string `json:"pipeline"`
	// Seq is the order of registration in its pipeline, which is what makes one revision newer than
	// another: commits have no such order.
	Seq   int64  `json:"seq"`
	Label string `json:"label"`
	// Commit, Subject and CommittedAt are git's data on a revision that is a commit; empty for a folder with changes,
	// and for one outside of git.
	Commit      string    `json:"commit,omitempty"`
	Subject     string    `json:"subject,omitempty"`
	CommittedAt time.Time `json:"committedAt,omitzero"`
	Branch      string    `json:"branch,omitempty"` // checked-out branch at registration; "": none, or an earlier version stored it
	// Snapshot is the blob key of the registered files, from which its builds are made anywhere.
	Snapshot string `json:"snapshot,omitempty"`
	// State is open while artifacts may still be added, then sealed, or rejected.
	State     string             `json:"state"`
	By        string             `json:"by,omitempty"` // the person or token that registered it
	CreatedAt time.Time          `json:"createdAt"`
	Artifacts []RevisionArtifact `json:"artifacts,omitempty"`
}

// RevisionArtifact is one result of a revision's build.
type RevisionArtifact struct {
	Label  string `json:"label"`
	Name   string `json:"name"`   // file name in the build
	Digest string `json:"digest"` // sha256, 64 hex digits
	Size   int64  `json:"size"`   // bytes
	Blob   string `json:"blob"`   // blob key
	Build  string `json:"build,omitempty"`
	By     string `json:"by,omitempty"` // who uploaded it; "": a build of Waybill made it, or an earlier version stored it
}
