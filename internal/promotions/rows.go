package promotions

import (
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/store"
)

// Driver is a database that keeps promotions.
type Driver interface {
	// PromotionRows returns the rows of promotions in a transaction of the driver.
	PromotionRows(store.Rows) Rows
}

// HeadQuery selects heads, by name and then oldest first. All conditions hold.
type HeadQuery struct {
	Name   string // "": all
	UID    string // "": all
	Closed bool   // also pipelines that are gone
	After  string // only names after this one
	Limit  int    // 0: all
}

// RunQuery selects runs of a pipeline, newest first. All conditions hold.
type RunQuery struct {
	Pipeline string // namespace:name; runs of all that had the name
	Head     int64  // instead of a name: runs of one head
	Numbers  []int64
	Open     bool  // those that have not ended
	Before   int64 // number; 0: all
	Limit    int   // 0: all
}

// EntryQuery selects entries of one pipeline by sequence, oldest first. All conditions hold.
type EntryQuery struct {
	Head      int64
	Runs      []int64 // nil: all
	After     int64   // sequence
	FactsOnly bool
	Limit     int // 0: all
}

// Rows is the rows of promotions in one transaction. Methods that write rows of a pipeline need its head locked. The error of
// a method that only writes may be returned by a later one, or by the commit.
type Rows interface {
	// LockPromotions locks and reads, by id, the live heads with the names and all heads with the UIDs.
	LockPromotions(names, uids []string) ([]Head, error)
	// LockAllPromotions locks and reads all live heads, by id, and waits for all transactions that have called LockPromotions: no head
	// is locked, created or opened again beside it.
	LockAllPromotions() ([]Head, error)
	PromotionHeads(q HeadQuery) ([]Head, error)
	// InsertPromotionHead stores a head and returns its id.
	InsertPromotionHead(h Head) (int64, error)
	// UpdatePromotionHead writes sequence, newest run and end.
	UpdatePromotionHead(h Head) error

	// InsertRun stores a run unless its number exists.
	InsertRun(head int64, r Run) error
	EndRun(head, number int64, end promotion.RunEnd, at time.Time) error
	PromotionRuns(q RunQuery) ([]Run, error)
	// NeededRuns returns the numbers of the runs that have not ended, and, at most so many each, of the newest runs by environment and
	// cause, and of the newest runs that finished in an environment.
	NeededRuns(head int64, each int) ([]int64, error)

	// KeptRuns returns the oldest runs that ended before a time and have their entries in the database.
	KeptRuns(head int64, before time.Time, most int) ([]int64, error)
	// ArchiveRun stores the key of a run's archive and deletes its entries.
	ArchiveRun(head, number int64, key string) error

	// InsertPromotionEntries stores entries but for facts that exist.
	InsertPromotionEntries(head int64, entries []Entry) error
	PromotionEntries(q EntryQuery) ([]Entry, error)

	InsertSighting(head int64, s promotion.Sighting) error
	// Sightings reads the newest ones, oldest first.
	Sightings(head int64, newest int) ([]promotion.Sighting, error)

	PutPhases(head int64, phases []Phase) error
	Phases(head int64, runs []int64) ([]Phase, error)

	// InsertIntent stores an intent. run is not 0 if it counts in that run alone.
	InsertIntent(head, run int64, i promotion.Intent) error
	// Intents reads, oldest first, those of the runs and the newest ones of no run.
	Intents(head int64, runs []int64, newest int) ([]promotion.Intent, error)

	PutAttempts(head int64, attempts []Attempt) error
	// Attempts reads those of runs; nil reads all.
	Attempts(head int64, runs []int64) ([]Attempt, error)

	PutProposal(head int64, env promotion.EnvName, p promotion.Proposal) error
	Proposals(head int64) (map[promotion.EnvName]promotion.Proposal, error)

	// UseNonce stores a nonce and forgets those used before a time. It reports whether the nonce was not stored yet.
	UseNonce(key, nonce string, forget time.Time) (bool, error)

	// PutCall stores a call at the present time, and forgets those before a time.
	PutCall(c Call, forget time.Time) error
	Calls() ([]Call, error)

	// PutFreeze stores the freeze of a pipeline, or of all with the name ""; nil removes it.
	PutFreeze(pipeline string, f *admission.Freeze) error
	// Freezes reads those of pipelines by name, that of all pipelines with the name ""; nil reads every one.
	Freezes(pipelines []string) (map[string]admission.Freeze, error)

	ViewRows
}
