package builds

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// ID is the number of a build. Ids rise with time, and a deleted one is not used again.
type ID int64

// Build is one build. Its log is that of step 0.
type Build struct {
	ID          ID                `json:"buildId"`
	Project     string            `json:"project"`
	Branch      string            `json:"branch,omitempty"`
	Commit      string            `json:"commit,omitempty"`
	Revision    string            `json:"revision,omitempty"`   // label, of a deployment's build
	Deployment  int64             `json:"deployment,omitempty"` // deployment of the pipeline Project; 0: none
	Target      string            `json:"target,omitempty"`     // target in the deployment
	Environment string            `json:"environment,omitempty"`
	Stages      []string          `json:"stages,omitempty"` // requested stages; none: all
	Inputs      map[string]string `json:"inputs,omitempty"` // without passwords
	Engine      string            `json:"engine,omitempty"` // another build engine; "": a worker of Waybill
	WorkerID    string            `json:"workerId,omitempty"`
	Nonce       string            `json:"-"` // nonce of the worker's token
	RerunOf     ID                `json:"rerunOf,omitempty"`
	Resume      bool              `json:"resume,omitempty"` // steps of RerunOf that completed do not run again
	Bundle      string            `json:"-"`                // blob key of what these have left; "": it was not gathered yet
	ActionID    action.ID         `json:"actionId,omitzero"`

	Status  build.Status `json:"status"`
	Reason  string       `json:"reason,omitempty"`  // reason of the last event
	Message string       `json:"message,omitempty"` // message of the last event

	CreatedBy         string    `json:"createdBy"`
	CreatedAt         time.Time `json:"createdAt"`
	StartedAt         time.Time `json:"startedAt,omitzero"` // by the clock of the worker
	EndedAt           time.Time `json:"endedAt,omitzero"`   // by the clock of the source of the end
	CancelRequestedAt time.Time `json:"cancelRequestedAt,omitzero"`
	LeaseUntil        time.Time `json:"leaseUntil,omitzero"`     // an aggregator has heard from the worker up to 30 s before
	LastProgressAt    time.Time `json:"lastProgressAt,omitzero"` // something new was stored
	AcknowledgedAt    time.Time `json:"acknowledgedAt,omitzero"` // the worker knows that everything is stored
	DeletedAt         time.Time `json:"deletedAt,omitzero"`      // then this row is all that is left
	ExpiredAt         time.Time `json:"expiredAt,omitzero"`      // retention took the results; the steps are left

	LastSeq        int64        `json:"lastSeq"`       // number of its last event
	RefusedEvents  int64        `json:"refusedEvents"` // changes that were not allowed
	EventCursor    int64        `json:"-"`             // id of the worker's last event
	ArtifactCursor int          `json:"-"`             // id of the last artifact
	Final          *build.Final `json:"final,omitempty"`
}

// Step is one step of a build, or with ID 0 the build's own log.
type Step struct {
	ID        int            `json:"stepId"`
	Stage     string         `json:"stage"`
	Name      string         `json:"name"`
	Type      string         `json:"type,omitempty"`
	Needs     []int          `json:"needs"` // ids of the steps that end before
	Status    build.Status   `json:"status"`
	Attempt   int            `json:"attempt,omitempty"`
	Reason    string         `json:"reason,omitempty"`
	Message   string         `json:"message,omitempty"`
	ExitCode  *int           `json:"exitCode,omitempty"`
	StartedAt time.Time      `json:"startedAt,omitzero"` // by the clock of the worker
	EndedAt   time.Time      `json:"endedAt,omitzero"`   // by the clock of the worker
	LogLines  int64          `json:"logLines"`           // entries that are stored
	LogBytes  int64          `json:"logBytes"`           // bytes of the entries, as in the worker's file
	Trailer   *build.Trailer `json:"trailer,omitempty"`  // nil: the step has not ended
	HashState []byte         `json:"-"`                  // state of SHA-256 over LogBytes; nil: over nothing
	Identity  string         `json:"-"`                  // build.Plan.Identity; "": not known
}

// Position returns the end of the log that is stored.
func (s Step) Position() build.Position { return build.Position{ID: s.LogLines, Offset: s.LogBytes} }

// Source is the sender of an event.
type Source string

// The sources.
const (
	Worker     Source = "worker" // ids are 1, 2, 3 …, without a gap
	Aggregator Source = "aggregator"
	Watchdog   Source = "watchdog"
	Conductor  Source = "conductor"
	API        Source = "api"    // people
	Engine     Source = "engine" // another build engine
)

// Event is one status of a step, or of the build when the step is 0. One without a status is a remark: it changes nothing.
type Event struct {
	Seq      int64          `json:"seq"` // number in the build, from 1; set when it is stored
	Source   Source         `json:"source"`
	EventID  string         `json:"eventId"` // unique for its source in the build
	Step     int            `json:"stepId"`
	Status   build.Status   `json:"status"`
	Attempt  int            `json:"attempt,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Message  string         `json:"message,omitempty"`
	ExitCode *int           `json:"exitCode,omitempty"`
	Trailer  *build.Trailer `json:"-"`        // trailer of a worker's step that ends; kept on the step
	Final    *build.Final   `json:"-"`        // final marker of a worker's build that ends; kept on the build
	Applied  bool           `json:"applied"`  // false: the change was not allowed, and changed nothing
	At       time.Time      `json:"at"`       // by the clock of the source
	StoredAt time.Time      `json:"storedAt"` // by the clock of the database
}

// ArtifactState reports whether the bytes of an artifact match the worker's report.
type ArtifactState string

// The states.
const (
	Stored  ArtifactState = "Stored"
	Damaged ArtifactState = "Damaged" // what could be read differs from the size or digest; no blob is kept
)

// Artifact is a file that a step yielded. Its Path is the key of its bytes in the blob store.
type Artifact struct {
	build.Artifact
	State    ArtifactState
	StoredAt time.Time
}

// Summary summarizes a file of test results. Its JSON is stored; a build.TestFile reads it.
type Summary struct {
	testresult.Counts
	Omitted int               `json:"omitted,omitempty"` // tests that are only counted
	Problem *testresult.Error `json:"problem,omitempty"` // why the file cannot be read; then it reports nothing
}

// SummaryOf returns the summary of a file.
func SummaryOf(f build.TestFile) Summary { return Summary{f.Counts, f.Omitted, f.Problem} }

// TestResult is one test of an artifact.
type TestResult struct {
	Artifact int `json:"artifactId"`
	Ordinal  int `json:"ordinal"` // in the file, from 1
	testresult.Result
}

// Block is consecutive entries of a step's log.
type Block struct {
	Step    int
	Begin   build.Position // before the first entry
	Lines   int            // entries
	Size    int            // bytes, at most BlockSize
	FirstAt time.Time      // times of the first and last entry; zero: it has no time
	LastAt  time.Time
	Data    []byte // zstd of the entries, as in the worker's file
}

// Query selects builds. Zero fields select all.
type Query struct {
	IDs         []ID
	ActionID    action.ID
	Project     string
	Branch      string
	Commit      string // its beginning
	Revision    string
	Environment string
	Deployment  int64
	Status      build.Status
	Since       time.Time // created then or later
	Until       time.Time // created before
	Active      bool      // has not ended
	Deleted     bool      // tombstones, too
	Before      ID        // smaller ids, which is the cursor of a list; 0: from the newest
	Limit       int       // 0: no limit
}

// CommitRange returns the texts between which all commits are that begin with Commit: from is the first one, and below comes after all.
func (q Query) CommitRange() (from, below string) { return q.Commit, q.Commit + "\U0010ffff" }

// Part names the part of a build that Having searches.
type Part string

// The parts.
const (
	PartStage    Part = "stage"    // whole names of stages
	PartArtifact Part = "artifact" // names of artifacts
	PartTest     Part = "test"     // suites and names of tests
)
