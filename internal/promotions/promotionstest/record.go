package promotionstest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func aDecisionIsReadBack(t *testing.T, s setup) {
	if before := s.load(t); before.Head != 0 || before.LastRun != 0 || before.Now.IsZero() {
		t.Errorf("the state of an unknown pipeline: %+v", before)
	}
	got := s.record(t, run(1, "6.6.0"))
	want := run(1, "6.6.0")
	r := want.Runs[0].Run
	r.Facts = want.Facts
	r.Phases = map[promotion.EnvName]promotion.PhaseSince{"dev": want.Phases[0].PhaseSince}
	if diff := cmp.Diff([]promotion.Run{r}, got.Runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if len(got.Sightings) != 1 || got.Sightings[0].Revision != "6.6.0" || !got.Sightings[0].At.Equal(start) || got.Sightings[0].Seq == 0 {
		t.Errorf("sightings: %+v", got.Sightings)
	}
	if got.Name != name || got.UID != uid || got.LastRun != 1 || got.RunIDs[1].IsZero() || got.Head == 0 {
		t.Errorf("state: %+v", got)
	}
	later := start.Add(time.Hour)
	r.EndedAt, r.End = later, promotion.Finished
	got = s.record(t, promotions.Change{Runs: []promotion.RunChange{{Run: r, End: promotion.Finished}},
		Phases: []promotions.Phase{{Run: 1, Env: "dev", PhaseSince: promotion.PhaseSince{Phase: promotion.PhaseUnknown, Since: later}}}})
	r.Phases["dev"] = promotion.PhaseSince{Phase: promotion.PhaseUnknown, Since: later}
	if diff := cmp.Diff([]promotion.Run{r}, got.Runs); diff != "" {
		t.Errorf("runs after the end (-want +got):\n%s", diff)
	}
	input := got.Input()
	if input.LastRun != 1 || len(input.Runs) != 1 || len(input.Sightings) != 1 {
		t.Errorf("input: %+v", input)
	}
}

func aDecisionFromAnOlderStateIsRefused(t *testing.T, s setup) {
	first := s.record(t, run(1, "6.6.0"))
	c := promotions.Change{Pipeline: name, UID: uid, Head: first.Head, Sighting: &promotion.Sighting{Revision: "6.7.0", At: start}}
	head, err := s.Record(s.ctx, c)
	storetest.Check(t, err)
	if head <= first.Head {
		t.Errorf("head %d after %d", head, first.Head)
	}
	if _, err := s.Record(s.ctx, c); !errors.Is(err, promotions.ErrMoved) {
		t.Errorf("a decision from an older state: %v", err)
	}
	c.Head = 0
	if _, err := s.Record(s.ctx, c); !errors.Is(err, promotions.ErrMoved) {
		t.Errorf("a decision from the time before the first one: %v", err)
	}
}

func twoInstancesDecideOnce(t *testing.T, s setup) {
	c := run(1, "6.6.0")
	c.Pipeline, c.UID = name, uid
	c.Start = []promotions.Start{attempt(1, promotion.OpPropose)}
	var wait sync.WaitGroup
	failed := make([]error, 4)
	for i := range failed {
		wait.Go(func() { _, failed[i] = s.Record(s.ctx, c) })
	}
	wait.Wait()
	moved := 0
	for _, err := range failed {
		if errors.Is(err, promotions.ErrMoved) {
			moved++
		} else {
			storetest.Check(t, err)
		}
	}
	if moved != len(failed)-1 {
		t.Errorf("%d of %d decisions were refused", moved, len(failed))
	}
	if got := s.load(t); len(got.Runs) != 1 || len(got.Attempts) != 1 {
		t.Errorf("runs %+v, attempts %+v", got.Runs, got.Attempts)
	}
}

func nothingNewWritesNothing(t *testing.T, s setup) {
	first := s.record(t, run(1, "6.6.0"))
	again := run(1, "6.6.0")
	again.Sighting, again.Runs = nil, nil
	if got := s.record(t, again); got.Head != first.Head {
		t.Errorf("head %d after a change without news, want %d", got.Head, first.Head)
	}
	if got := s.record(t, promotions.Change{Cancel: []promotion.AttemptKey{{Run: 1, Env: "prod",
		Op: promotion.OpMerge}}}); got.Head != first.Head {
		t.Errorf("head %d after the cancel of nothing, want %d", got.Head, first.Head)
	}
}

func factsAreStoredOnce(t *testing.T, s setup) {
	s.record(t, run(1, "6.6.0"))
	promoted := promotion.Fact{Run: 1, Env: "staging", Event: promotion.EnvPromoted, At: start, By: "ana"}
	later := promoted
	later.At, later.By = start.Add(time.Minute), "ben"
	s.record(t, promotions.Change{Facts: []promotion.Fact{promoted, later}})
	got := s.record(t, promotions.Change{Facts: []promotion.Fact{later}})
	if n := len(got.Runs[0].Facts); n != 3 || got.Runs[0].Facts[2].By != "ana" {
		t.Errorf("facts: %+v", got.Runs[0].Facts)
	}
	elsewhere := promotion.Fact{Run: 1, Env: "staging", Target: &promotion.TargetID{Namespace: "other"},
		Event: promotion.TargetHealthy, At: start}
	got = s.record(t, promotions.Change{Facts: []promotion.Fact{elsewhere}})
	if diff := cmp.Diff(elsewhere, got.Runs[0].Facts[3]); diff != "" {
		t.Errorf("a fact of another target (-want +got):\n%s", diff)
	}
}

func entriesRefuseChanges(t *testing.T, s setup) {
	s.record(t, run(1, "6.6.0"))
	for _, statement := range []string{"UPDATE promotion_entry SET detail = 'x'", "DELETE FROM promotion_entry"} {
		if err := s.database.Exec(statement); err == nil {
			t.Errorf("%s was not refused", statement)
		}
	}
	storetest.Check(t, s.database.Exec("UPDATE promotion_run SET archive = 'key'"))
	storetest.Check(t, s.database.Exec("DELETE FROM promotion_entry"))
}

func statesAreBounded(t *testing.T, s setup) {
	c := run(1, "1")
	c.Facts = append(c.Facts, promotion.Fact{Run: 1, Env: "prod", Event: promotion.StageFinished, At: start})
	s.record(t, c)
	for n := int64(2); n <= 31; n++ {
		c := run(n, promotion.Revision(fmt.Sprint(n)))
		c.Runs = append(c.Runs, promotion.RunChange{Run: promotion.Run{Number: n - 1}, End: promotion.Superseded,
			Facts: []promotion.Fact{{Run: n - 1, Event: promotion.PipelineSuperseded, At: start}}})
		s.record(t, c)
	}
	// A rollback that an older request has begun, and a run that repeats one which nothing else needs.
	own := run(32, "1")
	own.Runs[0].Run.Env, own.Runs[0].Run.Cause, own.Runs[0].Run.Repeats = "prod", promotion.ByRollback, 2
	s.record(t, own)
	for n := int64(33); n <= 64; n++ {
		c := run(n, "31")
		c.Runs[0].Run.Env, c.Runs[0].Run.Cause = "staging", promotion.ByRetry
		s.record(t, c)
		s.record(t, promotions.Change{Runs: []promotion.RunChange{{Run: promotion.Run{Number: n}, End: promotion.Superseded}}})
	}
	got := s.load(t)
	var numbers []int64
	for _, r := range got.Runs {
		numbers = append(numbers, r.Number)
	}
	want := []int64{1, 2, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}
	for n := int64(45); n <= 64; n++ {
		want = append(want, n)
	}
	if diff := cmp.Diff(want, numbers); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	superseded := got.Runs[2].Facts
	if got.Runs[2].End != promotion.Superseded || superseded[len(superseded)-1].Event != promotion.PipelineSuperseded {
		t.Errorf("a superseded run: %+v", got.Runs[2])
	}
	if got.LastRun != 64 || len(got.Sightings) != 64 || got.Sightings[0].Revision != "1" {
		t.Errorf("last run %d, %d sightings", got.LastRun, len(got.Sightings))
	}
}

func statesAreReadAnewIfTheyHaveChanged(t *testing.T, s setup) {
	reload := func(known promotions.State) promotions.State {
		t.Helper()
		got, err := s.Reload(s.ctx, known)
		storetest.Check(t, err)
		return got
	}
	unknown := s.load(t)
	first := s.record(t, run(1, "6.6.0"))
	if got := reload(unknown); got.Head != first.Head || len(got.Runs) != 1 {
		t.Errorf("the state after the first change: %+v", got)
	}
	marked := first
	marked.Intents = []promotion.Intent{{Reason: "not read"}}
	if got := reload(marked); len(got.Intents) != 1 || got.Now.Before(first.Now) {
		t.Errorf("the state without a change: %+v", got)
	}
	storetest.Check(t, s.Freeze(s.ctx, "", admission.Freeze{By: "ana"}))
	if got := reload(marked); len(got.Intents) != 0 || got.Frozen == nil {
		t.Errorf("the state after a freeze: %+v", got)
	}
}

func runsAndEntriesAreListedInPages(t *testing.T, s setup) {
	for n := int64(1); n <= 3; n++ {
		s.record(t, run(n, "6.6.0"))
	}
	page, err := s.Runs(s.ctx, promotions.RunQuery{Pipeline: name, Limit: 2})
	storetest.Check(t, err)
	if len(page) != 2 || page[0].Number != 3 || page[0].Pipeline != name {
		t.Errorf("the first page: %+v", page)
	}
	page, err = s.Runs(s.ctx, promotions.RunQuery{Pipeline: name, Before: page[1].Number, Limit: 2})
	storetest.Check(t, err)
	if len(page) != 1 || page[0].Number != 1 {
		t.Errorf("the last page: %+v", page)
	}
	entries, err := s.Entries(s.ctx, promotions.Page{Pipeline: name, Run: 2, Limit: 1})
	storetest.Check(t, err)
	every, err := s.Entries(s.ctx, promotions.Page{Pipeline: name, All: true})
	storetest.Check(t, err)
	if len(every) <= len(entries) {
		t.Errorf("the pipeline has %d entries, want more than those of a page of run 2", len(every))
	}
	rest, err := s.Entries(s.ctx, promotions.Page{Pipeline: name, Run: 2, After: entries[0].Seq, Limit: 10})
	storetest.Check(t, err)
	if len(entries) != 1 || len(rest) != 1 || entries[0].Event != promotion.PipelineStarted || rest[0].Event != promotion.TargetHealthy {
		t.Errorf("entries %+v, then %+v", entries, rest)
	}
	heads, err := s.Pipelines(s.ctx, promotions.HeadQuery{Limit: 5})
	storetest.Check(t, err)
	all, err := s.Heads(s.ctx)
	storetest.Check(t, err)
	if len(heads) != 1 || heads[0].Name != name || heads[0].Newest != 3 || all[name] != heads[0].Seq {
		t.Errorf("pipelines %+v, heads %v", heads, all)
	}
}

func changesWakeWhoWaits(t *testing.T, s setup) {
	waiter := s.db.Signals().Waiter()
	done := make(chan error, 1)
	go func() { done <- waiter.Wait(s.ctx, store.TopicPromotion, time.Time{}) }()
	s.record(t, run(1, "6.6.0"))
	storetest.Check(t, <-done)
}
