package pipeline

import "testing"

// TestCurrentGoesByRank: a resumed older deployment ranks above a rollback, although the rollback has the higher number.
func TestCurrentGoesByRank(t *testing.T) {
	t.Parallel()
	w := newWorld(t, greeter())
	for n := range int64(2) {
		w.create(n+1, n+1)
		w.workUntilDone()
	}
	w.create(3, 3)
	w.fold(Entry{Deployment: 3, Target: "greeter", Event: HoldSet, Class: Note, Detail: raw(endDetail{By: "ana"})})
	rows, err := w.engine.Rollback(Rollback{Target: "greeter/prod", By: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		w.fold(row)
	}
	w.workUntilDone()
	at := func(want map[string]int64) {
		t.Helper()
		for target, number := range want {
			if got := w.engine.CurrentAt(target); got != number {
				t.Errorf("%d is the current deployment of %s, want %d", got, target, number)
			}
		}
	}
	at(map[string]int64{"greeter/beta": 2, "greeter/prod": 4, "greeter/prod/east": 4, "greeter/prod/east/elm": 4, "greeter/nowhere": 0})
	for _, target := range []string{"greeter", "greeter/prod"} {
		w.fold(Entry{Deployment: 3, Target: target, Event: HoldCleared, Class: Note})
	}
	w.workUntilDone()
	at(map[string]int64{"greeter": 3, "greeter/beta": 3, "greeter/prod": 3, "greeter/prod/east": 3, "greeter/prod/east/elm": 3})
}
