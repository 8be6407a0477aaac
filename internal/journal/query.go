package journal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// EntryQuery selects entries of one pipeline. Without Limit the answer may be the whole log, so a
// caller that reads a log from its start sets Limit and asks again After the last row.
type EntryQuery struct {
	Pipeline   string
	After      int64          // only rows with a greater seq
	UpTo       int64          // only rows up to this seq; 0: all. The API does not have it
	Deployment int64          // 0: all
	Target     string         // "": all; else the target and everything below it
	Class      pipeline.Class // 0: all
	Limit      int            // 0: all
	Newest     bool           // the last Limit rows, still in ascending order
	Digests    bool           // with their digests. The API does not have it
}

// DeploymentQuery selects deployments, newest first. Number, Revision and Before count within a
// pipeline, so they mean nothing without one.
type DeploymentQuery struct {
	Pipeline string          // "": all
	Revision int64           // 0: all
	Number   int64           // 0: all; needs Pipeline
	Numbers  []int64         // nil: all; needs Pipeline
	Status   pipeline.Status // "": all
	Before   int64           // keyset: only numbers below; needs Pipeline
	Limit    int             // 0: all
}

// ResourceQuery selects resources, in the order of their addresses and services.
type ResourceQuery struct {
	Pipeline string            // "": all
	Address  string            // address of a host; "": all
	After    pipeline.Resource // keyset: only those behind this one; zero: all
	Limit    int               // 0: all
}

// EntriesUnder reads the entries of a deployment at a target and below it, in their order.
func (j *Journal) EntriesUnder(ctx context.Context, name string, deployment int64, target string) ([]pipeline.Entry, error) {
	return j.Entries(ctx, EntryQuery{Pipeline: name, Deployment: deployment, Target: target})
}

// Heads lists every pipeline's head, by name.
func (j *Journal) Heads(ctx context.Context) ([]Head, error) {
	heads, _, err := j.heads(ctx, nil)
	return heads, err
}

// Head reads one pipeline's head without locking it. Errors: fault.NotFound.
func (j *Journal) Head(ctx context.Context, name string) (Head, error) {
	head, _, err := j.HeadAt(ctx, name)
	return head, err
}

// HeadAt does the same as Head, and returns the database's time of it.
func (j *Journal) HeadAt(ctx context.Context, name string) (Head, time.Time, error) {
	heads, now, err := j.heads(ctx, []string{name})
	if err == nil && len(heads) == 0 {
		err = pipelineNotFound(name)
	}
	if err != nil {
		return Head{}, time.Time{}, err
	}
	return heads[0], now, nil
}

func (j *Journal) heads(ctx context.Context, names []string) (heads []Head, now time.Time, err error) {
	err = j.read(ctx, "read pipelines", func(tx *txn) error {
		rows, err := tx.Heads(names)
		heads = make([]Head, len(rows))
		for i, r := range rows {
			heads[i] = r.Head
		}
		now = tx.Now()
		return err
	})
	return heads, now, err
}

// Version reads one definition version; 0: the one in force. The error is fault.NotFound if the
// pipeline or the version does not exist.
func (j *Journal) Version(ctx context.Context, name string, version int) (v Version, err error) {
	err = j.read(ctx, "read definition of "+name, func(tx *txn) error {
		heads, err := tx.Heads([]string{name})
		if err != nil {
			return err
		}
		if len(heads) == 0 {
			return pipelineNotFound(name)
		}
		if version == 0 { // Rows.Versions would read all versions
			version = heads[0].Version
		}
		if version != 0 {
			some, err := tx.Versions(name, version)
			if err != nil {
				return err
			}
			if len(some) > 0 {
				v = some[0]
				return nil
			}
		}
		return fault.New(fault.NotFound, "pipeline %q has no definition %d", name, version)
	})
	return v, err
}

// Definition reads the definition of one version; 0: the one in force. Its errors are those of
// Version.
func (j *Journal) Definition(ctx context.Context, name string, version int) (pipeline.Definition, error) {
	v, err := j.Version(ctx, name, version)
	return v.Definition, err
}

// Versions lists all versions, oldest first. A pipeline that does not exist has none.
func (j *Journal) Versions(ctx context.Context, name string) (some []Version, err error) {
	err = j.list(ctx, "read definitions of "+name, func(tx *txn) error {
		some, err = tx.Versions(name, 0)
		return err
	})
	return some, err
}

// Entries reads the log in the order of seq. A pipeline that does not exist has no entries.
func (j *Journal) Entries(ctx context.Context, q EntryQuery) (entries []pipeline.Entry, err error) {
	err = j.list(ctx, "read the log of "+q.Pipeline, func(tx *txn) error {
		entries, err = tx.Entries(q)
		return err
	})
	return entries, err
}

// Revision finds a revision by its label, or by its rev_seq when label is "". Errors: fault.NotFound.
func (j *Journal) Revision(ctx context.Context, name, label string, seq int64) (r pipeline.RegisteredRevision, err error) {
	err = j.read(ctx, "read revision", func(tx *txn) error {
		if r, err = oneRevision(tx, name, label, seq); err != nil || len(r.Artifacts) == 0 {
			return err
		}
		return tx.uploaders(&r)
	})
	return r, err
}

// uploaders reads the names of those who uploaded the artifacts of a revision.
func (t *txn) uploaders(r *pipeline.RegisteredRevision) error {
	entries, err := t.ArtifactEntries(r.Pipeline, r.Seq)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var about struct{ Label, By string }
		if err := json.Unmarshal(e.Detail, &about); err != nil {
			return fault.New(fault.Corrupt, "entry %d of %s: %v", e.Seq, r.Pipeline, err)
		}
		for i := range r.Artifacts {
			if r.Artifacts[i].Label == about.Label {
				r.Artifacts[i].By = about.By
			}
		}
	}
	return nil
}

// Revisions lists the newest first; limit 0: all.
func (j *Journal) Revisions(ctx context.Context, name string, limit int) (some []pipeline.RegisteredRevision, err error) {
	err = j.list(ctx, "read revisions of "+name, func(tx *txn) error {
		some, err = tx.Revisions(name, "", 0, limit)
		return err
	})
	return some, err
}

// Deployments lists by query, newest first. Those in progress have the status active; drivers find
// them by an index of their own, however many have ended.
func (j *Journal) Deployments(ctx context.Context, q DeploymentQuery) (some []Deployment, err error) {
	err = j.list(ctx, "read deployments", func(tx *txn) error {
		some, err = tx.Deployments(q)
		return err
	})
	return some, err
}

// Deployment reads one by number. Errors: fault.NotFound.
func (j *Journal) Deployment(ctx context.Context, name string, number int64) (Deployment, error) {
	none := fault.New(fault.NotFound, "deployment %s#%d not found", name, number)
	if number <= 0 { // 0 would select all
		return Deployment{}, none
	}
	some, err := j.Deployments(ctx, DeploymentQuery{Pipeline: name, Number: number})
	if err != nil {
		return Deployment{}, err
	}
	if len(some) == 0 {
		return Deployment{}, none
	}
	return some[0], nil
}

// Resources lists what runs where, in the order of addresses and services.
func (j *Journal) Resources(ctx context.Context, q ResourceQuery) (some []Resource, err error) {
	err = j.list(ctx, "read resources", func(tx *txn) error {
		some, err = tx.Resources(q)
		return err
	})
	return some, err
}
