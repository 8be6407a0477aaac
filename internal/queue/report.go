package queue

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Report describes a process by the facts that no other row has. It is stored with each of its instances.
type Report struct {
	Roles       []string          `json:"roles,omitempty"` // roles that the process runs; one without work joins as no instance
	Reload      *Reload           `json:"reload,omitempty"`
	Stopped     map[string]string `json:"stopped,omitempty"`     // pipelines whose decisions stopped at a broken invariant, and why
	Undeletable map[string]string `json:"undeletable,omitempty"` // archived workflows that cannot be deleted, and why
	Home        *HostHome         `json:"home,omitempty"`        // home of a conductor on a shared database
	Blobs       *BlobStore        `json:"blobs,omitempty"`       // where the process keeps blobs; nil: its store did not answer at the start
	Broker      *Broker           `json:"broker,omitempty"`      // service broker of the process; nil: it runs none
}

// Broker describes the service broker of a process.
type Broker struct {
	URL     string    `json:"url"`
	Catalog string    `json:"catalog"`          // path of the file
	Served  bool      `json:"served"`           // whether a catalog is in force; without one the broker answers 503
	TriedAt time.Time `json:"triedAt,omitzero"` // time at which the file was refused; zero: its content is in force
	Faults  []string  `json:"faults,omitempty"` // reasons for the refusal
}

// BlobStore is the place where a process keeps blobs.
type BlobStore struct {
	ID  string `json:"id"`  // the same for all processes that see the same blobs
	URL string `json:"url"` // address for people
}

// Reload describes the origin of the configuration in force, and later attempts to replace it.
type Reload struct {
	File    string    `json:"file,omitempty"`    // "": there is none
	Since   time.Time `json:"since"`             // the configuration in force is in force since then
	TriedAt time.Time `json:"triedAt,omitzero"`  // time at which the file was refused; zero: its content is in force
	Faults  []string  `json:"faults,omitempty"`  // why it was refused
	Restart []string  `json:"restart,omitempty"` // sections that changed, and count from the next start only
}

// Reporter holds what this process reports about itself. Its instances write it with their next heartbeat. Safe for
// concurrent use; the zero value reports nothing.
type Reporter struct {
	mu     sync.Mutex
	report Report
}

// UpdateReport changes the report. change gets copies of the maps, as heartbeats may be reading the old ones, and replaces
// the rest; it is called under the lock and must not call the Reporter.
func (r *Reporter) UpdateReport(change func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Stopped, r.report.Undeletable = maps.Clone(r.report.Stopped), maps.Clone(r.report.Undeletable)
	change(&r.report)
}

// Report returns the report. The caller only reads what it refers to.
func (r *Reporter) Report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report
}

// MarshalReport returns a report as drivers store it: JSON, which an older Waybill reads as far as it knows the fields.
func MarshalReport(r Report) (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("write a report: %w", err)
	}
	return string(text), nil
}

// UnmarshalReport reads the output of MarshalReport; "" is an empty one.
func UnmarshalReport(text string) (r Report, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("read a report: %w", err)
	}
	return r, nil
}
