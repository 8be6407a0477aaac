package assembly

import (
	"context"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/watchdog"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
)

// watchdog makes the role that searches for builds without workers and workers without builds.
func (s *Session) watchdog(o RoleOptions) (role lifecycle.Role, err error) {
	client, err := s.needProvisioner(RoleWatchdog)
	if err != nil {
		return role, err
	}
	c := s.Live.Now().Builder
	settings := build.DefaultWatchSettings(c.Instance)
	settings.WorkerAge, settings.BuildAge = c.Watchdog.WorkerAge, c.Watchdog.BuildAge
	settings.Linger, settings.TerminationGrace = c.Provisioner.Linger, c.Provisioner.Grace
	w := watchdog.New(watchdog.Config{Store: watchedBuilds{s.Ledger, client}, Provisioner: client, Settings: settings,
		Interval: c.Watchdog.Interval,
		Log:      o.Log, Metrics: obs.NewWatchdog(o.registerer())})
	return lifecycle.Role{Name: RoleWatchdog, Run: w.Run}, nil
}

// watchedBuilds is the builds as a watchdog sees them.
type watchedBuilds struct {
	ledger *ledger.Ledger
	client *provisionerv1.Client
}

// Builds returns every build that has not ended, and all that are known of ids, with the database's time.
func (w watchedBuilds) Builds(ctx context.Context, ids []int64) (list build.BuildList, now time.Time, err error) {
	found, err := w.ledger.Builds.List(ctx, builds.Query{Active: true})
	if err != nil {
		return list, now, err
	}
	if len(ids) > 0 {
		query := builds.Query{Deleted: true}
		for _, id := range ids {
			query.IDs = append(query.IDs, builds.ID(id))
		}
		more, err := w.ledger.Builds.List(ctx, query)
		if err != nil {
			return list, now, err
		}
		found = append(found, more...)
	}
	if now, err = w.ledger.Now(ctx); err != nil {
		return list, now, err
	}
	seen := map[builds.ID]bool{}
	for i := range found {
		if seen[found[i].ID] {
			continue
		}
		seen[found[i].ID] = true
		observed, err := w.observe(ctx, &found[i], now)
		if err != nil {
			return list, now, err
		}
		list.Builds = append(list.Builds, observed)
	}
	list.Complete = true
	return list, now, nil
}

// observe returns what counts of a build. One whose action lives and has no worker yet is queued. One that was found
// unreachable is so until its worker is heard from, which gives it another lease.
func (w watchedBuilds) observe(ctx context.Context, b *builds.Build, now time.Time) (observed build.ObservedBuild, err error) {
	observed = build.ObservedBuild{ID: int64(b.ID), Status: b.Status, Engine: b.Engine, CreatedAt: b.CreatedAt, LeaseUntil: b.LeaseUntil,
		ProgressAt: b.LastProgressAt, CancelRequestedAt: b.CancelRequestedAt, Acknowledged: !b.AcknowledgedAt.IsZero() || !b.DeletedAt.IsZero()}
	if b.Status.Ended() { // by the database's clock, unlike EndedAt
		observed.EndedAt = b.LastProgressAt
		if observed.EndedAt.IsZero() {
			observed.EndedAt = b.CreatedAt
		}
		return observed, nil
	}
	if b.WorkerID == "" && !b.ActionID.IsZero() {
		a, err := w.ledger.Action(ctx, b.ActionID)
		if err != nil && !fault.Is(err, fault.NoSuchAction) {
			return observed, err
		}
		observed.Creating = err == nil && !a.Thread.Status.Ended()
	}
	if b.WorkerID != "" && !now.Before(b.LeaseUntil) {
		key := watchdog.Key(build.Difference{Rule: build.RuleUnreachable, WorkerID: b.WorkerID, LeaseUntil: b.LeaseUntil})
		observed.Unreachable, err = w.ledger.Builds.HasEvent(ctx, b.ID, builds.Watchdog, key)
	}
	return observed, err
}

// Decide records the decision as an event of the build, and deletes the worker. When only the first succeeds, a later
// look finds the worker of an ended build.
func (w watchedBuilds) Decide(ctx context.Context, d build.WatchDecision, key string) error {
	if d.BuildAge > 0 { // the build is known
		e := builds.Event{Source: builds.Watchdog, EventID: key, Status: d.Status, Reason: string(d.Rule), Message: d.Reason}
		if _, err := w.ledger.Builds.Record(ctx, builds.ID(d.BuildID), e); err != nil && !fault.Is(err, fault.Refused) { // it was deleted
			return err
		}
	}
	if !d.Delete {
		return nil
	}
	return w.client.Delete(ctx, d.WorkerID, d.Force)
}
