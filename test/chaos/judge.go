package chaos

import (
	"context"
	"fmt"
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// Verdict is what the judge found in the log.
type Verdict struct {
	Actions  int
	Attempts int
	Lost     int // leases that were lost
	Ends     map[action.Status]int
	Faults   []string // broken promises; none is right
}

func (v *Verdict) fault(a ledger.ActionState, format string, args ...any) {
	v.Faults = append(v.Faults, fmt.Sprintf("%s %s: ", a.Name, a.ID)+fmt.Sprintf(format, args...))
}

// Judge reads the whole log when everything has ended, and compares it with what
// was ordered and with what the target saw.
func (w *World) Judge(ctx context.Context) (Verdict, error) {
	v := Verdict{Ends: map[action.Status]int{}}
	states, err := w.Ledger.Actions(ctx, ledger.ActionQuery{})
	if err != nil {
		return v, err
	}
	missing := w.Orders()
	for _, a := range states {
		if _, ordered := missing[a.ID]; !ordered {
			v.fault(a, "nobody ordered it, or it stands twice in the log")
			continue
		}
		delete(missing, a.ID)
		events, err := w.Ledger.Events(ctx, a.ID)
		if err != nil {
			return v, err
		}
		v.Actions++
		v.Attempts += a.Thread.Attempt
		v.Lost += a.Thread.Lost
		v.Ends[a.Thread.Status]++
		v.history(a, events)
		v.effects(a, w.Target.Arrivals(a.ID))
	}
	for id, a := range missing {
		v.fault(ledger.ActionState{Action: a}, "was stored, and is not in the log (%s)", id)
	}
	return v, nil
}

// history judges the events of one action.
func (v *Verdict) history(a ledger.ActionState, events []action.Event) {
	last := events[len(events)-1]
	switch {
	case !a.Thread.Status.Ended():
		v.fault(a, "is %s", a.Thread.Status)
	case last.Status != a.Thread.Status || last.Seq != a.Thread.Seq:
		v.fault(a, "ended %s with seq %d, its last event is %s with seq %d", a.Thread.Status, a.Thread.Seq, last.Status, last.Seq)
	case a.Thread.Spent > a.Policy.Retries+1:
		v.fault(a, "spent %d attempts, %d are allowed", a.Thread.Spent, a.Policy.Retries+1)
	}
	var runs action.Event // the last RUNNING
	for i, e := range events {
		if e.Seq != i {
			v.fault(a, "event %d has seq %d", i, e.Seq)
		}
		if e.Status.Ended() && i != len(events)-1 {
			v.fault(a, "ended %s with seq %d, and went on", e.Status, e.Seq)
		}
		if i > 0 && (e.Attempt < events[i-1].Attempt || e.Spent < events[i-1].Spent || e.Spent > events[i-1].Spent+1) {
			v.fault(a, "seq %d goes from attempt %d, spent %d to attempt %d, spent %d", e.Seq, events[i-1].Attempt, events[i-1].Spent, e.Attempt, e.Spent)
		}
		switch {
		case e.Status == action.Backoff && e.Until.IsZero():
			v.fault(a, "seq %d is BACKOFF without a time", e.Seq)
		case e.Status == action.Running && e.Attempt <= runs.Attempt:
			v.fault(a, "seq %d runs attempt %d again", e.Seq, e.Attempt)
		case e.Status == action.Running:
			runs = e
		case e.Status == action.Successful && (e.Source != runs.Source || e.Attempt != runs.Attempt):
			v.fault(a, "attempt %d of %s was ended by %s: a late completion", runs.Attempt, runs.Source, e.Source)
		}
	}
}

// effects judges what the target saw of one action.
func (v *Verdict) effects(a ledger.ActionState, attempts []int) {
	if a.Handler != Effect && a.Handler != Once {
		return
	}
	seen := slices.Clone(attempts)
	slices.Sort(seen)
	if len(slices.Compact(seen)) != len(attempts) {
		v.fault(a, "one attempt reached the target twice: %v", attempts)
	}
	if a.Handler == Once && len(attempts) > 1 {
		v.fault(a, "at most once reached the target in the attempts %v", attempts)
	}
	if a.Thread.Status == action.Successful && !slices.Contains(attempts, a.Thread.Attempt) {
		v.fault(a, "attempt %d succeeded and never reached the target, which saw %v", a.Thread.Attempt, attempts)
	}
}
