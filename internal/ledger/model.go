package ledger

import (
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Head is the one hot row of a pipeline.
type Head struct {
	Pipeline string    `json:"pipeline"`
	Version  int       `json:"version"` // definition in force; 0: none yet
	Seq      int64     `json:"seq"`     // of the last entry
	Newest   int64     `json:"newest"`  // newest registered rev_seq; 0: none
	Owner    action.ID `json:"owner,omitzero"`
	Epoch    int64     `json:"epoch"` // raised by every Lease that changes hands
}

// Version is one applied definition of a pipeline; all are kept.
type Version struct {
	Pipeline   string              `json:"pipeline"`
	Version    int                 `json:"version"`
	Definition pipeline.Definition `json:"definition"`
	Source     string              `json:"source,omitempty"` // the file as it was written
	By         string              `json:"by,omitempty"`
	At         time.Time           `json:"at"`
}

// Revision is a registered revision: a label, unique in its pipeline, and its artifacts.
type Revision struct {
	Pipeline    string     `json:"pipeline"`
	Seq         int64      `json:"seq"` // rev_seq
	Label       string     `json:"label"`
	Commit      string     `json:"commit,omitempty"`
	Subject     string     `json:"subject,omitempty"`
	CommittedAt time.Time  `json:"committedAt,omitzero"`
	Snapshot    string     `json:"snapshot,omitempty"` // blob key of the registered files
	State       string     `json:"state"`              // open | sealed | rejected
	By          string     `json:"by,omitempty"`
	CreatedAt   time.Time  `json:"createdAt"`
	Artifacts   []Artifact `json:"artifacts,omitempty"`
}

// Artifact is one result of a revision's build.
type Artifact struct {
	Label  string `json:"label"`
	Name   string `json:"name"`   // file name in the build
	Digest string `json:"digest"` // sha256, 64 hex digits
	Size   int64  `json:"size"`   // bytes
	Blob   string `json:"blob"`   // blob key
	Build  string `json:"build,omitempty"`
}

// Deployment is one trip of one revision through its pipeline.
type Deployment struct {
	ID        action.ID       `json:"id"`
	Pipeline  string          `json:"pipeline"`
	Number    int64           `json:"number"` // 7 of greeter#7
	Kind      string          `json:"kind"`   // forward | manual
	Revision  int64           `json:"revision"`
	Label     string          `json:"label"` // of the revision
	Version   int             `json:"version"`
	Status    pipeline.Status `json:"status"`
	By        string          `json:"by,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
	EndedAt   time.Time       `json:"endedAt,omitzero"`
}

// Resource is what runs on a host: (address, service) → the deployment that started it last.
type Resource struct {
	Address    string    `json:"address"`
	Service    string    `json:"service"`
	Pipeline   string    `json:"pipeline"`
	Target     string    `json:"target"`
	Deployment int64     `json:"deployment"` // last started
	Revision   int64     `json:"revision"`
	Finished   int64     `json:"finished"` // deployment that last finished here; 0: none
	At         time.Time `json:"at"`
}

// ActionState is an action with where it stands: its live thread, or its end.
type ActionState struct {
	action.Action
	Thread     action.Thread   `json:"thread"`
	Code       string          `json:"code,omitempty"`
	Error      string          `json:"error,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	OutputRef  string          `json:"outputRef,omitempty"` // blob key of an output that is too big for the row
	Ref        string          `json:"ref,omitempty"`
	EnqueuedAt time.Time       `json:"enqueuedAt"` // when it was stored; its id, and so CreatedAt, may be older
	FinishedAt time.Time       `json:"finishedAt,omitzero"`
	UpdatedAt  time.Time       `json:"updatedAt,omitzero"`   // of its last event
	Dismissed  time.Time       `json:"dismissedAt,omitzero"` // when a client deleted the ended job
}

// Claimed is an action together with the fence of the claim.
type Claimed struct {
	action.Action
	Thread action.Thread
}

// Completion is the end of a claimed attempt. One whose claim is no longer the
// owner's is dropped and reported as late.
type Completion struct {
	ID      action.ID
	Attempt int
	Outcome action.Outcome
	HandOff bool     // Done means that the work was accepted elsewhere: QUEUED
	Claimed *Claimed // as the claim returned it, so that it need not be read again; nil: it is read
}

// Want asks for up to N ready actions of one lane.
type Want struct {
	Lane    string
	N       int
	HandOff bool // a claim changes no status: whoever observes the work says when it begins
	Metered bool // the caller was granted tokens, so a slowed lane is claimed from as well
}

// MaxClaimBytes bounds the parameters of the actions that one Turn claims; the last of them may exceed it.
const MaxClaimBytes = 8 << 20

// Turned is what a Turn did.
type Turned struct {
	Claimed  []Claimed
	Full     bool        // the claim reached MaxClaimBytes: a lane that gave less than was asked for may have more
	Late     []action.ID // completions that matched no claim
	Deferred Deferred    // completions that were left out
}

// Instance is one process that runs roles against a shared ledger.
type Instance struct {
	ID       action.ID
	Name     string   // host name and process id, for people
	Version  string   // of the program
	Roles    []string // conductor, deployer, …
	Handlers []string // that it serves now
	Draining bool     // it takes on nothing new
	Report   Report   // what its process has to tell
	// Heartbeat is how often it says that it lives; its lease is three of them. 0: HeartbeatEvery.
	Heartbeat time.Duration
}

// Beat is how often the instance says that it lives.
func (i Instance) Beat() time.Duration {
	if i.Heartbeat <= 0 {
		return HeartbeatEvery
	}
	return i.Heartbeat
}

// lease is for how long it is taken to live after it has said so.
func (i Instance) lease() time.Duration { return 3 * i.Beat() }

// CancelMode says how an action is ended by somebody else.
type CancelMode uint8

const (
	CancelNow CancelMode = iota + 1 // unclaimed: at once; claimed: its context is canceled
	Drain                           // unclaimed: at once; a running attempt may end, none follows
)

// StageRun is one deployment's way through one stage.
type StageRun struct {
	Deployment int64     `json:"deployment"`
	Stage      string    `json:"stage"`
	Revision   int64     `json:"revision"`
	StartedAt  time.Time `json:"startedAt"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
	Outcome    string    `json:"outcome,omitempty"` // finished | failed | superseded | canceled; "" while it runs
}

// Introduction says that an event came into a stage with a definition version (4.9).
type Introduction struct {
	Stage         string `json:"stage"`
	Event         string `json:"event"`
	RevisionAfter int64  `json:"revisionAfter"` // the newest rev_seq registered by then
	Version       int    `json:"version"`
	Strict        bool   `json:"strict,omitempty"`
}

// RollUp is one deployment's finish or failure at a target.
type RollUp struct {
	Target     string
	Failed     bool
	Deployment int64
	Revision   int64
	At         time.Time
}

// Standing is what a target's log says in short: pipeline, stage, group or host.
type Standing struct {
	Target   string    `json:"target"`
	Current  int64     `json:"current,omitempty"`  // the highest deployment that finished here
	Revision int64     `json:"revision,omitempty"` // of Current
	Highest  int64     `json:"highest,omitempty"`  // the largest rev_seq that finished here
	At       time.Time `json:"at,omitzero"`        // of Current's finish
	Failed   int64     `json:"failed,omitempty"`   // the deployment that failed here last
	FailedAt time.Time `json:"failedAt,omitzero"`
}

// Token is an access token. Only the hash of its secret is kept.
type Token struct {
	Hash      [32]byte  `json:"-"` // SHA-256 of the secret
	Name      string    `json:"name"`
	Scopes    []string  `json:"scopes"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero: never
	RevokedAt time.Time `json:"revokedAt,omitzero"`
}

// Valid reports whether the token opens anything at a moment.
func (t Token) Valid(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}
