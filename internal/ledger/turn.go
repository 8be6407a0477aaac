package ledger

import (
	"context"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Turn records completions, then claims what is wanted, in one transaction.
// An error with the code ledger_unavailable may pass by itself; any other one
// is the fault of a completion in the batch.
func (l *Ledger) Turn(ctx context.Context, owner Instance, completions []Completion, wants []Want) (done Turned, err error) {
	err = l.write(ctx, "turn", func(t *txn) error {
		done = Turned{}
		if err := t.complete(owner, completions, &done); err != nil {
			return err
		}
		done.Claimed, err = t.claim(owner, wants)
		return err
	})
	return done, err
}

// complete records the ends of attempts that are still the owner's, and names the others.
func (t *txn) complete(owner Instance, completions []Completion, done *Turned) error {
	ids := make([]action.ID, len(completions))
	for i, c := range completions {
		ids[i] = c.ID
	}
	found, err := t.lockLive(ids)
	if err != nil {
		return err
	}
	byID := make(map[action.ID]live, len(found))
	for _, f := range found {
		byID[f.action.ID] = f
	}
	var moves []settled
	for _, c := range completions {
		f, ok := byID[c.ID]
		if !ok || f.thread.ClaimedBy != owner.ID || f.thread.Attempt != c.Attempt {
			done.Late = append(done.Late, c.ID)
			continue
		}
		delete(byID, c.ID) // its second completion is late
		next, err := t.endAttempt(owner, f, c)
		if err != nil {
			return err
		}
		if next.Ended() {
			done.Ended = append(done.Ended, c.ID)
		}
		moves = append(moves, settled{f.action, next})
	}
	return t.settle(moves)
}

// endAttempt is what an outcome does. One that the state machine refuses is a
// bug of its handler and fails the action, since it would be refused for ever.
func (t *txn) endAttempt(owner Instance, f live, c Completion) (action.Transition, error) {
	in := action.Input{Kind: action.Ended, Owner: true, HandOff: c.HandOff, Outcome: c.Outcome, Source: owner.Name}
	next, err := action.Next(f.action, f.thread, in, t.Now())
	if err == nil {
		return next, nil
	}
	in.Outcome = action.Outcome{Kind: action.Fatal, Code: string(fault.CodeOf(err)), Error: err.Error()}
	return action.Next(f.action, f.thread, in, t.Now())
}

// claim takes ready actions and writes that they run; of hand-offs nothing is written before they are accepted.
func (t *txn) claim(owner Instance, wants []Want) ([]Claimed, error) {
	if len(wants) == 0 {
		return nil, nil
	}
	claimed, err := t.Claim(owner.ID, wants)
	if err != nil || len(claimed) == 0 {
		return nil, err
	}
	var events []action.Event
	for _, c := range claimed {
		if c.Thread.Status == action.Running {
			events = append(events, action.Event{ActionID: c.ID, Seq: c.Thread.Seq, Status: c.Thread.Status, Attempt: c.Thread.Attempt,
				Spent: c.Thread.Spent, At: t.Now(), Source: owner.Name})
		}
	}
	if len(events) == 0 {
		return claimed, nil
	}
	return claimed, t.InsertEvents(events)
}

// Claims lists the live claims of an owner: after a Turn whose answer was lost, they say what it did.
func (l *Ledger) Claims(ctx context.Context, owner action.ID) (claims []Claimed, err error) {
	err = l.read(ctx, "read claims", func(tx Tx) error {
		claims = nil
		ids, err := tx.Select(ClaimsOf, owner, sweep*10)
		if err != nil || len(ids) == 0 {
			return err
		}
		states, err := tx.ActionStates(ids, ActionQuery{})
		for _, s := range states {
			claims = append(claims, Claimed{Action: s.Action, Thread: s.Thread})
		}
		return err
	})
	return claims, err
}

// Lanes lists lanes with ready work for the handlers, at most limit: those
// after a lane first, then from the start, so that who goes on with the last
// one sees them all.
func (l *Ledger) Lanes(ctx context.Context, handlers []string, after string, limit int) (lanes []string, err error) {
	err = l.read(ctx, "read lanes", func(tx Tx) error {
		lanes, err = lanesAfter(tx, handlers, after, limit)
		return err
	})
	return lanes, err
}
