package builds

import (
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/store"
)

// Driver is a database that keeps builds.
type Driver interface {
	// BuildRows returns the rows of builds in a transaction of the driver.
	BuildRows(store.Rows) (Rows, PasswordRows)
}

// Rows is builds and their parts, in one transaction. Methods that write parts of a build need its row locked. The
// error of a method that only writes may be returned by a later one, or by the commit.
type Rows interface {
	// InsertBuild stores a build and returns its id.
	InsertBuild(b Build) (ID, error)
	// LockBuild locks and reads a build, also a deleted one. No build has the id if ok is false.
	LockBuild(id ID) (b Build, ok bool, err error)
	// UpdateBuild writes the changing columns of a build: all but those that InsertBuild stores for good, which is
	// everything from Project to Environment, Deployment, Target, Stages, Inputs, Engine, RerunOf, Resume, CreatedBy
	// and CreatedAt.
	UpdateBuild(b Build) error
	// Builds reads by query, newest first.
	Builds(q Query) ([]Build, error)
	// BuildsHaving returns those of the builds that have a part with a text: as its whole name if it is a stage, else in
	// its name, upper and lower case of ASCII letters alike.
	BuildsHaving(ids []ID, part Part, text string) ([]ID, error)
	// ResolveBuild stores the source of a build without a deployment.
	ResolveBuild(id ID, branch, commit string) error
	// DeleteResults deletes all rows of a build but its own.
	DeleteResults(id ID) error
	// BuildsBefore returns builds after one that have ended, were not deleted and have not expired, with no progress since a time; the oldest
	// first.
	BuildsBefore(at time.Time, after ID, limit int) ([]ID, error)
	// EndedResumes returns builds after one that have ended, were not deleted and have not expired, and that were to reuse
	// steps, unless their Bundle is NoBundle; the oldest first.
	EndedResumes(after ID, limit int) ([]ID, error)
	// DeleteSome deletes at most so many rows of each table of a build, other than its own row and its steps. left
	// reports that there are more.
	DeleteSome(id ID, most int) (left bool, err error)

	// PutSteps stores whole steps, new or known.
	PutSteps(id ID, steps []Step) error
	// Steps reads steps in the order of their ids; nil reads all.
	Steps(id ID, only []int) ([]Step, error)

	// StepCounts counts the steps of builds, step 0 left out. A build without any is not in the result.
	StepCounts(ids []ID) (map[ID]int, error)

	InsertBuildEvents(id ID, events []Event) error
	// HasBuildEvent reports whether an event of a source is stored.
	HasBuildEvent(id ID, source Source, eventID string) (bool, error)
	// BuildEvents reads those after a number, in their order. Trailers and final markers are left out.
	BuildEvents(id ID, after int64, limit int) ([]Event, error)

	InsertBlocks(id ID, blocks []Block) error
	// Blocks reads a step's blocks in their order, from the one that holds the byte at an offset up to the last one that begins before until.
	Blocks(id ID, step int, offset, until int64, limit int) ([]Block, error)
	// BlockOf reads the block that holds an entry, without its data.
	BlockOf(id ID, step int, logID int64) (b Block, ok bool, err error)
	// BlockSince reads the first block with an entry that is not older than a time, without its data.
	BlockSince(id ID, step int, at time.Time) (b Block, ok bool, err error)

	InsertBuildArtifacts(id ID, artifacts []Artifact) error
	// BuildArtifacts reads the artifacts of a build after one, in the order of their ids.
	BuildArtifacts(id ID, after int) ([]Artifact, error)

	// InsertReport stores a file's test report with the results, unless that is stored.
	InsertReport(id ID, f build.TestFile) error
	// TestReports reads the reports of a build in the order of their artifacts, without the results.
	TestReports(id ID) ([]build.TestFile, error)
	// TestSummaries reads the summaries of all reports of builds.
	TestSummaries(ids []ID) (map[ID][]Summary, error)
	// TestResults reads test results after one, in the order of artifact and ordinal. With broken only failed and flaky ones.
	TestResults(id ID, after TestResult, broken bool, limit int) ([]TestResult, error)
}

// PasswordRows is the passwords of builds, in one transaction.
type PasswordRows interface {
	// PutPasswords stores the passwords of a build, in the place of those that it has.
	PutPasswords(id ID, p Passwords) error
	// EraseInputs stores other inputs of a build, and leaves as little as the database can of the former ones.
	EraseInputs(id ID, left map[string]string) error
	// ForgetPasswords deletes the values of a build's passwords. Their names stay.
	ForgetPasswords(id ID) error
	// BuildPasswords reads the passwords of those of the builds that have any.
	BuildPasswords(ids []ID) (map[ID]Passwords, error)
}
