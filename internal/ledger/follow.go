package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Planner says which actions follow other ones. What it plans is stored in the
// transaction that makes the other one begin or end, whoever ends it.
type Planner interface {
	// Begins is what follows when an action runs. It is asked inside of transactions, each time: it only computes, and
	// gives the same ids for the same action.
	Begins(a action.Action, at time.Time) []Follow
	// Asks reports whether something may follow when the action ends so. It only computes.
	Asks(a action.Action, end action.Status) bool
	// Plan is what follows an end. It is asked before the transaction, perhaps more than once for the same end, and may
	// fetch and store documents. Its error says that they cannot be had now: the action stays as it is until they can.
	Plan(ctx context.Context, e End) ([]Follow, error)
}

// End is an action that is about to end, and how.
type End struct {
	Action    action.Action
	Thread    action.Thread // with the status of the end
	At        time.Time
	Code      string
	Error     string
	Ref       string
	Output    json.RawMessage // may be there with OutputRef, too
	OutputRef string
}

// Follow is an action that another one asks for.
type Follow struct {
	Action action.Action  // with its id
	Link   *action.Action // for a job: stored in its place, SUCCESSFUL, when another job answers for the same payload
	Code   string         // of Fault
	Fault  string         // why the action is FAILED at its birth; "": it is to be done
}

// codeLinked is the code of an action that stands for a job which was there already.
const codeLinked = "linked"

// Follows gives the ledger its planner, once, before it is used.
func (l *Ledger) Follows(p Planner) { l.core.planner = p }

// maxFollows is how many actions may follow in one transaction; those of one end are never divided.
const maxFollows = 10_000

// plan is what follows one end, or why that cannot be told now.
type plan struct {
	end     End
	follows []Follow
	err     error
}

// fits reports whether the plan is for this very end. The time of the end is the plan's.
func (p plan) fits(e End) bool {
	return p.end.Thread.Status == e.Thread.Status && p.end.Thread.Seq == e.Thread.Seq && p.end.Thread.Attempt == e.Thread.Attempt &&
		p.end.Code == e.Code && p.end.Error == e.Error && p.end.Ref == e.Ref && p.end.OutputRef == e.OutputRef && bytes.Equal(p.end.Output, e.Output)
}

// unplanned stops a transaction before it writes: what follows these ends must be planned first.
type unplanned struct{ ends []End }

func (u unplanned) Error() string { return fmt.Sprintf("%d ends are not planned yet", len(u.ends)) }

// held says that everything was done but for some ends, whose followers cannot be planned now.
type held struct {
	ids []action.ID
	why error
}

func (h held) Error() string {
	return fmt.Sprintf("action %s cannot end yet, since its callbacks cannot be planned: %v", h.ids[0], h.why)
}

// Unwrap makes it an error that may pass.
func (h held) Unwrap() error { return fault.Wrap(fault.Unavailable, h.why) }

var errSlowPlan = fault.New(fault.Unavailable, "the documents of callbacks could not be had within %s", callTimeout)

var errManyFollows = fault.New(fault.Unavailable, "more than %d actions would follow in one transaction", maxFollows)

// plans are what was planned so far, by action; of an action that may end in several ways, for each.
type plans map[action.ID][]plan

// of is the plan for an end.
func (p plans) of(e End) (plan, bool) {
	i := slices.IndexFunc(p[e.Action.ID], func(one plan) bool { return one.fits(e) })
	if i < 0 {
		return plan{}, false
	}
	return p[e.Action.ID][i], true
}

// planAll plans ends outside of any transaction.
func (c *core) planAll(ctx context.Context, ends []End, known plans) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errSlowPlan)
	defer cancel()
	for _, e := range ends {
		follows, err := c.planner.Plan(ctx, e)
		known[e.Action.ID] = append(known[e.Action.ID], plan{end: e, follows: follows, err: err})
	}
}

// planned keeps of ends those that may happen now, with what follows them: all but those whose followers cannot be
// planned. Ends that nobody has planned yet stop the transaction.
func (t *txn) planned(ends []settled) (kept []settled, err error) {
	if t.core.planner == nil {
		return ends, nil
	}
	var missing []End
	count := 0
	for _, m := range ends {
		m.follows = t.begins(m)
		if !t.core.planner.Asks(*m.action, m.Thread.Status) {
			kept = append(kept, m)
			continue
		}
		e := t.endOf(m)
		p, ok := t.plans.of(e)
		switch {
		case !ok:
			missing = append(missing, e)
		case p.err != nil:
			t.hold(m.action.ID, p.err)
		case count > 0 && count+len(p.follows) > maxFollows:
			t.hold(m.action.ID, errManyFollows)
		default:
			count += len(p.follows)
			m.follows = append(m.follows, p.follows...)
			kept = append(kept, m.at(p.end.At, t.Now()))
		}
	}
	if len(missing) > 0 {
		return nil, unplanned{missing}
	}
	return kept, nil
}

// begins is what follows when a move makes its action run.
func (t *txn) begins(m settled) []Follow {
	if t.core.planner == nil {
		return nil
	}
	for _, e := range m.events() {
		if e.Status == action.Running {
			return t.core.planner.Begins(*m.action, e.At)
		}
	}
	return nil
}

// beginning is what follows the claims that run.
func (t *txn) beginning(claimed []Claimed) (follows []Follow) {
	if t.core.planner == nil {
		return nil
	}
	for _, c := range claimed {
		if c.Thread.Status == action.Running {
			follows = append(follows, t.core.planner.Begins(c.Action, t.Now())...)
		}
	}
	return follows
}

func (t *txn) hold(id action.ID, why error) {
	if t.holds(id) {
		return
	}
	if t.held == nil {
		t.held = &held{why: why}
	}
	t.held.ids = append(t.held.ids, id)
}

// holds reports whether an action's end is left out of this transaction.
func (t *txn) holds(id action.ID) bool { return t.held != nil && slices.Contains(t.held.ids, id) }

// endOf is an end as a planner sees it.
func (t *txn) endOf(m settled) End {
	e := t.ending(&m)
	end := End{Action: *m.action, Thread: m.Thread, At: e.At, Code: e.Event.Code, Error: e.Event.Error, Ref: e.Event.Ref, Output: e.Output,
		OutputRef: e.OutputRef}
	if len(m.Output) > 0 && m.OutputRef != "" {
		end.Output = cleanJSON(m.Output)
	}
	return end
}

// at is the end at the time for which it was planned, so that its documents and the log say the same.
func (s settled) at(planned, now time.Time) settled {
	s.endedAt = planned
	if s.Event != nil && s.Event.At.Equal(now) {
		e := *s.Event
		e.At = planned
		s.Event = &e
	}
	return s
}

// follow stores what follows in the transaction that it follows from.
func (t *txn) follow(follows []Follow) error {
	if len(follows) == 0 {
		return nil
	}
	actions := make([]action.Action, len(follows))
	for i, f := range follows {
		if _, err := t.prepare(f.Action); err != nil { // it cannot be stored as it is
			f.Code, f.Fault = string(fault.CodeOf(err)), err.Error()
			f.Action.Parameters, f.Action.RunAt = nil, time.Time{}
			follows[i] = f
		}
		actions[i] = f.Action
	}
	made, err := t.enqueue(actions)
	if err != nil {
		return err
	}
	var born []settled
	var links []Follow
	for i, f := range follows {
		switch {
		case made[i].Created && f.Fault != "":
			o := action.Outcome{Kind: action.Fatal, Code: f.Code, Error: f.Fault}
			if born, err = t.bear(born, f.Action, o); err != nil {
				return err
			}
		case made[i].ID != f.Action.ID && f.Link != nil:
			f.Action.ID = made[i].ID
			links = append(links, f)
		}
	}
	if born, err = t.link(born, links); err != nil {
		return err
	}
	return t.settle(born)
}

// link stores the actions that stand for jobs which were there already; their output names the job.
func (t *txn) link(born []settled, links []Follow) ([]settled, error) {
	if len(links) == 0 {
		return born, nil
	}
	actions := make([]action.Action, len(links))
	for i, l := range links {
		actions[i] = *l.Link
	}
	made, err := t.enqueue(actions)
	for i, l := range links {
		if err != nil {
			return nil, err
		}
		if made[i].Created {
			output, _ := json.Marshal(map[string]string{"jobID": l.Action.ID.String()}) // texts always marshal
			born, err = t.bear(born, *l.Link, action.Outcome{Kind: action.Done, Code: codeLinked, Output: output})
		}
	}
	return born, err
}

// bear ends an action that this transaction has stored.
func (t *txn) bear(born []settled, a action.Action, o action.Outcome) ([]settled, error) {
	a, err := t.prepare(a)
	if err != nil {
		return born, err
	}
	next, err := action.Next(a, newThread(a, t.Now()), action.Input{Kind: action.Ended, Outcome: o, Source: "planner"}, t.Now())
	return append(born, settled{action: &a, Transition: next}), err
}
