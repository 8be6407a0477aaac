package journal

import (
	"context"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// ArchivedDeployment is an ended deployment whose entries are in the blob store.
type ArchivedDeployment struct {
	Number      int64
	Key         string // key of the blob that has its entries
	Entries     int64  // number of entries that the blob has; none is deleted if the log has another number
	First, Last int64  // positions of the first and the last one
}

// ArchiveQuery selects archived deployments of one pipeline, by their last entries, newest first.
type ArchiveQuery struct {
	Pipeline string
	Stage    string // only those that went through it; "": all
	Before   int64  // only those whose first entry is below this position; 0: all
	Limit    int    // 0: all
}

// archive deletes the entries of ended deployments and records where they are. last is the position of the last entry that
// the change has appended, which must be deployments-archived: it is the new bound, at or below which positions may be
// missing. The error is fault.Conflict if a deployment is active or archived already, or if the log does not have
// as many entries of it as its archive. A deployment that does not exist is fault.Internal: the engine decided on it.
func (t *txn) archive(head *HeadRow, c Change, last int64) error {
	if len(c.Archived) == 0 {
		return nil
	}
	if n := len(c.Entries); n == 0 || c.Entries[n-1].Event != pipeline.DeploymentsArchived {
		return fault.New(fault.Internal, "deployments of %s are archived without an entry that says so", head.Pipeline)
	}
	if err := t.checkArchived(head, c.Archived); err != nil {
		return err
	}
	head.Archived = last
	if err := t.UpdateHead(*head); err != nil { // the database allows deleting entries at or below the bound
		return err
	}
	for _, d := range c.Archived {
		deleted, err := t.Archive(head.ID, d)
		if err != nil {
			return err
		}
		if deleted != d.Entries {
			return fault.New(fault.Conflict, "%s#%d has %d entries, its archive %d", head.Pipeline, d.Number, deleted, d.Entries)
		}
	}
	return nil
}

// checkArchived refuses deployments that have not ended, or that are archived already.
func (t *txn) checkArchived(head *HeadRow, some []ArchivedDeployment) error {
	numbers := make([]int64, len(some))
	for i, d := range some {
		if numbers[i] = d.Number; d.Key == "" {
			return fault.New(fault.Internal, "the archive of %s#%d has no key", head.Pipeline, d.Number)
		}
	}
	known, err := t.Deployments(DeploymentQuery{Pipeline: head.Pipeline, Numbers: numbers})
	if err != nil {
		return err
	}
	for _, d := range known {
		switch {
		case d.Status == pipeline.StatusActive:
			return fault.New(fault.Conflict, "%s#%d is active: only ended deployments are archived", head.Pipeline, d.Number)
		case d.Archive != "":
			return fault.New(fault.Conflict, "%s#%d is archived already", head.Pipeline, d.Number)
		}
	}
	if len(known) != len(numbers) {
		return fault.New(fault.Internal, "of %d deployments of %s to be archived %d exist", len(numbers), head.Pipeline, len(known))
	}
	return nil
}

// checkNotArchived refuses an entry of an archived deployment: engines have forgotten it.
func (t *txn) checkNotArchived(head *HeadRow, number int64) error {
	if number == 0 {
		return nil
	}
	known, err := t.Deployments(DeploymentQuery{Pipeline: head.Pipeline, Number: number})
	if err == nil && len(known) > 0 && known[0].Archive != "" {
		err = fault.New(fault.Refused, "%s#%d is archived", head.Pipeline, number)
	}
	return err
}

// Archives lists archived deployments by query, by their last entries, newest first. Each comes with the position of that entry.
func (j *Journal) Archives(ctx context.Context, q ArchiveQuery) (some []Deployment, err error) {
	err = j.list(ctx, "read archived deployments of "+q.Pipeline, func(tx *txn) error {
		some, err = tx.Archives(q)
		return err
	})
	return some, err
}

// StageRuns lists a deployment's runs through its stages, in the order of their starts. They outlive the archiving of the deployment.
func (j *Journal) StageRuns(ctx context.Context, name string, deployment int64) (runs []StageRun, err error) {
	err = j.list(ctx, "read the stages of "+name, func(tx *txn) error {
		runs, err = tx.StageRuns(name, deployment)
		return err
	})
	return runs, err
}
