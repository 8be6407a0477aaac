package build_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/build"
)

// look is a watchdog's view at one time.
type look struct {
	after   time.Duration // since the look before; 0: 30 s
	builds  []build.ObservedBuild
	workers []build.ObservedWorker
	broken  bool // a list is incomplete
}

// watch plays looks, and returns a line for each: the decisions, suspicions and withdrawals.
func watch(looks ...look) []string {
	now := zero.Add(100 * time.Hour)
	var open build.Suspicions
	var out []string
	for _, l := range looks {
		if l.after == 0 {
			l.after = 30 * time.Second
		}
		now = now.Add(l.after)
		var decided []build.WatchDecision
		decided, open = settings().Diff(now, build.BuildList{Builds: l.builds, Complete: !l.broken},
			build.WorkerList{Workers: l.workers, Complete: true}, open)
		var line []string
		for _, d := range decided {
			line = append(line, decision(d))
		}
		for _, s := range open.Open {
			line = append(line, fmt.Sprintf("suspect %s", s.Rule))
		}
		for _, s := range open.Withdrawn {
			line = append(line, fmt.Sprintf("withdraw %s", s.Rule))
		}
		out = append(out, strings.Join(line, "; "))
	}
	return out
}

func decision(d build.WatchDecision) string {
	out := fmt.Sprintf("%s: build %d", d.Rule, d.BuildID)
	for _, part := range []struct {
		on   bool
		text string
	}{{d.Status != "", " " + string(d.Status)}, {d.Unreachable, " unreachable"}, {d.Delete, " delete " + d.WorkerID}, {d.Force, " by force"}} {
		if part.on {
			out += part.text
		}
	}
	return out
}

func settings() build.WatchSettings { return build.DefaultWatchSettings("shop") }

// building returns build 7 in a status, an hour old and without a lease, changed by edits.
func building(status build.Status, edits ...func(*build.ObservedBuild)) []build.ObservedBuild {
	b := build.ObservedBuild{ID: 7, Status: status, CreatedAt: zero.Add(99 * time.Hour), LeaseUntil: zero.Add(99*time.Hour + 30*time.Minute)}
	if status.Ended() {
		b.EndedAt = zero.Add(99*time.Hour + 30*time.Minute)
	}
	for _, edit := range edits {
		edit(&b)
	}
	return []build.ObservedBuild{b}
}

func leased(b *build.ObservedBuild)       { b.LeaseUntil = zero.Add(200 * time.Hour) }
func justLeased(b *build.ObservedBuild)   { b.LeaseUntil = zero.Add(100 * time.Hour) }
func creating(b *build.ObservedBuild)     { b.Creating = true }
func byJenkins(b *build.ObservedBuild)    { b.Engine = "jenkins" }
func young(b *build.ObservedBuild)        { b.CreatedAt = zero.Add(100 * time.Hour) }
func progressed(b *build.ObservedBuild)   { b.ProgressAt = zero.Add(100 * time.Hour) }
func acknowledged(b *build.ObservedBuild) { b.Acknowledged = true }
func overdue(b *build.ObservedBuild)      { b.EndedAt = zero.Add(75 * time.Hour) }
func canceledLong(b *build.ObservedBuild) {
	b.CancelRequestedAt = zero.Add(99*time.Hour + 40*time.Minute)
}
func canceledNow(b *build.ObservedBuild) { b.CancelRequestedAt = zero.Add(100 * time.Hour) }
func unreachable(b *build.ObservedBuild) { b.Unreachable = true }

// worker returns the worker of build 7, an hour old.
func worker(status build.WorkerStatus, edits ...func(*build.ObservedWorker)) []build.ObservedWorker {
	w := build.ObservedWorker{ID: "w7", BuildID: 7, Instance: "shop", Status: status, Age: time.Hour}
	for _, edit := range edits {
		edit(&w)
	}
	return []build.ObservedWorker{w}
}

func foreign(w *build.ObservedWorker) { w.Instance = "other" }
func newborn(w *build.ObservedWorker) { w.Age = time.Minute }

// TestDiffFollowsItsTable has one case for each row of the table of decisions, and for both sides of each limit. Nothing is decided at
// the first look.
func TestDiffFollowsItsTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row     string
		builds  []build.ObservedBuild
		workers []build.ObservedWorker
		want    string // at the second look
	}{
		{"active, runs, leased", building(build.Running, leased), worker(build.WorkerRunning), ""},
		{"active, pending, leased", building(build.Running, leased), worker(build.WorkerPending), ""},
		{"active, pending", building(build.Scheduling), worker(build.WorkerPending), ""},
		{"active, runs, not leased", building(build.Running), worker(build.WorkerRunning), "unreachable: build 7 unreachable"},
		{"active, runs, not leased, known to be", building(build.Running, unreachable), worker(build.WorkerRunning), ""},
		{"active, ended, leased", building(build.Running, leased), worker(build.WorkerEnded), ""},
		{"active, ended, not leased", building(build.Running), worker(build.WorkerEnded), "worker_ended: build 7 Lost delete w7"},
		{"active, unknown, leased", building(build.Running, leased), worker(build.WorkerUnknown), ""},
		{"active, unknown, not leased for a minute", building(build.Running, justLeased), worker(build.WorkerUnknown), ""},
		{"active, unknown, not leased for long", building(build.Running), worker(build.WorkerUnknown), "worker_unknown: build 7 Lost delete w7"},
		{"active, absent, to be created", building(build.Scheduling, creating), nil, ""},
		{"active, absent, another engine", building(build.Running, byJenkins), nil, ""},
		{"active, runs, another engine", building(build.Running, byJenkins, canceledLong), worker(build.WorkerRunning), ""},
		{"active, absent, young", building(build.Scheduling, young), nil, ""},
		{"active, absent, leased", building(build.Running, leased), nil, ""},
		{"active, absent, in progress", building(build.Running, progressed), nil, ""},
		{"active, absent", building(build.Running), nil, "worker_absent: build 7 Lost"},
		{"active, its worker belongs to another instance", building(build.Running), worker(build.WorkerRunning, foreign),
			"worker_absent: build 7 Lost"},
		{"ended, runs", building(build.Failed), worker(build.WorkerRunning), ""},
		{"ended, worker ended, not taken", building(build.Failed), worker(build.WorkerEnded), ""},
		{"ended, runs, acknowledged", building(build.Completed, acknowledged), worker(build.WorkerRunning), "build_ended: build 7 delete w7"},
		{"ended, worker ended, acknowledged", building(build.Completed, acknowledged), worker(build.WorkerEnded),
			"build_ended: build 7 delete w7"},
		{"ended, acknowledged, worker young", building(build.Completed, acknowledged), worker(build.WorkerRunning, newborn), ""},
		{"ended, not taken for a day", building(build.Lost, overdue), worker(build.WorkerRunning), "build_ended: build 7 delete w7"},
		{"ended, without a worker", building(build.Completed), nil, ""},
		{"cancel ignored", building(build.Running, canceledLong, leased), worker(build.WorkerRunning),
			"cancel_ignored: build 7 Canceled delete w7 by force"},
		{"cancel under way", building(build.Running, canceledNow, leased), worker(build.WorkerRunning), ""},
		{"unknown build", nil, worker(build.WorkerRunning), "build_unknown: build 7 delete w7"},
		{"unknown build, worker young", nil, worker(build.WorkerRunning, newborn), ""},
		{"unknown build of another instance", nil, worker(build.WorkerEnded, foreign), ""},
	} {
		t.Run(c.row, func(t *testing.T) {
			t.Parallel()
			first := ""
			if c.want != "" {
				rule, _, _ := strings.Cut(c.want, ":")
				first = "suspect " + rule
			}
			seen := look{builds: c.builds, workers: c.workers}
			if diff := cmp.Diff([]string{first, c.want}, watch(seen, seen)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestALostBuildSaysWhatBecameOfItsWorker as far as the platform knows.
func TestALostBuildSaysWhatBecameOfItsWorker(t *testing.T) {
	t.Parallel()
	lostNode := func(w *build.ObservedWorker) { w.Reason = "NodeLost: the node does not answer" }
	for status, want := range map[build.WorkerStatus]string{
		build.WorkerUnknown: "what runs its worker cannot say what became of it; it was last heard from 30m0s ago: NodeLost: " +
			"the node does not answer",
		build.WorkerEnded: "its worker ended before the build did; it was last heard from 30m0s ago: NodeLost: the node does not answer",
	} {
		builds, workers := build.BuildList{Builds: building(build.Running),
			Complete: true}, build.WorkerList{Workers: worker(status, lostNode), Complete: true}
		now := zero.Add(100 * time.Hour)
		_, open := settings().Diff(now.Add(-time.Minute), builds, workers, build.Suspicions{})
		if decided, _ := settings().Diff(now, builds, workers, open); len(decided) != 1 || decided[0].Reason != want {
			t.Errorf("%s: %+v, want %q", status, decided, want)
		}
	}
}

func TestAnIncompleteListDecidesNothingAndBeginsAgain(t *testing.T) {
	t.Parallel()
	lost := look{builds: building(build.Running)}
	got := watch(lost, look{broken: true}, lost, lost)
	if diff := cmp.Diff([]string{"suspect worker_absent", "", "suspect worker_absent", "worker_absent: build 7 Lost"}, got); diff != "" {
		t.Error(diff)
	}
	workersMissing := build.BuildList{Builds: building(build.Running), Complete: true}
	before := build.Suspicions{Open: []build.Suspicion{{Difference: build.Difference{Rule: build.RuleWorkerAbsent, BuildID: 7}, Since: zero}}}
	if decided, after := settings().Diff(zero.Add(100*time.Hour), workersMissing, build.WorkerList{}, before); decided != nil || after.Open != nil {
		t.Errorf("without a complete list of workers: %+v, %+v", decided, after)
	}
}

func TestASuspicionIsActedOnAfterThirtySecondsOnly(t *testing.T) {
	t.Parallel()
	lost := look{builds: building(build.Running)}
	soon, later := lost, lost
	soon.after, later.after = 29*time.Second, time.Second
	got := watch(lost, soon, later)
	if diff := cmp.Diff([]string{"suspect worker_absent", "suspect worker_absent", "worker_absent: build 7 Lost"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestASuspicionThatIsNotConfirmedIsWithdrawn(t *testing.T) {
	t.Parallel()
	got := watch(look{builds: building(build.Running)},
		look{builds: building(build.Running), workers: worker(build.WorkerEnded)}, look{builds: building(build.Running, leased)})
	want := []string{"suspect worker_absent", "suspect worker_ended; withdraw worker_absent", "withdraw worker_ended"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAmongSeveralWorkersOfABuildTheLivingOneCounts(t *testing.T) {
	t.Parallel()
	seen := look{builds: building(build.Running, leased), workers: append(worker(build.WorkerEnded), worker(build.WorkerRunning)...)}
	if diff := cmp.Diff([]string{"", ""}, watch(seen, seen)); diff != "" {
		t.Error(diff)
	}
}

func TestReasonsSayWhenTheWorkerWasLastHeardFrom(t *testing.T) {
	t.Parallel()
	now := zero.Add(100 * time.Hour)
	suspected := build.Suspicions{Open: []build.Suspicion{
		{Difference: build.Difference{Rule: build.RuleWorkerAbsent, BuildID: 7}, Since: now.Add(-time.Minute)}}}
	for want, edit := range map[string]func(*build.ObservedBuild){
		"it has no worker; it was last heard from 30m0s ago": func(*build.ObservedBuild) {},
		"it has no worker; it was never heard from":          func(b *build.ObservedBuild) { b.LeaseUntil = time.Time{} },
	} {
		decided, _ := settings().Diff(now, build.BuildList{Builds: building(build.Running, edit), Complete: true},
			build.WorkerList{Complete: true}, suspected)
		if len(decided) != 1 || decided[0].Reason != want {
			t.Errorf("%+v, want %q", decided, want)
		}
	}
}

// drawBuild and drawWorker draw from few values, so that they often meet.
func drawBuild(t *rapid.T, now time.Time) build.ObservedBuild {
	ago := func(name string) time.Time {
		at := rapid.SampledFrom([]time.Duration{-time.Hour, 0, 30 * time.Second, 5 * time.Minute, 20 * time.Minute, 30 * time.Hour}).Draw(t, name)
		if at == 0 {
			return time.Time{}
		}
		return now.Add(-at)
	}
	b := build.ObservedBuild{
		ID: rapid.Int64Range(1, 4).Draw(t, "id"), CreatedAt: ago("created"), LeaseUntil: ago("lease"), ProgressAt: ago("progress"),
		Status:            rapid.SampledFrom([]build.Status{build.Scheduling, build.Running, build.Completed, build.Lost}).Draw(t, "status"),
		Engine:            rapid.SampledFrom([]string{"", "", "jenkins"}).Draw(t, "engine"),
		Creating:          rapid.Bool().Draw(t, "creating"),
		CancelRequestedAt: ago("cancel"), Acknowledged: rapid.Bool().Draw(t, "acknowledged"),
	}
	if b.Status.Ended() {
		b.EndedAt = ago("ended")
	}
	return b
}

func drawWorker(t *rapid.T) build.ObservedWorker {
	build7 := rapid.Int64Range(1, 5).Draw(t, "build")
	return build.ObservedWorker{
		ID: fmt.Sprint("w", build7, rapid.IntRange(0, 1).Draw(t, "copy")), BuildID: build7,
		Instance: rapid.SampledFrom([]string{"shop", "other"}).Draw(t, "instance"),
		Status: rapid.SampledFrom([]build.WorkerStatus{build.WorkerPending, build.WorkerRunning, build.WorkerEnded,
			build.WorkerUnknown}).Draw(t, "status"),
		Age: rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "age"),
	}
}

func TestNothingIsDoneAtOneLookOrToAnotherInstance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := zero.Add(100 * time.Hour)
		builds := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) build.ObservedBuild { return drawBuild(t, now) }), 0, 4,
			func(b build.ObservedBuild) int64 { return b.ID }).Draw(t, "builds")
		workers := rapid.SliceOfNDistinct(rapid.Custom(drawWorker), 0, 6, func(w build.ObservedWorker) string { return w.ID }).Draw(t, "workers")
		lists := func() (build.BuildList, build.WorkerList) {
			return build.BuildList{Builds: builds, Complete: true}, build.WorkerList{Workers: workers, Complete: true}
		}
		b, w := lists()
		decided, open := settings().Diff(now, b, w, build.Suspicions{})
		if decided != nil {
			t.Fatalf("decided at the first look: %+v", decided)
		}
		later := now.Add(30 * time.Second)
		want, wantOpen := settings().Diff(later, b, w, open)
		others := map[string]bool{}
		for _, worker := range workers {
			others[worker.ID] = worker.Instance != "shop"
		}
		engines := map[int64]bool{}
		for _, each := range builds {
			engines[each.ID] = each.Engine != ""
		}
		for _, d := range want {
			if others[d.WorkerID] || engines[d.BuildID] {
				t.Errorf("touches what is not its own: %+v", d)
			}
			if d.Rule == build.RuleUnreachable && (d.Delete || d.Status != "") {
				t.Errorf("a worker that runs is ended because its messages do not arrive: %+v", d)
			}
		}
		rand.Shuffle(len(builds), func(i, k int) { builds[i], builds[k] = builds[k], builds[i] })
		rand.Shuffle(len(workers), func(i, k int) { workers[i], workers[k] = workers[k], workers[i] })
		b, w = lists()
		got, gotOpen := settings().Diff(later, b, w, open)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()) + cmp.Diff(wantOpen, gotOpen, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the order of the lists matters:\n%s", diff)
		}
		for _, broken := range []func(*build.BuildList, *build.WorkerList){
			func(b *build.BuildList, _ *build.WorkerList) { b.Complete = false },
			func(_ *build.BuildList, w *build.WorkerList) { w.Complete = false },
		} {
			b, w := lists()
			broken(&b, &w)
			if got, left := settings().Diff(later, b, w, open); got != nil || left.Open != nil || left.Withdrawn != nil {
				t.Errorf("decided by an incomplete list: %+v, %+v", got, left)
			}
		}
	})
}
