package turn

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
)

// TestWhateverHappens: over random events, lost answers and changes of the served handlers, nothing beyond the limits is claimed or
// begun than may be, nothing begins late, ends are recorded in time, waiting claims are given back in time, Next
// never spins, and in the end everything that was ready is done.
func TestWhateverHappens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := map[string]Limits{"free": {}, "slow": {Limits: action.Limits{Lane: action.Limit{Slots: 2}}, Workers: 3},
			"metered": {Limits: action.Limits{Lane: action.Limit{Rate: 100}}}, "away": {HandOff: true}}
		w := newWorld(Config{Workers: rapid.IntRange(1, 20).Draw(t, "workers"), Rows: rapid.IntRange(5, 300).Draw(t, "rows")}, limits)
		w.bytes = rapid.SampledFrom([]int{0, 100, 60_000, 3 << 20}).Draw(t, "bytes")
		w.limit = rapid.SampledFrom([]time.Duration{0, 40 * time.Millisecond, time.Second, time.Minute}).Draw(t, "limit")
		lanes := []string{"free/a", "free/b", "free/c", "free/d", "slow/a", "slow/b", "metered/a", "away", "gone/x"}
		took := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 300 * time.Millisecond})
		outcomes := rapid.SampledFrom([]action.OutcomeKind{action.Done, action.Done, action.Retry, action.Throttle})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if problem := w.check(); problem != "" {
					t.Fatal(problem)
				}
			},
			"add": func(t *rapid.T) {
				w.add(rapid.SampledFrom(lanes).Draw(t, "lane"), rapid.IntRange(1, 400).Draw(t, "n"))
			},
			"name": func(t *rapid.T) {
				w.name(rapid.SampledFrom(lanes).Draw(t, "lane"), rapid.IntRange(1, 400).Draw(t, "n"))
			},
			"turn": func(t *rapid.T) {
				inTime(t, w)
				w.step()
			},
			"answer": func(t *rapid.T) {
				if n := len(w.flights); n > 0 {
					w.answer(rapid.IntRange(0, n-1).Draw(t, "which"), rapid.IntRange(0, 9).Draw(t, "lost") == 0)
				}
			},
			"end": func(t *rapid.T) {
				for range min(len(w.running), rapid.IntRange(1, 20).Draw(t, "n")) {
					w.end(0, action.Outcome{Kind: outcomes.Draw(t, "kind")}, took.Draw(t, "took"))
				}
			},
			"pass": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			},
			"block": func(t *rapid.T) { lane := rapid.SampledFrom(lanes).Draw(t, "lane"); w.blocked[lane] = !w.blocked[lane] },
			"guard": func(t *rapid.T) { w.s.Allow(rapid.IntRange(0, 3).Draw(t, "yes") > 0) },
			"serve": func(t *rapid.T) {
				changed := maps.Clone(limits)
				slots := action.Limit{Slots: rapid.IntRange(0, 4).Draw(t, "slots")}
				changed["slow"] = Limits{Limits: action.Limits{Lane: slots}, Workers: rapid.IntRange(0, 4).Draw(t, "of slow")}
				changed["free"] = Limits{Workers: rapid.IntRange(0, 4).Draw(t, "of free")}
				w.serve(changed)
			},
		})
		w.s.Allow(true)
		clear(w.blocked)
		for len(w.flights) > 0 {
			w.answer(0, false)
		}
		w.s.Signal(nil, w.now)
		for range 60 {
			w.s.Signal(nil, w.now)
			if problem := w.settle(time.Second, time.Millisecond); problem != "" {
				t.Fatal(problem)
			}
		}
		for lane, n := range w.ready {
			if n > 0 && lane != "gone/x" {
				t.Fatalf("%d of %s are still ready", n, lane)
			}
		}
		if !w.s.Idle() {
			t.Fatalf("it is not idle: %+v", w.s)
		}
	})
}

// inTime wants a turn for ends that are 5 ms old, and for claims that have waited too long.
func inTime(t *rapid.T, w *world) {
	w.begin()
	if w.s.inFlight >= maxTurns || w.s.lost || w.now.Before(w.s.notBefore) {
		return
	}
	next, _ := Next(w.s, w.now)
	if w.s.ended > 0 && w.now.Sub(w.s.endedAt) >= turnAge && next.Record == 0 {
		t.Fatalf("%d ends, the oldest %s old, are not recorded by %+v", w.s.ended, w.now.Sub(w.s.endedAt), next)
	}
}

// TestBlockedLanesCostTheOthersNothing: beside 10,000 lanes that wait for tokens a healthy one is
// in the first turn after it is found.
func TestBlockedLanesCostTheOthersNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(Config{Workers: 10, Rows: 1000},
		map[string]Limits{"free": {}, "slow": {Limits: action.Limits{Lane: action.Limit{Rate: 0.001}}}})
	for i := range 10_000 {
		w.s.Found([]string{fmt.Sprintf("slow/%05d", i)}, "", w.now)
		w.s.inFlight++ // Found ends a search
	}
	w.s.inFlight = 0
	w.s.Found([]string{"free/a"}, "", w.now)
	w.s.inFlight++
	w.ready["free/a"] = 1
	for {
		next, _ := w.step()
		if next.Empty() {
			t.Fatal("the healthy lane is in no turn")
		}
		if len(next.Want) > 0 {
			if next.Want[0].Lane != "free/a" {
				t.Errorf("the turn wants %+v", next.Want)
			}
			return
		}
		for len(w.flights) > 0 {
			w.answer(0, false)
		}
	}
}

// TestNamedLanesNeedNoSearch: a lane that a signal names is in the next turn, whatever a search passes over in the
// meantime, and no number of starts causes a search.
func TestNamedLanesNeedNoSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(Config{Workers: 4, Rows: 1000}, map[string]Limits{"free": {}})
	if first, _ := w.step(); !first.Search { // its answer takes long: it passes blocked lanes
		t.Fatalf("the first turn is %+v", first)
	}
	for range 100 {
		w.name("free/a", 1)
		next, _ := w.step()
		if len(next.Want) != 1 || next.Want[0].Lane != "free/a" {
			t.Fatalf("after a signal the turn is %+v", next)
		}
		w.answer(1, false)
		w.end(0, action.Outcome{Kind: action.Done}, time.Millisecond)
		w.now = w.now.Add(turnAge)
		if next, _ = w.step(); next.Record != 1 {
			t.Fatalf("after an end the turn is %+v", next)
		}
		w.answer(1, false)
	}
	w.name("gone/a", 1)
	if next, _ := w.step(); !next.Empty() {
		t.Errorf("for a lane that is not served the turn is %+v", next)
	}
	w.answer(0, false)
	if problem := w.settle(time.Second, 0); problem != "" || !w.s.Idle() {
		t.Errorf("in the end: %s; idle: %t", problem, w.s.Idle())
	}
}

// TestLanesThatWereDroppedAreFoundAgain: where more lanes are ready than a page has, each is served
// without a signal.
func TestLanesThatWereDroppedAreFoundAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(Config{Workers: 2, Rows: 1000}, map[string]Limits{"free": {}})
	for i := range 20 {
		w.ready[fmt.Sprintf("free/%02d", i)] = 5
	}
	w.s.Signal(nil, w.now)
	if problem := w.settle(time.Second, time.Second); problem != "" {
		t.Fatal(problem)
	}
	for lane, n := range w.ready {
		if n > 0 {
			t.Errorf("%d of %s are still ready", n, lane)
		}
	}
}

// TestAQuickLaneIsClaimedFarAhead: what a lane may have claimed ahead is asked for in few turns,
// however many times over it runs that in the time that its pace is taken from.
func TestAQuickLaneIsClaimedFarAhead(t *testing.T) {
	t.Parallel()
	const actions = 100_000
	w := newWorld(Config{Workers: 100, Rows: 1000}, map[string]Limits{"free": {}})
	w.add("free/a", actions)
	claiming := 0
	for done := 0; done < actions; w.now = w.now.Add(time.Millisecond) { // 50,000 a second
		for {
			next, _ := w.step()
			if next.Empty() {
				break
			}
			if len(next.Want) > 0 {
				claiming++
			}
		}
		for n := min(len(w.running), 50); n > 0; n-- {
			w.end(0, action.Outcome{Kind: action.Done}, time.Millisecond)
			done++
		}
		if len(w.flights) > 0 {
			w.answer(0, false)
		}
	}
	if most := actions / 500; claiming > most {
		t.Errorf("%d actions took %d turns that claim; they should take at most %d", actions, claiming, most)
	}
}

// TestEveryLaneHasItsTurn: between two claims that a worker begins of one lane, each other lane
// with work has had one.
func TestEveryLaneHasItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(Config{Workers: 3, Rows: 1000}, map[string]Limits{"free": {}})
	for _, lane := range []string{"free/a", "free/b", "free/c"} {
		w.add(lane, 500)
	}
	served := map[string]int{}
	for range 600 {
		for {
			if next, _ := w.step(); next.Empty() {
				break
			}
			for len(w.flights) > 0 {
				w.answer(0, false)
			}
		}
		for len(w.running) > 0 {
			served[w.running[0].Lane]++
			w.end(0, action.Outcome{Kind: action.Done}, 0)
		}
		w.now = w.now.Add(5 * time.Millisecond)
		least, most := 1<<30, 0
		for _, lane := range []string{"free/a", "free/b", "free/c"} {
			least, most = min(least, served[lane]), max(most, served[lane])
		}
		if w.ready["free/a"] > 0 && w.ready["free/b"] > 0 && w.ready["free/c"] > 0 && most-least > 3 {
			t.Fatalf("served %v", served)
		}
	}
}

// TestLanesOpenWhenTheirReservationsEnd: a handler's only worker here is reserved for a lane, and the
// heartbeat is late before a turn has asked. No attempt ends that would open the lanes that wait for it.
func TestLanesOpenWhenTheirReservationsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(Config{Workers: 10, Rows: 100}, map[string]Limits{"one": {Workers: 1}})
	w.s.search.due = false // a search would find them again
	w.ready["one/a"], w.ready["one/b"] = 1, 1
	w.s.Signal([]string{"one/a", "one/b"}, w.now)
	w.s.Wait(w.now.Add(time.Second)) // the database is away
	w.begin()
	w.s.Allow(false)
	w.now = w.now.Add(time.Minute)
	w.begin()
	w.s.Allow(true)
	if problem := w.settle(time.Second, time.Millisecond); problem != "" {
		t.Fatal(problem)
	}
	if w.ready["one/a"]+w.ready["one/b"] > 0 {
		t.Errorf("still ready: %v", w.ready)
	}
}

// TestClaimsThatArriveWithoutTheGuardDoNotBegin: the answer of a turn reaches an instance whose lease has passed in
// the meantime.
func TestClaimsThatArriveWithoutTheGuardDoNotBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(Config{Workers: 10, Rows: 100}, map[string]Limits{"free": {}})
	w.ready["free/a"] = 3
	w.s.Signal([]string{"free/a"}, w.now)
	for len(w.flights) == 0 || len(w.flights[0].claims) == 0 {
		if next, _ := w.step(); next.Search {
			w.answer(0, false)
		}
	}
	w.s.Allow(false)
	w.answer(0, false)
	if len(w.running) > 0 {
		t.Errorf("%d attempts begin", len(w.running))
	}
	if problem := w.check(); problem != "" {
		t.Error(problem)
	}
}
