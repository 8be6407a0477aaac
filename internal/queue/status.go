package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// Backlog is what lives at one handler.
type Backlog struct {
	Handler  string                `json:"handler"`
	Counts   map[action.Status]int `json:"counts"`            // live actions by status; none: no key
	Ready    int                   `json:"ready"`             // actions that may be claimed now
	Oldest   time.Time             `json:"oldest,omitzero"`   // since when the one that waits longest is ready
	OldestID action.ID             `json:"oldestId,omitzero"` // which one; only in a Status
	// Free is Oldest without the lanes that are slowed, paused or disabled, whose actions wait on purpose; only in a Status.
	Free time.Time `json:"free,omitzero"`
}

// Live is how many there are.
func (b Backlog) Live() (n int) {
	for _, count := range b.Counts {
		n += count
	}
	return n
}

// Status counts all actions by handler and status, with the instances that work on them.
type Status struct {
	Now       time.Time
	Instances []InstanceRow
	Backlogs  []Backlog      // by handler
	NextDue   time.Time      // when the first of those is due that wait for their time; zero: none does
	Rescues   map[string]int // of the last hour, by the code of their events
	Strain    store.Strain
}

// rescuesFor is how far back Status counts rescues.
const rescuesFor = time.Hour

// Status counts all actions. It reads every live row once, and of the history only recent rescues.
func (q *Queue) Status(ctx context.Context) (s Status, err error) {
	err = q.list(ctx, "read the status", func(tx rows) error {
		s = Status{Now: tx.Now()}
		if s.Instances, err = tx.Instances(); err != nil {
			return err
		}
		if s.Backlogs, err = backlogs(tx); err != nil {
			return err
		}
		if err = waitLongest(tx, s.Backlogs); err != nil {
			return err
		}
		if s.NextDue, err = tx.NextRun(); err != nil {
			return err
		}
		if s.Rescues, err = tx.Rescues(s.Now.Add(-rescuesFor)); err != nil {
			return err
		}
		s.Strain, err = tx.Strain()
		return err
	})
	return s, err
}

// waitLongest adds to backlogs which action waits longest, and since when one waits that its lane lets start.
func waitLongest(tx rows, all []Backlog) error {
	limits, err := limitsOf(tx, nil)
	if err != nil {
		return err
	}
	troubled := map[string][]string{}
	for _, l := range limits {
		if l.Troubled() {
			handler := action.HandlerOf(l.Key)
			troubled[handler] = append(troubled[handler], l.Key)
		}
	}
	for i := range all {
		b := &all[i]
		if b.Ready == 0 {
			continue
		}
		if b.OldestID, err = tx.ReadyAt(b.Handler, b.Oldest); err != nil {
			return err
		}
		switch lanes := troubled[b.Handler]; {
		case len(lanes) == 0:
			b.Free = b.Oldest
		case !slices.Contains(lanes, action.HandlerKey(b.Handler)):
			if b.Free, err = tx.ReadyOutside(b.Handler, lanes); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sample is what is measured of the ledger regularly, by one of those that share it.
type Sample struct {
	Now        time.Time
	Backlogs   []Backlog
	Strain     store.Strain
	Partitions *Partitions // nil: the database has none, or they were not counted
}

// Sample measures. It reads every live row once.
func (q *Queue) Sample(ctx context.Context) (s Sample, err error) {
	err = q.read(ctx, "measure the ledger", func(tx rows) error {
		s.Now = tx.Now()
		if s.Backlogs, err = backlogs(tx); err != nil {
			return err
		}
		s.Strain, err = tx.Strain()
		return err
	})
	return s, err
}

// BacklogRow counts the live rows of a handler that are alike.
type BacklogRow struct {
	Handler string
	Status  action.Status
	Ready   bool
	Count   int
	Oldest  time.Time // the earliest due time
}

// backlogs counts live rows by handler, in the order of names.
func backlogs(tx rows) ([]Backlog, error) {
	rows, err := tx.Backlogs()
	byHandler := map[string]*Backlog{}
	for _, r := range rows {
		b := byHandler[r.Handler]
		if b == nil {
			b = &Backlog{Handler: r.Handler, Counts: map[action.Status]int{}}
			byHandler[r.Handler] = b
		}
		b.Counts[r.Status] += r.Count
		if r.Ready {
			b.Ready += r.Count
			if b.Oldest.IsZero() || r.Oldest.Before(b.Oldest) {
				b.Oldest = r.Oldest
			}
		}
	}
	var all []Backlog
	for _, b := range byHandler {
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b Backlog) int { return cmp.Compare(a.Handler, b.Handler) })
	return all, err
}

// Report is what a process reports about itself and no other row says. It is stored with each of its instances.
type Report struct {
	Reload      *Reload           `json:"reload,omitempty"`
	Stopped     map[string]string `json:"stopped,omitempty"`     // pipelines whose decisions stopped at a broken invariant, and why
	Undeletable map[string]string `json:"undeletable,omitempty"` // archived workflows that cannot be deleted, and why
	Home        *HostHome         `json:"home,omitempty"`        // of a conductor on a shared ledger
	Blobs       *BlobStore        `json:"blobs,omitempty"`       // where the process keeps blobs; nil: its store did not answer at the start
}

// BlobStore is where a process keeps blobs.
type BlobStore struct {
	ID  string `json:"id"`  // the same for all processes that see the same blobs
	URL string `json:"url"` // for people
}

// Reload is how the configuration in force came to be, and what became of the file since.
type Reload struct {
	File    string    `json:"file,omitempty"`    // "": there is none
	Since   time.Time `json:"since"`             // the configuration in force is in force since then
	TriedAt time.Time `json:"triedAt,omitzero"`  // when the file was refused; zero: what it says is in force
	Faults  []string  `json:"faults,omitempty"`  // why it was refused
	Restart []string  `json:"restart,omitempty"` // sections that changed, and count from the next start only
}

// Reporter holds what this process reports about itself. Its instances write it with their next heartbeat. Safe for
// concurrent use; the zero value reports nothing.
type Reporter struct {
	mu     sync.Mutex
	report Report
}

// UpdateReport changes the report.
func (r *Reporter) UpdateReport(change func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Stopped, r.report.Undeletable = maps.Clone(r.report.Stopped), maps.Clone(r.report.Undeletable)
	change(&r.report)
}

// Report returns the report.
func (r *Reporter) Report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report
}

// MarshalReport is a report as drivers store it.
func MarshalReport(r Report) (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("write a report: %w", err)
	}
	return string(text), nil
}

// UnmarshalReport reads what MarshalReport wrote; "" is an empty one.
func UnmarshalReport(text string) (r Report, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("read a report: %w", err)
	}
	return r, nil
}
