package provisioner

import (
	"context"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git"
)

// checkClone returns fault.Invalid for a repository that git would take for something else.
func checkClone(r *provisionerv1.Repository) error {
	if err := (git.Clone{URL: r.URL, Commit: r.Commit, Branch: r.Branch}).Check(); err != nil {
		return fault.Wrap(fault.Invalid, err)
	}
	return nil
}

// errOtherRequest refuses a launch of a build whose worker was created by another request.
func errOtherRequest(l Launch) error {
	return fault.New(fault.Conflict, "build %d has a worker, which was asked for with another request", l.BuildID)
}

// errDeleted refuses a launch of a build whose worker was deleted.
func errDeleted(l Launch) error {
	return fault.New(fault.Conflict, "the worker of build %d was deleted", l.BuildID)
}

// pauseUntil waits until it is woken, for at most d, or until ctx ends.
func pauseUntil(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-timer.C:
	}
}
