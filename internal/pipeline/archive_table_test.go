package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// TestWhatIsArchived reports which deployments of a stage of two hosts, one at a time, are archived a day later.
// Every deployment has a revision of its own, but for one.
func TestWhatIsArchived(t *testing.T) {
	t.Parallel()
	two := Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{twoHosts()}}
	most := len(compiled(t, two).nodes) // facts; with three hosts there are more
	for name, c := range map[string]struct {
		play func(w *world)
		want []int64
	}{
		"three are kept for rollbacks, and what is there": {func(w *world) { w.ships(1, 6) }, []int64{1, 2, 3}},
		"as many as the hosts keep releases":              {func(w *world) { w.shop(5); w.ships(1, 8) }, []int64{1, 2, 3}},
		"not what comes before an old revision that is there again": {func(w *world) {
			w.ships(1, 8)
			w.create(9, 3)
			w.workUntilDone()
		}, []int64{4, 5}},
		"not what a host was started with last": {func(w *world) {
			w.ships(1, 6)
			w.create(7, 7)
			w.decide() // starts one host
			w.cancel(7)
			w.drain(7)
			w.create(8, 8)
			w.cancel(8)
		}, []int64{1, 2, 3}},
		"not what ended while an open one was there": {func(w *world) {
			w.ships(1, 6)
			w.create(7, 7)
			w.hold(7)
			w.create(8, 8)
			w.cancel(8)
			w.create(9, 9)
			w.cancel(9)
		}, []int64{1, 2, 3}},
		"what ended without a host": {func(w *world) {
			w.ships(1, 6)
			w.create(7, 7)
			w.cancel(7)
			w.create(8, 8)
			w.cancel(8)
		}, []int64{1, 2, 3, 7}},
		"not a failed one that may be retried, and what ended since": {func(w *world) {
			w.ships(1, 6)
			w.create(7, 7)
			w.fail(7)
			w.create(8, 8)
			w.cancel(8)
			w.create(9, 9)
			w.cancel(9)
		}, []int64{1, 2, 3}},
		"a failed one that was overtaken": {func(w *world) {
			w.create(1, 1)
			w.fail(1)
			w.ships(2, 7)
		}, []int64{1, 2, 3, 4}},
		"not one that is too large": {func(w *world) {
			w.ships(1, 1)
			w.define(Definition{Pipeline: "shop", Service: Service{Name: "shop"},
				Stages: []Stage{hostStage("prod", nil, group("all", "elm", "fir", "ash"))}})
			w.ships(2, 2)
			w.shop(3)
			w.ships(3, 8)
		}, []int64{1, 3, 4, 5}},
		"a rollback with what it undoes": {func(w *world) {
			w.ships(1, 2)
			w.rollback()
			w.ships(4, 8)
		}, []int64{1, 2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, two)
			c.play(w)
			_, got, err := w.engine.Archive(w.now.Add(24*time.Hour), 100, most)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("archives %v, %v; want %v", got, err, c.want)
			}
			if _, got, _ := w.engine.Archive(noon, 100, most); len(got) > 0 {
				t.Errorf("archives %v, of which none had ended", got)
			}
		})
	}
}

// TestAFailedDeploymentIsOvertaken: once a newer deployment has started a host that a failed one has still to do, the failed
// one is overtaken, and a retry is refused.
func TestAFailedDeploymentIsOvertaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{twoHosts()}})
	w.create(1, 1)
	w.fail(1)
	retry := Command{Kind: RetryRequested, Deployment: 1, Target: "shop", By: "ana"}
	if by := w.engine.OvertakenBy(1); by != 0 {
		t.Errorf("#1 was overtaken by #%d, which there is not", by)
	}
	if _, err := w.engine.Command(retry); err != nil {
		t.Errorf("retry of a failed deployment: %v", err)
	}
	w.ships(2, 2)
	if by := w.engine.OvertakenBy(1); by != 2 {
		t.Errorf("#1 was overtaken by #%d, want #2", by)
	}
	if _, err := w.engine.Command(retry); !fault.Is(err, fault.Refused) {
		t.Errorf("retry of an overtaken deployment: %v, want a refusal", err)
	}
	if by := w.engine.OvertakenBy(2); by != 0 {
		t.Errorf("#2, which finished, was overtaken by #%d", by)
	}
}

func TestArchivedDetailNamesTheFirstDeployments(t *testing.T) {
	t.Parallel()
	for want, numbers := range map[string][]int64{
		"":                               nil,
		"#1 #3":                          {1, 3},
		"#1 #2 #3 #4 #5 #6 #7 #8 #9 #10": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		"#1 #2 #3 #4 #5 #6 #7 #8 #9 #10 and 2 more": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14},
	} {
		if got := (ArchivedDetail{Deployments: numbers}).String(); got != want {
			t.Errorf("%v: %q, want %q", numbers, got, want)
		}
	}
}

func twoHosts() Stage {
	prod := hostStage("prod", nil, group("all", "elm", "fir"))
	prod.OnFailure = Release
	return prod
}

// shop has hosts keep so many releases.
func (w *world) shop(releases int) {
	w.define(Definition{Pipeline: "shop", Keep: Keep{Releases: releases}, Service: Service{Name: "shop"}, Stages: []Stage{twoHosts()}})
}

// ships takes deployments with numbers from first to last through the pipeline, one after the other.
func (w *world) ships(first, last int64) {
	w.t.Helper()
	for n := first; n <= last; n++ {
		w.create(n, n)
		w.workUntilDone()
	}
}

// drain ends the live actions of a deployment.
func (w *world) drain(deployment int64) {
	w.t.Helper()
	for _, l := range w.engine.deployments[deployment].live.sorted() {
		w.done(StepKey{deployment, l.name.target, l.name.event})
	}
}

// fail has the first action of a deployment fail, and with it the deployment.
func (w *world) fail(deployment int64) {
	w.t.Helper()
	w.decide()
	l := w.engine.deployments[deployment].live.sorted()[0]
	w.fold(Entry{Deployment: deployment, Target: l.name.target, Event: StepFailed, Class: Note,
		Detail: raw(StepDetail{Event: l.name.event, Error: "exit 1"})})
	w.decide()
	if got := w.engine.deployments[deployment].status; got != StatusFailed {
		w.t.Fatalf("#%d is %s", deployment, got)
	}
}

// hold has a deployment wait for a person.
func (w *world) hold(deployment int64) {
	w.t.Helper()
	w.command(Command{Kind: HoldSet, Deployment: deployment, By: "ana"})
}

func (w *world) command(c Command) {
	w.t.Helper()
	rows, err := w.engine.Command(c)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		w.fold(row)
	}
}

// rollback brings the previous revision of the pipeline back.
func (w *world) rollback() {
	w.t.Helper()
	rows, err := w.engine.Rollback(Rollback{By: "ana"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		w.fold(row)
	}
	w.workUntilDone()
}
