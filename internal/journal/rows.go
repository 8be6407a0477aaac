package journal

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
)

// Driver is a database that keeps the deployment log.
type Driver interface {
	// JournalRows returns the rows of the journal in a transaction of the driver.
	JournalRows(store.Rows) Rows
}

// Rows is the deployment log and its roll-ups, in one transaction. Methods work on many rows at once, since a round
// trip to the database takes longer than most statements. Arguments named pipeline are HeadRow.ID if they are an
// int64, and the name if they are a string. Methods that write need the head locked. The error of a method that only
// writes may be returned by a later one, or by the commit. A question about a pipeline that does not exist has an
// empty answer and no error.
type Rows interface {
	// LockHeads locks and reads the heads that exist, in the order of their ids. With create it makes those that are missing
	// first, and no other transaction does so, or stores a definition, before this one ends.
	LockHeads(pipelines []string, create bool) ([]HeadRow, error)
	// Heads reads without a lock, by name; no names: all.
	Heads(pipelines []string) ([]HeadRow, error)
	// UpdateHead writes a locked head, all but its name.
	UpdateHead(h HeadRow) error

	InsertVersion(pipeline int64, v Version) error
	// Versions reads one definition version, or all with version 0, oldest first.
	Versions(pipeline string, version int) ([]Version, error)

	// Marked returns, for each step that has an entry, the one with the highest occurrence.
	Marked(pipeline int64, keys []pipeline.StepKey) ([]pipeline.Entry, error)
	// InsertEntries appends entries that are numbered, and makes the targets that they are the first to name.
	InsertEntries(pipeline int64, entries []pipeline.Entry) error
	Entries(q EntryQuery) ([]pipeline.Entry, error)

	InsertRevision(pipeline int64, r pipeline.RegisteredRevision) error
	// SetRevisionState writes open, sealed or rejected.
	SetRevisionState(pipeline, revision int64, state string) error
	// Revisions reads by label, or by seq, or the newest limit ones, each with its artifacts.
	Revisions(pipeline, label string, seq int64, limit int) ([]pipeline.RegisteredRevision, error)
	// RevisionsBetween reads those after one seq and before another, newest first, without artifacts.
	RevisionsBetween(pipeline string, after, before int64, limit int) ([]pipeline.RegisteredRevision, error)
	InsertArtifact(pipeline, revision int64, a pipeline.RevisionArtifact) error
	// ArtifactEntries reads the entries artifact-registered of a revision, in their order.
	ArtifactEntries(pipeline string, revision int64) ([]pipeline.Entry, error)
	// UsesBlobs reports whether a revision or an artifact refers to a blob below a folder.
	UsesBlobs(folder string) (bool, error)

	InsertDeployment(pipeline int64, d Deployment) error
	// SetDeploymentStatus writes the roll-up of the last status row; a zero time clears the end.
	SetDeploymentStatus(pipeline, number int64, status pipeline.Status, ended time.Time) error
	Deployments(q DeploymentQuery) ([]Deployment, error)
	// DeploymentIDs reads the uuids of deployments by number.
	DeploymentIDs(pipeline int64, numbers []int64) (map[int64]action.ID, error)
	// Archive writes where the entries of a deployment are, deletes them, and returns how many it has deleted. All must be at
	// or below the bound in the head's row.
	Archive(pipeline int64, d ArchivedDeployment) (deleted int64, err error)
	// Archives reads archived deployments, by their last entries, newest first.
	Archives(q ArchiveQuery) ([]Deployment, error)

	// RollUp keeps the finishes and failures of targets: Current and Highest only grow, Failed is the last one.
	RollUp(pipeline int64, targets []RollUp) error
	// PutStageRun writes end and outcome, and makes the row with its start when it is not there. The first FailedAt stays, and
	// so does Changed once it is set.
	PutStageRun(pipeline int64, r StageRun) error
	StageRuns(pipeline string, deployment int64) ([]StageRun, error)
	// EndedRuns reads the runs that ended at a time or later, by their ends, of one stage or of all when stage is "".
	EndedRuns(pipeline, stage string, since time.Time) ([]EndedRun, error)
	// NewestFinished reads the newest revision that finished each stage before a time, by stage.
	NewestFinished(pipeline string, before time.Time) (map[string]int64, error)
	// PutResources writes what runs where, each resource once. A Finished of 0 leaves that of the same pipeline as it is.
	PutResources(pipeline int64, resources []Resource) error
	Resources(q ResourceQuery) ([]Resource, error)
	// InsertIntroduction stores the introduction of an event to a stage by a version, once.
	InsertIntroduction(pipeline int64, i Introduction) error
	Introductions(pipeline string) ([]Introduction, error)
	// Standings reads the roll-ups of targets, in no order. A target that nothing has happened to is left out.
	Standings(pipeline string, targets []string) ([]Standing, error)
	// History reads the history of a target in the newest limit deployments that started there below a position (0:
	// none): the deployments newest first, the entries of each in their order. It leaves out step-reported.
	History(pipeline, target string, below int64, limit int) ([]pipeline.Entry, error)
}

// HeadRow is a Head with the fields that only the journal needs. ID orders the locks of heads.
type HeadRow struct {
	Head
	ID       int64
	Deployed int64 // number of the newest deployment
}
