package assembly

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/queue"
)

func TestAggregatorsAreTheLiveOnes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	row := func(name, role string, lease time.Duration, draining bool) queue.InstanceRow {
		return queue.InstanceRow{Instance: queue.Instance{Name: name, Roles: []string{role}, Draining: draining}, LeaseEnd: now.Add(lease)}
	}
	rows := []queue.InstanceRow{row("b/1", RoleAggregator, time.Second, false),
		row("a/1", RoleAggregator, time.Second, false), row("dead/1", RoleAggregator, -time.Second, false),
		row("leaves/1", RoleAggregator, time.Second, true), row("a/1", RoleConductor, time.Second, false),
		row("other/1", RoleConductor, time.Second, false)}
	if diff := cmp.Diff([]string{"a/1", "b/1"}, aggregators(rows, now, "a/1")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a/1", "b/1", "new/1"}, aggregators(rows, now, "new/1")); diff != "" {
		t.Error(diff)
	}
}

// TestEveryWorkerIsFollowed by exactly one of the aggregators, also after one died.
func TestEveryWorkerIsFollowed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var rows []queue.InstanceRow
	for i := range 3 {
		rows = append(rows, queue.InstanceRow{Instance: queue.Instance{Name: fmt.Sprint("host-", i),
			Roles: []string{RoleAggregator}}, LeaseEnd: now.Add(time.Duration(i) * time.Minute)})
	}
	workers := func() (all []provisionerv1.Worker) {
		for i := range 300 {
			all = append(all, provisionerv1.Worker{WorkerID: fmt.Sprint("local-", i)})
		}
		return all
	}
	for name, c := range map[string]struct {
		now  time.Time
		live []int
	}{"all live": {now.Add(-time.Second), []int{0, 1, 2}}, "one died": {now, []int{1, 2}}, "one is left": {now.Add(time.Minute), []int{2}}} {
		followed := map[string]int{}
		for _, i := range c.live {
			s := share{self: fmt.Sprint("host-", i), instances: func(context.Context) ([]queue.InstanceRow, error) { return rows, nil },
				now: func(context.Context) (time.Time, error) { return c.now, nil }}
			mine, err := s.of(t.Context(), workers())
			if err != nil || len(mine) == 0 {
				t.Fatal(mine, err)
			}
			for _, w := range mine {
				followed[w.WorkerID]++
			}
		}
		for _, w := range workers() {
			if followed[w.WorkerID] != 1 {
				t.Errorf("%s: %s is followed by %d", name, w.WorkerID, followed[w.WorkerID])
			}
		}
	}
}

func TestAFixedShareNeedsNoInstances(t *testing.T) {
	t.Parallel()
	s := share{shard: build.Shard{Index: 2, Count: 3}, self: "a"}
	mine, err := s.of(t.Context(), []provisionerv1.Worker{{WorkerID: "pod", UID: "00000000-0000-0000-0000-000000000004"},
		{WorkerID: "pod", UID: "00000000-0000-0000-0000-000000000003"}})
	if err != nil || len(mine) != 1 {
		t.Errorf("%+v, %v", mine, err)
	}
	away := errors.New("the database is away")
	s = share{self: "a", instances: func(context.Context) ([]queue.InstanceRow, error) { return nil, away }}
	if _, err := s.of(t.Context(), nil); !errors.Is(err, away) {
		t.Error(err)
	}
}
