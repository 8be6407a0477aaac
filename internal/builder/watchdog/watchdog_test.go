package watchdog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/watchdog"
	"github.com/waybill-dev/waybill/internal/obs"
)

// world has builds and workers, which may change before each look.
type world struct {
	builds   []build.ObservedBuild
	workers  []provisionerv1.Worker
	partial  bool          // the list of workers is not complete
	away     error         // the provisioner's answer
	unstored error         // the store's answer to a decision
	skew     time.Duration // deviation of the provisioner's clock

	looks   int
	before  func(w *world) // each look
	asked   [][]int64
	decided []string
	lines   bytes.Buffer
}

func (w *world) List(context.Context, provisionerv1.Filter) (provisionerv1.WorkerList, error) {
	w.looks++
	if w.before != nil {
		w.before(w)
	}
	return provisionerv1.WorkerList{Workers: w.workers, Complete: !w.partial, Now: time.Now().Add(w.skew)}, w.away
}

func (w *world) Builds(_ context.Context, ids []int64) (build.BuildList, time.Time, error) {
	w.asked = append(w.asked, ids)
	return build.BuildList{Builds: w.builds, Complete: true}, time.Now(), nil
}

func (w *world) Decide(_ context.Context, d build.WatchDecision, key string) error {
	w.decided = append(w.decided, fmt.Sprintf("%s build %d %s delete=%v force=%v", key, d.BuildID, d.Status, d.Delete, d.Force))
	return w.unstored
}

// watch runs a watchdog for so long.
func watch(t *testing.T, w *world, runs time.Duration) *obs.Watchdog {
	t.Helper()
	metrics := obs.NewWatchdog(nil)
	dog := watchdog.New(watchdog.Config{Store: w, Provisioner: w, Settings: build.DefaultWatchSettings("shop"), Metrics: metrics,
		Log: slog.New(slog.NewTextHandler(&w.lines, nil))})
	ctx, cancel := context.WithTimeout(t.Context(), runs)
	defer cancel()
	if err := dog.Run(ctx); err != nil {
		t.Error(err)
	}
	return metrics
}

// lost returns a build without a worker, an hour old.
func lost() []build.ObservedBuild {
	return []build.ObservedBuild{{ID: 7, Status: build.Running, CreatedAt: time.Now().Add(-time.Hour), LeaseUntil: time.Unix(1000, 0)}}
}

func TestADifferenceIsLookedAtTwice(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := &world{builds: lost()}
		metrics := watch(t, w, 2*time.Minute) // one round
		if diff := cmp.Diff([]string{"worker_absent//1000 build 7 Lost delete=false force=false"}, w.decided); diff != "" || w.looks != 2 {
			t.Errorf("%d looks: %s", w.looks, diff)
		}
		if got := testutil.ToFloat64(metrics.Decisions.WithLabelValues("worker_absent")); got != 1 {
			t.Errorf("%v decisions are counted", got)
		}
		for _, part := range []string{"decided", "rule=worker_absent", "build_id=7", "build_age=1h",
			"lease_until=1970-01-01T00:16:40", "status=Lost"} {
			if !strings.Contains(w.lines.String(), part) {
				t.Errorf("%q is not in\n%s", part, &w.lines)
			}
		}
	})
}

func TestADecisionSaysWhatTheProvisionerKnows(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := &world{builds: lost(),
			workers: []provisionerv1.Worker{{WorkerID: "w7", BuildID: 7, Instance: "shop", Status: "Unknown", Reason: "NodeLost: no answer"}}}
		watch(t, w, 2*time.Minute)
		if !strings.Contains(w.lines.String(), "ago: NodeLost: no answer") {
			t.Errorf("it is not in\n%s", &w.lines)
		}
	})
}

func TestWithoutADifferenceARoundLooksOnce(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := &world{}
		watch(t, w, time.Hour)
		if w.looks < 12 || w.looks > 16 || w.decided != nil { // every 4 to 5 minutes
			t.Errorf("%d looks, %v", w.looks, w.decided)
		}
	})
}

func TestWhatPassesIsWithdrawn(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := &world{}
		w.before = func(w *world) {
			w.builds = nil
			if w.looks == 1 {
				w.builds = lost()
			}
		}
		metrics := watch(t, w, 2*time.Minute)
		if w.decided != nil || !strings.Contains(w.lines.String(), "suspicion withdrawn") ||
			testutil.ToFloat64(metrics.Withdrawn.WithLabelValues("worker_absent")) != 1 {
			t.Errorf("%v\n%s", w.decided, &w.lines)
		}
	})
}

func TestAListThatFailsDecidesNothingAndEndsNothing(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(w *world){
		"the provisioner is away":      func(w *world) { w.away = errors.New("no route") },
		"the list is not complete":     func(w *world) { w.partial = true },
		"it fails at each second look": func(w *world) { w.partial = w.looks%2 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				w := &world{builds: lost(), before: fail}
				watch(t, w, time.Hour)
				if w.looks < 12 || w.decided != nil || !strings.Contains(w.lines.String(), "nothing is done") {
					t.Errorf("%d looks, %v", w.looks, w.decided)
				}
			})
		})
	}
}

func TestADecisionThatIsNotRecordedIsMadeAgain(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := &world{builds: lost(), unstored: errors.New("the ledger is away")}
		watch(t, w, 15*time.Minute)
		if len(w.decided) < 2 || w.decided[0] != w.decided[1] {
			t.Errorf("%v", w.decided)
		}
	})
}

// TestAgesAreThoseOfOneClock: the provisioner's clock is hours behind, and then ahead.
func TestAgesAreThoseOfOneClock(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		bubbletest.Test(t, func(t *testing.T) {
			w := &world{skew: skew}
			begun := time.Now()
			w.workers = []provisionerv1.Worker{
				{WorkerID: "old", BuildID: 1, Instance: "shop", Status: "Running", CreatedAt: begun.Add(skew - time.Hour)},
				{WorkerID: "undated", BuildID: 2, Instance: "shop", Status: "Running"},
				{WorkerID: "foreign", BuildID: 3, Instance: "other", Status: "Running", CreatedAt: begun.Add(skew - time.Hour)},
			}
			w.before = func(w *world) { // another is always new
				w.workers = append(w.workers[:3:3], provisionerv1.Worker{WorkerID: "new", BuildID: 4, Instance: "shop",
					CreatedAt: time.Now().Add(skew)})
			}
			watch(t, w, 2*time.Minute)
			if len(w.decided) != 1 || !strings.HasPrefix(w.decided[0], "build_unknown/old/") {
				t.Errorf("%v", w.decided)
			}
			if diff := cmp.Diff([][]int64{{1, 2, 4}, {1, 2, 4}}, w.asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}
