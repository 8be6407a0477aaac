package journal

import (
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Head is the one hot row of a pipeline. Whatever changes the pipeline locks it first, so its counters
// have no gaps: a transaction that rolls back gives its numbers back.
type Head struct {
	Pipeline string    `json:"pipeline"`
	Version  int       `json:"version"` // definition in force; 0: none yet
	Seq      int64     `json:"seq"`     // number of the last entry
	Newest   int64     `json:"newest"`  // newest registered rev_seq; 0: none
	Owner    action.ID `json:"owner,omitzero"`
	Epoch    int64     `json:"epoch"` // raised by every Lease that changes hands
	// Archived is the position of the last entry deployments-archived; 0: there is none. Positions at or below it may be missing,
	// those of the entries of archived deployments. The log is gapless above it.
	Archived int64 `json:"archived,omitempty"`
	// Digest is that of the last entry that has one.
	Digest pipeline.Digest `json:"-"`
}

// Version is one applied definition of a pipeline. All are kept, because entries name old ones and
// pinned deployments still follow them.
type Version struct {
	Pipeline   string              `json:"pipeline"`
	Version    int                 `json:"version"`
	Definition pipeline.Definition `json:"definition"`
	Encoded    []byte              `json:"-"`                // in a version to be stored: the definition as JSON; nil: not made yet
	Source     string              `json:"source,omitempty"` // the file as it was written
	By         string              `json:"by,omitempty"`
	At         time.Time           `json:"at"`
}

// EncodedDefinition returns the definition as JSON.
func (v Version) EncodedDefinition() ([]byte, error) {
	if v.Encoded != nil {
		return v.Encoded, nil
	}
	return json.Marshal(v.Definition)
}

// Deployment is one revision on its way through its pipeline. Status and EndedAt are roll-ups of its
// last status entry, and a retry clears EndedAt. Version is the one in force when it was created.
type Deployment struct {
	ID        action.ID       `json:"id"`
	Pipeline  string          `json:"pipeline"`
	Number    int64           `json:"number"` // 7 of greeter#7
	Kind      string          `json:"kind"`   // forward | manual | rollback | catch-up
	Revision  int64           `json:"revision"`
	Label     string          `json:"label"` // label of the revision
	Version   int             `json:"version"`
	Status    pipeline.Status `json:"status"`
	By        string          `json:"by,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
	EndedAt   time.Time       `json:"endedAt,omitzero"`
	Archive   string          `json:"archive,omitempty"` // key of the blob that has its entries; "": they are in the log
	Last      int64           `json:"-"`                 // in Archives: position of its last entry
}

// Resource is the service that runs on a host: (address, service) → the deployment that started it last. It has no
// pipeline or target in its key, since targets of two stages, or of two pipelines one after the other, may be the
// same resource.
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

// StageRun is one deployment's way through one stage. A retry reopens a failed one, and keeps its
// StartedAt and FailedAt.
type StageRun struct {
	Deployment int64     `json:"deployment"`
	Stage      string    `json:"stage"`
	Revision   int64     `json:"revision"`
	StartedAt  time.Time `json:"startedAt"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
	Outcome    string    `json:"outcome,omitempty"` // finished | failed | superseded | canceled; "" while it runs
	FailedAt   time.Time `json:"failedAt,omitzero"` // time of the first failure of the stage
	Changed    bool      `json:"changed,omitempty"` // it has started a host
}

// EndedRun is a StageRun that has ended, with the time of its revision's commit; zero if that is not
// known.
type EndedRun struct {
	StageRun
	CommittedAt time.Time `json:"committedAt,omitzero"`
}

// Introduction reports that an event came into a stage with a definition version (docs/design/deployments.md,
// Introductions).
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

// Standing summarizes the log of a target: pipeline, stage, group or host. Revision and Highest differ after an older
// revision was deployed again.
type Standing struct {
	Target   string    `json:"target"`
	Current  int64     `json:"current,omitempty"`  // the highest deployment that finished here
	Revision int64     `json:"revision,omitempty"` // revision of Current
	Highest  int64     `json:"highest,omitempty"`  // the largest rev_seq that finished here
	At       time.Time `json:"at,omitzero"`        // time of Current's finish
	Failed   int64     `json:"failed,omitempty"`   // the deployment that failed here last
	FailedAt time.Time `json:"failedAt,omitzero"`
}
