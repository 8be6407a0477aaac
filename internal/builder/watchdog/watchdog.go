// Package watchdog searches for builds without workers and workers without builds: the loop around build.Diff.
//
// It owns nothing. Builds are in the store, workers are a provisioner's, and the differences that one look found are
// in memory: after a restart they have to be found again. Its decisions become events with unique keys and deletions,
// which may be repeated, so several watchdogs are harmless. A list that cannot be read, or is not complete, decides
// nothing.
package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Store has the builds.
type Store interface {
	// Builds returns every build that has not ended, and all that are known of ids, with the time of the store's clock. A deleted build has
	// ended, and counts as acknowledged.
	Builds(ctx context.Context, ids []int64) (builds build.BuildList, now time.Time, err error)
	// Decide records the decision as an event of the build, if there is one, under a key that is unique in the build,
	// and then has the worker deleted. Doing it again is harmless.
	Decide(ctx context.Context, d build.WatchDecision, key string) error
}

// Provisioner has the workers; provisionerv1.Client does.
type Provisioner interface {
	List(ctx context.Context, filter provisionerv1.Filter) (provisionerv1.WorkerList, error)
}

var _ Provisioner = (*provisionerv1.Client)(nil)

// Config configures a watchdog. Store and Provisioner must be set.
type Config struct {
	Store       Store
	Provisioner Provisioner
	Settings    build.WatchSettings
	Interval    time.Duration // between two rounds; 0: 5 min
	Log         *slog.Logger
	Metrics     *obs.Watchdog // nil: unregistered
}

// Times of the loop.
const (
	defaultInterval = 5 * time.Minute
	lookTimeout     = time.Minute
	clockSlack      = time.Second // the store's clock may run a little slower than this one
)

// Watchdog searches for differences. Make it with New, run it once.
type Watchdog struct {
	Config
	open build.Suspicions // suspicions of the look before
}

// New makes a watchdog.
func New(c Config) *Watchdog {
	c.Interval, c.Log = cmp.Or(c.Interval, defaultInterval), obs.Component(c.Log, "watchdog")
	if c.Metrics == nil {
		c.Metrics = obs.NewWatchdog(nil)
	}
	return &Watchdog{Config: c}
}

// Run makes rounds until ctx ends, and returns nil.
func (w *Watchdog) Run(ctx context.Context) error {
	wait := time.Duration(rand.Int64N(int64(w.Interval)/10 + 1)) // instances that start together look one after another
	for loop.Pause(ctx, wait) {
		w.round(ctx)
		wait = loop.Jitter(w.Interval)
	}
	return nil
}

// round looks once, and if it found a difference once more.
func (w *Watchdog) round(ctx context.Context) {
	w.look(ctx)
	if len(w.open.Open) > 0 && loop.Pause(ctx, w.Settings.SecondLook+clockSlack) {
		w.look(ctx)
	}
}

// errSlow is the cause with which a look ends that takes too long.
var errSlow = errors.New("builds and workers took too long to be read")

// look reads both lists and carries out the decisions.
func (w *Watchdog) look(ctx context.Context) {
	builds, workers, now, err := w.read(ctx)
	complete := err == nil && builds.Complete && workers.Complete
	if ctx.Err() != nil {
		return
	}
	outcome := "complete"
	if !complete {
		outcome = "incomplete"
		w.Log.Warn("builds and workers cannot be compared; nothing is done", obs.Error(errors.Join(err, incomplete(builds, workers))))
	}
	w.Metrics.Looks.WithLabelValues(outcome).Inc()
	decided, open := w.Settings.Diff(now, builds, workers, w.open)
	for _, s := range open.Withdrawn {
		w.Metrics.Withdrawn.WithLabelValues(string(s.Rule)).Inc()
		w.Log.Info("suspicion withdrawn", attributes(s.Difference)...)
	}
	w.open = open
	for _, d := range decided {
		w.decide(ctx, d)
	}
}

// incomplete reports which list was read and has gaps.
func incomplete(builds build.BuildList, workers build.WorkerList) error {
	switch {
	case !workers.Complete:
		return errors.New("the list of workers is not complete")
	case !builds.Complete:
		return errors.New("the list of builds is not complete")
	}
	return nil
}

// read reads the workers, then the builds: one that was created in between has no worker here, and is too young to miss one.
func (w *Watchdog) read(ctx context.Context) (builds build.BuildList, workers build.WorkerList, now time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTimeout, errSlow)
	defer cancel()
	list, err := w.Provisioner.List(ctx, provisionerv1.Filter{})
	if err != nil {
		return builds, workers, now, err
	}
	workers.Complete = list.Complete
	var ids []int64
	for _, each := range list.Workers {
		workers.Workers = append(workers.Workers, build.ObservedWorker{ID: each.WorkerID, BuildID: each.BuildID, Instance: each.Instance,
			Status: build.WorkerStatus(each.Status), Reason: each.Reason, Age: list.Age(each)})
		if each.Instance == w.Settings.Instance {
			ids = append(ids, each.BuildID)
		}
	}
	builds, now, err = w.Store.Builds(ctx, ids)
	return builds, workers, now, err
}

// Key returns the id of the event that records the decision about a difference. It is unique in the build while the
// lease stays.
func Key(d build.Difference) string {
	return fmt.Sprintf("%s/%s/%d", d.Rule, d.WorkerID, d.LeaseUntil.Unix())
}

// decide carries out a decision. A failure is found again by later looks.
func (w *Watchdog) decide(ctx context.Context, d build.WatchDecision) {
	if err := w.Store.Decide(ctx, d, Key(d.Difference)); err != nil {
		w.Log.Warn("decision cannot be recorded", append(attributes(d.Difference), obs.Error(err))...)
		return
	}
	w.Metrics.Decisions.WithLabelValues(string(d.Rule)).Inc()
	w.Log.Info("decided", append(attributes(d.Difference), obs.KeyStatus, d.Status, obs.KeyReason, d.Reason)...)
}

// attributes returns the attributes of a difference's record.
func attributes(d build.Difference) []any {
	return []any{obs.KeyRule, d.Rule, obs.KeyBuildID, d.BuildID, obs.KeyWorkerID, d.WorkerID, obs.KeyBuildAge, d.BuildAge.String(),
		obs.KeyWorkerAge, d.WorkerAge.String(), obs.KeyLease, d.LeaseUntil}
}
