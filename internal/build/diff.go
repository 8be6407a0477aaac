package build

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// WatchRule names the difference between builds and workers that a decision was made for.
type WatchRule string

// The rules. All other differences are left alone.
const (
	RuleUnreachable   WatchRule = "unreachable"    // the worker runs, and its messages do not arrive
	RuleWorkerEnded   WatchRule = "worker_ended"   // the worker ended before its build did
	RuleWorkerUnknown WatchRule = "worker_unknown" // the platform has lost sight of the worker for too long
	RuleWorkerAbsent  WatchRule = "worker_absent"  // the build has no worker, and will get none
	RuleCancelIgnored WatchRule = "cancel_ignored" // the worker has not ended long after the cancel
	RuleBuildEnded    WatchRule = "build_ended"    // everything was taken from the worker, or the time for it is over
	RuleBuildUnknown  WatchRule = "build_unknown"  // no build has this worker
)

// Difference is one between builds and workers. Ages and the lease are those at the look that found it.
type Difference struct {
	Rule       WatchRule
	BuildID    int64
	WorkerID   string        // "": absent
	BuildAge   time.Duration // 0: the build is not known
	WorkerAge  time.Duration
	LeaseUntil time.Time // end of the build's lease
}

func (d Difference) same(other Difference) bool {
	return d.Rule == other.Rule && d.BuildID == other.BuildID && d.WorkerID == other.WorkerID
}

// WatchDecision is the reaction to one difference. Doing it twice is harmless.
type WatchDecision struct {
	Difference
	Status      Status // the build's end, Lost or Canceled; "": it keeps its status
	Unreachable bool   // the build gets the condition Unreachable
	Delete      bool   // the worker is deleted
	Force       bool   // without waiting for its end
	Reason      string // text for people
}

// Suspicion is a difference that was seen once.
type Suspicion struct {
	Difference
	Since time.Time // time at which it was seen
}

// Suspicions are passed from one look to the next.
type Suspicions struct {
	Open      []Suspicion // to be looked at again
	Withdrawn []Suspicion // suspicions of the look before, which this one did not confirm
}

// Diff compares the builds with the workers. It acts on a difference only when two looks, at least SecondLook apart and with no
// incomplete look between them, have found the same one. The order of the lists makes no difference. now is the store's time.
func (s WatchSettings) Diff(now time.Time, builds BuildList, workers WorkerList, before Suspicions) ([]WatchDecision, Suspicions) {
	if !builds.Complete || !workers.Complete {
		return nil, Suspicions{}
	}
	var decided []WatchDecision
	var after Suspicions
	found := s.differences(now, builds.Builds, workers.Workers)
	for _, d := range found {
		suspected := Suspicion{d.Difference, now}
		if i := slices.IndexFunc(before.Open, func(open Suspicion) bool { return open.same(d.Difference) }); i >= 0 {
			suspected.Since = before.Open[i].Since
		}
		if waited := now.Sub(suspected.Since); waited > 0 && waited >= s.SecondLook {
			decided = append(decided, d)
		} else {
			after.Open = append(after.Open, suspected)
		}
	}
	for _, suspected := range before.Open {
		if !slices.ContainsFunc(found, func(d WatchDecision) bool { return suspected.same(d.Difference) }) {
			after.Withdrawn = append(after.Withdrawn, suspected)
		}
	}
	return decided, after
}

// differences returns the differences of one look, ordered by build and worker.
func (s WatchSettings) differences(now time.Time, builds []ObservedBuild, workers []ObservedWorker) []WatchDecision {
	known := map[int64]ObservedBuild{}
	for _, b := range builds {
		known[b.ID] = b
	}
	ours := map[int64][]ObservedWorker{}
	for _, w := range workers {
		if w.Instance == s.Instance { // what another instance has made is its own
			ours[w.BuildID] = append(ours[w.BuildID], w)
		}
	}
	var found []WatchDecision
	for id, b := range known {
		if !b.Status.Ended() {
			found = append(found, s.judgeActive(now, b, liveliest(ours[id]))...)
		}
	}
	for id, of := range ours {
		b, isKnown := known[id]
		if isKnown && !b.Status.Ended() {
			continue
		}
		for _, w := range of {
			found = append(found, s.judgeLeftover(now, b, isKnown, w)...)
		}
	}
	slices.SortFunc(found, func(a, b WatchDecision) int {
		return cmp.Or(cmp.Compare(a.BuildID, b.BuildID), cmp.Compare(a.WorkerID, b.WorkerID), cmp.Compare(a.Rule, b.Rule))
	})
	return found
}

// liveliest returns the worker of a build from which most can be expected; nil without one.
func liveliest(workers []ObservedWorker) *ObservedWorker {
	if len(workers) == 0 {
		return nil
	}
	rank := []WorkerStatus{WorkerRunning, WorkerPending, WorkerUnknown, WorkerEnded}
	best := slices.MinFunc(workers, func(a, b ObservedWorker) int {
		return cmp.Or(cmp.Compare(slices.Index(rank, a.Status), slices.Index(rank, b.Status)), cmp.Compare(a.ID, b.ID))
	})
	return &best
}

// judgeActive judges a build that has not ended. w is nil if it has no worker.
func (s WatchSettings) judgeActive(now time.Time, b ObservedBuild, w *ObservedWorker) []WatchDecision {
	leased := now.Before(b.LeaseUntil)
	switch {
	case b.Engine != "": // the engine reports, and the deadline of its action ends it
		return nil
	case w == nil:
		return s.judgeAbsent(now, b, leased)
	case w.Status == WorkerRunning && !b.CancelRequestedAt.IsZero() && now.Sub(b.CancelRequestedAt) > s.TerminationGrace:
		return []WatchDecision{{Difference: between(now, RuleCancelIgnored, b, w), Status: Canceled, Delete: true, Force: true,
			Reason: fmt.Sprintf("its worker had not ended %s after the cancel", since(now, b.CancelRequestedAt))}}
	case leased || w.Status == WorkerPending: // its attempt's timeout bounds a start
		return nil
	case w.Status == WorkerRunning: // never a kill: the aggregator may be the one that is down
		if b.Unreachable {
			return nil
		}
		return []WatchDecision{{Difference: between(now, RuleUnreachable, b, w), Unreachable: true,
			Reason: "its worker runs, and " + lastSeen(now, b)}}
	case w.Status == WorkerEnded:
		return []WatchDecision{{Difference: between(now, RuleWorkerEnded, b, w), Status: Lost, Delete: true,
			Reason: "its worker ended before the build did; it " + lastSeen(now, b) + because(w)}}
	case now.Sub(lastLease(b)) < s.UnknownFor: // the node may come back
		return nil
	}
	return []WatchDecision{{Difference: between(now, RuleWorkerUnknown, b, w), Status: Lost, Delete: true,
		Reason: "what runs its worker cannot say what became of it; it " + lastSeen(now, b) + because(w)}}
}

// judgeAbsent judges an active build without a worker.
func (s WatchSettings) judgeAbsent(now time.Time, b ObservedBuild, leased bool) []WatchDecision {
	switch {
	case b.Creating, leased, now.Sub(b.CreatedAt) <= s.BuildAge, now.Sub(b.ProgressAt) <= s.BuildAge:
		return nil
	}
	return []WatchDecision{{Difference: between(now, RuleWorkerAbsent, b, nil), Status: Lost,
		Reason: "it has no worker; it " + lastSeen(now, b)}}
}

// judgeLeftover judges a worker whose build has ended or is not known.
func (s WatchSettings) judgeLeftover(now time.Time, b ObservedBuild, isKnown bool, w ObservedWorker) []WatchDecision {
	switch {
	case w.Age <= s.WorkerAge, b.Engine != "":
		return nil
	case !isKnown:
		return []WatchDecision{{Difference: Difference{Rule: RuleBuildUnknown, BuildID: w.BuildID, WorkerID: w.ID,
			WorkerAge: w.Age}, Delete: true, Reason: "no build has this worker"}}
	case b.Acknowledged:
		return []WatchDecision{{Difference: between(now, RuleBuildEnded, b, &w), Delete: true, Reason: "everything was taken from its worker"}}
	case !b.EndedAt.IsZero() && now.Sub(b.EndedAt) > s.Linger:
		return []WatchDecision{{Difference: between(now, RuleBuildEnded, b, &w), Delete: true,
			Reason: fmt.Sprintf("it ended %s ago, and its results were not taken", since(now, b.EndedAt))}}
	}
	return nil
}

// between returns the difference between a build and its worker; w is nil if it has none.
func between(now time.Time, rule WatchRule, b ObservedBuild, w *ObservedWorker) Difference {
	d := Difference{Rule: rule, BuildID: b.ID, BuildAge: now.Sub(b.CreatedAt), LeaseUntil: b.LeaseUntil}
	if w != nil {
		d.WorkerID, d.WorkerAge = w.ID, w.Age
	}
	return d
}

// lastLease returns when the last lease of a build ended; without one, when the build was created.
func lastLease(b ObservedBuild) time.Time {
	if b.LeaseUntil.IsZero() {
		return b.CreatedAt
	}
	return b.LeaseUntil
}

// lastSeen returns words for when the build's worker was heard from: was last heard from 5m0s ago.
func lastSeen(now time.Time, b ObservedBuild) string {
	if b.LeaseUntil.IsZero() && b.ProgressAt.IsZero() {
		return "was never heard from"
	}
	at := b.ProgressAt
	if at.IsZero() || at.Before(b.LeaseUntil) && !now.Before(b.LeaseUntil) {
		at = b.LeaseUntil
	}
	return "was last heard from " + since(now, at) + " ago"
}

// because returns words for the platform's report about a worker.
func because(w *ObservedWorker) string {
	if w.Reason == "" {
		return ""
	}
	return ": " + w.Reason
}

func since(now, at time.Time) string { return now.Sub(at).Round(time.Second).String() }
