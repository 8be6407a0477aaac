package assembly

import (
	"cmp"
	"context"
	"slices"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/queue"
)

// share is the part of the workers that an aggregator follows. It saves work: that nothing is lost or stored twice does not depend on it.
type share struct {
	shard     build.Shard // fixed; zero: the live aggregators share the workers
	self      string      // name of this process among the instances
	instances func(ctx context.Context) ([]queue.InstanceRow, error)
	now       func(ctx context.Context) (time.Time, error) // on the clock of the leases
}

// of returns the workers of the share.
func (s share) of(ctx context.Context, workers []provisionerv1.Worker) ([]provisionerv1.Worker, error) {
	mine := s.shard.Has
	if s.shard == (build.Shard{}) {
		rows, err := s.instances(ctx)
		if err != nil {
			return nil, err
		}
		now, err := s.now(ctx)
		if err != nil {
			return nil, err
		}
		replicas := aggregators(rows, now, s.self)
		mine = func(worker string) bool { return build.ReplicaOf(worker, replicas) == s.self }
	}
	return slices.DeleteFunc(workers, func(w provisionerv1.Worker) bool { return !mine(cmp.Or(w.UID, w.WorkerID)) }), nil
}

// aggregators returns the names of the live instances with the role, and self, which may not have joined yet.
func aggregators(rows []queue.InstanceRow, now time.Time, self string) []string {
	names := []string{self}
	for i := range rows {
		r := &rows[i]
		if r.LeaseEnd.After(now) && !r.Draining && slices.Contains(r.Roles, RoleAggregator) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
