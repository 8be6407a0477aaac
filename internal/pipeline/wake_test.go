package pipeline

import "testing"

// TestPassLooksAtNoDeploymentThatWaits: whatever one deployment does inside a batch, those that wait
// for the batch stay asleep, and its release wakes the first one only.
func TestPassLooksAtNoDeploymentThatWaits(t *testing.T) {
	t.Parallel()
	lab := hostStage("lab", nil, group("all", "ash", "birch"))
	lab.Queue = FIFO
	w := newWorld(t, Definition{Pipeline: "shop", Stages: []Stage{lab}})
	const waiting = 100
	for n := range int64(1 + waiting) {
		w.create(n+1, n+1)
	}
	w.decide()
	for len(w.engine.deployments[1].live) > 0 {
		name := w.engine.deployments[1].live.sorted()[0].name
		w.done(StepKey{1, name.target, name.event})
		for _, t2 := range w.engine.deployments {
			if t2.awake && t2.number != 1 {
				t.Fatalf("after %s of #1 the next pass would look at #%d", name, t2.number)
			}
		}
		w.decide()
	}
	if d, _ := w.engine.Deployment(1); d.Status != StatusFinished {
		t.Fatalf("#1 is %s", d.Status)
	}
	if len(w.engine.deployments[2].live) == 0 {
		t.Fatal("#2 has not entered the batch that #1 released")
	}
	if got := len(*w.engine.waiting[batchKey(w.engine.numbers.paths["shop/lab"])]); got != waiting-1 {
		t.Errorf("%d deployments wait for the batch, want %d", got, waiting-1)
	}
}

// TestEndedDeploymentsShareTheStatesOfTheirSteps, and keep no times.
func TestEndedDeploymentsShareTheStatesOfTheirSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Definition{Pipeline: "shop", Stages: []Stage{hostStage("lab", nil, group("all", "ash", "birch"))}})
	for n := range int64(2) {
		w.create(n+1, n+1)
		for w.decide(); len(w.engine.deployments[n+1].live) > 0; w.decide() {
			name := w.engine.deployments[n+1].live.sorted()[0].name
			w.done(StepKey{n + 1, name.target, name.event})
		}
	}
	first, second := w.engine.deployments[1], w.engine.deployments[2]
	if first.status != StatusFinished || second.status != StatusFinished {
		t.Fatalf("#1 is %s, #2 is %s", first.status, second.status)
	}
	if &first.step[0] != &second.step[0] || first.at != nil || second.inFlight != nil {
		t.Error("an ended deployment keeps what only passes and edits need")
	}
	for _, step := range w.engine.Explain(1, noon) {
		if step.State != StateComplete {
			t.Errorf("%s %s is %s", step.Target, step.Event, step.State)
		}
	}
}

// TestClaimsAreReadAsTheyAreWritten, whatever the event is called, also by package json.
func TestClaimsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"", "host-deployed", "gate-passed/qa", `host-"x"`, "host-\\", "host-é", "host-<b>", "host-a\nb"} {
		row := Entry{Detail: claimDetail(event)}
		if got := detail[StepDetail](row).Event; got != event {
			t.Errorf("json reads %q from the claim of %q", got, event)
		}
		if got := claimedEvent(&row); got != event {
			t.Errorf("a fold reads %q from the claim of %q", got, event)
		}
	}
	if got := claimedEvent(&Entry{Detail: []byte(`{"event":"host-deployed","action":"x"}`)}); got != "host-deployed" {
		t.Errorf("a fold reads %q from a claim with an action", got)
	}
}

// TestAPlaceIsNotOfferedTwice: a share of a group's hosts is another number for a deployment that started the group at another
// size. The place that one has no use for yet is not offered to it again and again.
func TestAPlaceIsNotOfferedTwice(t *testing.T) {
	t.Parallel()
	half := func(names ...string) Definition {
		prod := hostStage("prod", nil, group("all", names...))
		prod.Groups[0].MaxParallel = Limit{N: 50, Percent: true}
		return Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{prod}}
	}
	w := newWorld(t, half("a", "b", "c", "d", "e", "f", "g", "h"))
	for n := range int64(2) {
		w.create(n+1, n+1)
		w.workUntilDone()
	}
	w.create(3, 3)
	w.decide() // four hosts of eight
	w.define(half("a", "b", "c", "d", "h"))
	w.decide()
	rows, err := w.engine.Rollback(Rollback{Target: "shop/prod/all/h", By: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		w.fold(row)
	}
	w.decide()
	live := func(number int64) int { return len(w.engine.deployments[number].live) }
	for _, want := range []int{0, 1} { // three hosts of five, of which others are in flight
		if live(3) != 4-want || live(4) != 0 {
			t.Fatalf("#3 is at %d hosts, the rollback at %d; want %d and 0", live(3), live(4), 4-want)
		}
		name := w.engine.deployments[3].live.sorted()[0].name
		w.done(StepKey{3, name.target, name.event})
		w.decide()
	}
	if live(4) != 1 {
		t.Errorf("the rollback is at %d hosts, want 1", live(4))
	}
}

// TestAHostThatAnOlderDeploymentHasFinishedWakesTheNext: in a stage without a queue, order strict counts for each host.
func TestAHostThatAnOlderDeploymentHasFinishedWakesTheNext(t *testing.T) {
	t.Parallel()
	all := group("all", "ash", "cedar", "birch")
	all.MaxParallel = Limit{N: 2}
	lab := hostStage("lab", nil, all)
	lab.Queue = NoQueue
	w := newWorld(t, Definition{Pipeline: "shop", Order: Strict, Stages: []Stage{lab}})
	w.create(1, 1)
	w.decide() // ash and cedar have the places
	w.fold(Entry{Deployment: 2, Target: "shop", Event: DeploymentCreated, Class: Note, Revision: 2,
		Detail: raw(createdDetail{Kind: KindPart, Scope: "shop/lab/all/birch"})})
	w.decide()
	for _, host := range []string{"shop/lab/all/ash", "shop/lab/all/birch"} {
		for _, event := range []string{HostReplicated, HostDeployed, HostTested} {
			if n := len(w.engine.deployments[2].live); n > 0 {
				t.Fatalf("#2 has begun before #1 has finished %s", host)
			}
			w.done(StepKey{1, host, event})
			w.decide()
		}
	}
	if len(w.engine.deployments[2].live) != 1 {
		t.Error("#2 does not begin on the host that #1 has finished")
	}
}

// TestWhatAPassTakesEndsAWaitForANewerDeployment: a deployment that waits behind a newer one in a queue latest takes the host
// which that one needs elsewhere, in the same pass. The newer one could not enter then, so nothing is left to wait for.
func TestWhatAPassTakesEndsAWaitForANewerDeployment(t *testing.T) {
	t.Parallel()
	lab, east := hostStage("lab", nil, group("all", "ash")), hostStage("east", nil, group("all", "ash"))
	lab.Queue, east.Queue = NoQueue, NoQueue
	w := newWorld(t, Definition{Pipeline: "shop", Order: Runnable, Stages: []Stage{lab, east},
		Batches: []Batch{{Name: "b", Stages: []string{"lab"}, Queue: Latest}}})
	part := func(number int64) {
		w.fold(Entry{Deployment: number, Target: "shop", Event: DeploymentCreated, Class: Note, Revision: number,
			Detail: raw(createdDetail{Kind: KindPart, Scope: "shop/lab/all/ash"})})
		w.decide()
	}
	part(1)
	w.create(2, 2)
	part(3)
	for _, event := range []string{HostReplicated, HostDeployed, HostTested} {
		w.done(StepKey{1, "shop/lab/all/ash", event})
		w.decide()
	}
	if live := w.engine.deployments[2].live.sorted(); len(live) != 1 || live[0].name.target != "shop/east/all/ash" {
		t.Fatal("#2 has not begun in east")
	}
	if again := w.decide(); len(again.Entries) > 0 {
		t.Errorf("a second pass decides %s %s", again.Entries[0].Target, again.Entries[0].Event)
	}
}
