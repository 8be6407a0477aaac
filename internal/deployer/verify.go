package deployer

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Verifier is the part of the log that Verify reads.
type Verifier interface {
	Reader
	Deployments(ctx context.Context, q journal.DeploymentQuery) ([]journal.Deployment, error)
}

// Verification is what Verify found.
type Verification struct {
	Pipeline    string   `json:"pipeline"`
	Entries     int64    `json:"entries"` // read without a fault
	Deployments int      `json:"deployments"`
	Archived    int      `json:"archived,omitempty"` // of the deployments: their entries are in the blob store
	Damaged     int      `json:"damaged,omitempty"`  // of the archives: each has a fault. One that is missing counts
	Faults      []string `json:"faults"`             // empty: the log is whole, and the database agrees with it
}

// verifyTries is how often Verify reads what is new while others append.
const verifyTries = 10

// Verify reads a pipeline's whole log into a new engine, which checks each row and the engine's invariants, and
// compares what follows from the log with what the database keeps beside it: the version in force, and the status of
// every deployment that is not archived. It reads every archive, to find out whether it is whole. The error is fault.NotFound if
// the pipeline does not exist.
func Verify(ctx context.Context, v Verifier, blobs blob.Store, name string) (Verification, error) {
	engine := pipeline.New(name)
	found := Verification{Pipeline: name, Faults: []string{}}
	before := int64(-1) // position after the last try
	for range verifyTries {
		err := Catch(ctx, v, name, engine, func(pipeline.Entry) { found.Entries++ })
		if errors.Is(err, ErrArchived) {
			engine, found.Entries, before = pipeline.New(name), 0, -1
			continue
		}
		if isBroken(err) || fault.Is(err, fault.Corrupt) {
			found.Faults = append(found.Faults, err.Error())
			return found, nil
		}
		if err != nil {
			return found, err
		}
		kept, err := v.Deployments(ctx, journal.DeploymentQuery{Pipeline: name})
		if err != nil {
			return found, err
		}
		head, err := v.Head(ctx, name)
		if err != nil {
			return found, err
		}
		if head.Seq <= engine.Seq() || engine.Seq() == before {
			found.Deployments = len(kept)
			found.Faults = append(found.Faults, disagreements(engine, head, kept)...)
			archived, err := found.readArchives(ctx, blobs, kept)
			if whole := len(found.Faults) == 0 && head.Seq == engine.Seq(); err == nil && whole && found.Entries+archived != head.Seq {
				found.Faults = append(found.Faults, fmt.Sprintf("the log has %d entries and its archives %d, together they should have %d", found.Entries, archived, head.Seq))
			}
			return found, err
		}
		before = engine.Seq()
	}
	return found, fault.New(fault.Refused, "the log of %s grows while it is compared", name).WithHint("try again when less is under way")
}

// disagreements says where the database and an engine at the end of the log differ.
func disagreements(engine *pipeline.Engine, head journal.Head, kept []journal.Deployment) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if head.Seq != engine.Seq() {
		add("the log ends at entry %d, the pipeline's head says %d", engine.Seq(), head.Seq)
	}
	if version, _ := engine.Current(); version != head.Version {
		add("definition %d is in force by the log, the pipeline's head says %d", version, head.Version)
	}
	inDatabase := map[int64]journal.Deployment{}
	for _, d := range kept {
		inDatabase[d.Number] = d
	}
	for _, d := range engine.Deployments(false) {
		its, ok := inDatabase[d.Deployment]
		delete(inDatabase, d.Deployment)
		switch {
		case !ok:
			add("deployment %d is in the log, but not in the database", d.Deployment)
		case its.Archive != "":
			add("deployment %d is in the log, the database says that it is archived", d.Deployment)
		case its.Status != d.Status:
			add("deployment %d is %s by the log, the database says %s", d.Deployment, d.Status, its.Status)
		}
	}
	for _, d := range kept {
		if _, left := inDatabase[d.Number]; left && d.Archive == "" {
			add("deployment %d is in the database, but not in the log", d.Number)
		}
	}
	return faults
}

// readArchives counts the archived deployments, and adds a fault for each archive that is missing or damaged. It returns the number
// of their entries.
func (found *Verification) readArchives(ctx context.Context, blobs blob.Store, kept []journal.Deployment) (entries int64, err error) {
	for _, d := range kept {
		if d.Archive == "" {
			continue
		}
		found.Archived++
		err := ReadArchive(ctx, blobs, d.Archive, func(e pipeline.Entry) error {
			if entries++; e.Deployment != d.Number {
				return fault.New(fault.Corrupt, "the archive %s has an entry of deployment %d", d.Archive, e.Deployment)
			}
			return nil
		})
		switch {
		case fault.Is(err, fault.Corrupt):
			found.Damaged++
			found.Faults = append(found.Faults, fmt.Sprintf("deployment %d: %v", d.Number, err))
		case err != nil:
			return entries, err
		}
	}
	return entries, nil
}
