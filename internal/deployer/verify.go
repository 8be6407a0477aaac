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

// Verification is the result of Verify.
type Verification struct {
	Pipeline    string `json:"pipeline"`
	Entries     int64  `json:"entries"` // read without a fault
	Deployments int    `json:"deployments"`
	Archived    int    `json:"archived,omitempty"` // deployments whose entries are in the blob store
	Damaged     int    `json:"damaged,omitempty"`  // archives with a fault. A missing one counts
	// Digest is that of the entry at Seq, the last one, and so of the log up to there. Uncovered entries have no digest: the version
	// that wrote them computed none.
	Seq       int64           `json:"seq"`
	Digest    pipeline.Digest `json:"digest,omitzero"`
	Uncovered int64           `json:"uncovered,omitempty"`
	Faults    []string        `json:"faults"` // empty: the log is whole, and the database agrees with it
}

// verifyTries bounds the reads of new entries by Verify while others append.
const verifyTries = 10

// Verify reads a pipeline's whole log into a new engine, which checks each row and the engine's invariants, and
// compares the consequences of the log with what the database keeps beside it: the version in force, and the status
// of every deployment that is not archived. It compares each entry, also of archives, with the digest that it was
// written with. The error is fault.NotFound if the pipeline does not exist.
func Verify(ctx context.Context, v Verifier, blobs blob.Store, name string) (Verification, error) {
	found := Verification{Pipeline: name, Faults: []string{}}
	if err := found.readLog(ctx, v); err != nil {
		return found, err
	}
	return found, found.readDigests(ctx, v, blobs)
}

// readLog folds the log, and adds a fault where it is broken, or where it and the database do not agree.
func (found *Verification) readLog(ctx context.Context, v Verifier) error {
	engine := pipeline.New(found.Pipeline)
	before := int64(-1) // position after the last try
	for range verifyTries {
		err := Catch(ctx, v, found.Pipeline, engine, func(pipeline.Entry) { found.Entries++ })
		if errors.Is(err, ErrArchived) {
			engine, found.Entries, before = pipeline.New(found.Pipeline), 0, -1
			continue
		}
		if isBroken(err) || fault.Is(err, fault.Corrupt) {
			found.Faults = append(found.Faults, err.Error())
			return nil
		}
		if err != nil {
			return err
		}
		kept, err := v.Deployments(ctx, journal.DeploymentQuery{Pipeline: found.Pipeline})
		if err != nil {
			return err
		}
		head, err := v.Head(ctx, found.Pipeline)
		if err != nil {
			return err
		}
		if head.Seq <= engine.Seq() || engine.Seq() == before {
			found.Deployments = len(kept)
			found.Faults = append(found.Faults, disagreements(engine, head, kept)...)
			return nil
		}
		before = engine.Seq()
	}
	return found.grows()
}

// grows returns the error of a log that is never at rest.
func (found *Verification) grows() error {
	return fault.New(fault.Refused, "the log of %s grows while it is compared", found.Pipeline).WithHint("try again when less is under way")
}

// disagreements reports where the database and an engine at the end of the log differ.
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

// readDigests reads the log and its archives once more, and adds a fault for each entry that is missing or does not have the digest
// that it was written with. It begins again when deployments are archived while it reads, since their entries would be in neither
// place, or in both.
func (found *Verification) readDigests(ctx context.Context, v Verifier, blobs blob.Store) error {
	for range verifyTries {
		head, err := v.Head(ctx, found.Pipeline)
		if err != nil {
			return err
		}
		var check pipeline.DigestCheck
		for q := (journal.EntryQuery{Pipeline: found.Pipeline, UpTo: head.Seq, Limit: foldRows, Digests: true}); ; {
			rows, err := v.Entries(ctx, q)
			if err != nil {
				return err
			}
			for _, e := range rows {
				check.Add(e)
				q.After = e.Seq
			}
			if len(rows) < foldRows {
				break
			}
		}
		kept, err := v.Deployments(ctx, journal.DeploymentQuery{Pipeline: found.Pipeline})
		if err != nil {
			return err
		}
		now, err := v.Head(ctx, found.Pipeline)
		if err != nil {
			return err
		}
		if now.Archived != head.Archived {
			continue
		}
		if err := found.readArchives(ctx, blobs, kept, &check); err != nil {
			return err
		}
		gaps := int64(0)
		if found.Damaged > 0 {
			gaps = head.Archived // entries of these archives are not known
		}
		found.Faults = append(found.Faults, check.Check(head.Seq, head.Digest, gaps)...)
		found.Seq, found.Digest, found.Uncovered = head.Seq, head.Digest, check.Uncovered
		return nil
	}
	return found.grows()
}

// readArchives counts the archived deployments, and adds a fault for each archive that is missing or damaged. It adds the
// entries of those that are whole to a check.
func (found *Verification) readArchives(ctx context.Context, blobs blob.Store, kept []journal.Deployment,
	check *pipeline.DigestCheck) error {
	for _, d := range kept {
		if d.Archive == "" {
			continue
		}
		found.Archived++
		var part pipeline.DigestCheck
		err := ReadArchive(ctx, blobs, d.Archive, func(e pipeline.Entry) error {
			if e.Deployment != d.Number {
				return fault.New(fault.Corrupt, "the archive %s has an entry of deployment %d", d.Archive, e.Deployment)
			}
			part.Add(e)
			return nil
		})
		switch {
		case fault.Is(err, fault.Corrupt):
			found.Damaged++
			found.Faults = append(found.Faults, fmt.Sprintf("deployment %d: %v", d.Number, err))
		case err != nil:
			return err
		default:
			check.Join(part)
		}
	}
	return nil
}
