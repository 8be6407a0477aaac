//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Verdict is the result of the judge's search of the log.
type Verdict struct {
	Actions  int
	Attempts int
	Lost     int // leases that were lost
	Ends     map[action.Status]int
	Faults   []string // broken promises; none is right
}

func (v *Verdict) fault(a queue.ActionState, format string, args ...any) {
	v.Faults = append(v.Faults, fmt.Sprintf("%s %s: ", a.Name, a.ID)+fmt.Sprintf(format, args...))
}

// Judge reads the whole log when everything has ended, and compares it with what
// was ordered and with what the target saw.
func (w *World) Judge(ctx context.Context) (Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	v := Verdict{Ends: map[action.Status]int{}}
	var states []queue.ActionState
	var events []action.Event
	err := Patiently(ctx, func() (err error) {
		if states, err = w.Ledger.Actions(ctx, queue.ActionQuery{}); err != nil {
			return err
		}
		events, err = w.recorded(ctx, states)
		return err
	})
	if err != nil {
		return v, err
	}
	histories := historiesOf(events)
	missing, callbacks := w.Orders(), map[action.ID][]string{}
	for _, a := range states {
		switch _, ordered := missing[a.ID]; {
		case a.Kind == callback.Kind:
			callbacks[a.ParentID] = append(callbacks[a.ParentID], a.Name)
		case !ordered:
			v.fault(a, "it was not enqueued, or is in the log twice")
			continue
		}
		delete(missing, a.ID)
	}
	for _, a := range states {
		v.Actions++
		v.Attempts += a.Thread.Attempt
		v.Lost += a.Thread.Lost
		v.Ends[a.Thread.Status]++
		v.history(a, histories[a.ID])
		v.effects(a, w.Target.Arrivals(a.ID))
		if a.Name == Parcel {
			v.callbacks(a, callbacks[a.ID])
		}
	}
	v.limits(w.Target.Crowd(), w.began)
	for id, a := range missing {
		v.fault(queue.ActionState{Action: a}, "was stored, and is not in the log (%s)", id)
	}
	return v, nil
}

// everything is more events than a test makes.
const everything = 1_000_000

// recorded reads the events of all actions. While fewer are there than the actions' last states say, transactions of
// other tests on the same server may delay some, so it fails until ctx is nearly over; then it returns what there is,
// for the judge.
func (w *World) recorded(ctx context.Context, states []queue.ActionState) ([]action.Event, error) {
	want := 0
	for _, a := range states {
		want += a.Thread.Seq + 1
	}
	some, err := w.Ledger.EventsAfter(ctx, queue.EventPosition{}, everything)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok && len(some) < want && time.Until(end) > 30*time.Second {
		return nil, fmt.Errorf("%d events are recorded of at least %d", len(some), want)
	}
	events := make([]action.Event, len(some))
	for i, e := range some {
		events[i] = e.Event
	}
	return events, nil
}

// historiesOf returns the events of each action, in the order of seq.
func historiesOf(events []action.Event) map[action.ID][]action.Event {
	slices.SortStableFunc(events, func(a, b action.Event) int { return a.Seq - b.Seq })
	histories := map[action.ID][]action.Event{}
	for _, e := range events {
		histories[e.ActionID] = append(histories[e.ActionID], e)
	}
	return histories
}

// history judges the events of one action, of which its beginning is the first.
func (v *Verdict) history(a queue.ActionState, events []action.Event) {
	if len(events) == 0 {
		v.fault(a, "has no events")
		return
	}
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
			v.fault(a, "ended %s with seq %d, and has later events", e.Status, e.Seq)
		}
		if i > 0 && (e.Attempt < events[i-1].Attempt || e.Spent < events[i-1].Spent || e.Spent > events[i-1].Spent+1) {
			v.fault(a, "seq %d goes from attempt %d, spent %d to attempt %d, spent %d", e.Seq, events[i-1].Attempt,
				events[i-1].Spent, e.Attempt, e.Spent)
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
func (v *Verdict) effects(a queue.ActionState, attempts []int) {
	if a.Handler != Effect && a.Handler != Once && a.Handler != Arrived {
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

// callbacks judges what the end of a parcel asked for: each of it is there once.
func (v *Verdict) callbacks(a queue.ActionState, names []string) {
	parts := 0
	if a.Thread.Status == action.Successful {
		var inputs struct{ Output struct{ Features []any } }
		err := json.Unmarshal(a.Parameters, &inputs)
		if parts = len(inputs.Output.Features); err != nil {
			parts = 1 // the output of a failed job has no features
		}
	}
	want := append([]string{"end"}, slices.Repeat([]string{"part"}, parts)...)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		v.fault(a, "ended %s and has the callbacks %v, want %v", a.Thread.Status, names, want)
	}
}

// limits judges what the target saw of Gentle. A visit comes later than its token was taken, so
// that counting from the beginning never is unjust.
func (v *Verdict) limits(c Crowd, began time.Time) {
	if c.Most > GentleAtOnce {
		v.Faults = append(v.Faults, fmt.Sprintf("%d attempts of %s were at the target at once, %d may be", c.Most, Gentle, GentleAtOnce))
	}
	for i, at := range c.Visits {
		if allowed := GentleBurst + GentleRate*at.Sub(began).Seconds(); float64(i+1) > allowed {
			v.Faults = append(v.Faults, fmt.Sprintf("%d attempts of %s came within %s, %.1f may have", i+1, Gentle, at.Sub(began), allowed))
			return
		}
	}
}
