package conductor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
)

// wants says what the next turn claims: free workers dealt over the lanes with
// ready work, each lane in its turn, so that a long lane costs the others nothing.
// Lanes that may start nothing now are held until they may.
func (t *turner) wants(work context.Context) ([]ledger.Want, error) {
	looked := t.look
	if err := t.find(work); err != nil {
		return nil, err
	}
	postponed := t.ask(work)
	free := t.free()
	if free == 0 {
		return nil, nil
	}
	t.gate.begin()
	var wants []ledger.Want
	left := min(free, len(t.held)+len(t.lanes)) // lanes to deal to
	offer := func(lane string) {
		got := t.gate.deal(lane, max(1, free/max(1, left)), t.busy)
		if got == 0 {
			t.held = append(t.held, lane)
			return
		}
		wants = append(wants, ledger.Want{Lane: lane, N: got, HandOff: t.handsOff(handlerOf(lane))})
		free, left = free-got, left-1
	}
	for n := min(len(t.held), lanesAtOnce); n > 0 && free > 0; n-- {
		lane := t.held[0]
		t.held = t.held[1:]
		offer(lane)
	}
	for len(t.lanes) > 0 && free > 0 {
		t.last = t.lanes[0]
		t.lanes = t.lanes[1:]
		offer(t.last)
	}
	if len(wants) == 0 && t.more {
		t.look = true // what was found is held; there is more behind it
	}
	t.reopen = t.gate.reopens(t.held[:min(len(t.held), lanesAtOnce)], time.Now())
	if looked && !postponed.IsZero() && (t.reopen.IsZero() || postponed.Before(t.reopen)) {
		t.reopen = postponed // something changed: perhaps a lane may go on that was paused or disabled
	}
	return wants, nil
}

// find looks for lanes with ready work where there may be new ones.
func (t *turner) find(work context.Context) error {
	if !t.look || t.free() == 0 {
		return nil
	}
	names := t.table.Load().names
	lanes, err := t.ledger.Lanes(work, names, t.last, lanesAtOnce)
	if err != nil {
		return fmt.Errorf("look for ready lanes: %w", err)
	}
	t.held = slices.DeleteFunc(t.held, func(lane string) bool {
		_, served := slices.BinarySearch(names, handlerOf(lane))
		return !served
	})
	known := make(map[string]bool, len(t.held))
	for _, lane := range t.held {
		known[lane] = true
	}
	fresh := slices.DeleteFunc(slices.Clone(lanes), func(lane string) bool { return known[lane] })
	t.lanes, t.look, t.more = fresh, false, len(lanes) == lanesAtOnce && len(fresh) > 0
	return nil
}

// ask reports to the ledger and asks what lanes may do, or says when it is time for that; zero: when something
// happens. An ask that fails is made again; until then limited lanes wait, and the others go on.
func (t *turner) ask(work context.Context) (postponed time.Time) {
	now := time.Now()
	waiting := slices.Concat(t.held, t.lanes)
	at, due := t.gate.due()
	if len(waiting) > 0 {
		if next := t.gate.nextAsk(waiting[:min(len(waiting), lanesAtOnce)]); !due || next.Before(at) {
			at, due = next, true
		}
	}
	switch {
	case !due:
		return time.Time{}
	case at.After(now):
		return at
	}
	asks := t.gate.asks(waiting, t.free(), t.busy, now)
	if len(asks)+len(waiting) == 0 {
		return time.Time{}
	}
	grants, err := t.ledger.Grant(work, t.current(), asks)
	if err != nil {
		t.gate.lostAnswer(asks, now)
		t.log.Warn("ask for limits failed", obs.Error(err))
		return now.Add(askEvery)
	}
	t.gate.granted(asks, grants, now)
	return time.Time{}
}

// busy is how many attempts of a lane run, or with a ledger.HandlerKey of all lanes of a handler.
func (c *Conductor) busy(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load[key]
}

// count adds to what runs in a lane. The caller holds mu.
func (c *Conductor) count(lane string, n int) {
	for _, key := range keysOf(lane) {
		if c.load[key] += n; c.load[key] == 0 {
			delete(c.load, key)
		}
	}
}

// free is how many actions may be claimed now.
func (c *Conductor) free() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unflushed) >= maxUnflushed {
		return 0
	}
	return max(0, min(c.cfg.Workers-len(c.running), maxRows))
}

// served puts lanes that gave all they were asked for at the end of the line: they may have more.
func (t *turner) served(wants []ledger.Want, claimed []ledger.Claimed) {
	got := map[string]int{}
	for _, c := range claimed {
		got[c.Lane]++
	}
	for _, w := range wants {
		if got[w.Lane] >= w.N {
			t.lanes = append(t.lanes, w.Lane)
		}
	}
	if len(t.lanes) == 0 && t.more {
		t.look = true
	}
}

// startAll starts what was claimed, or gives it back when this process is about to end.
func (t *turner) startAll(ctx, work context.Context, owner ledger.Instance, claimed []ledger.Claimed) {
	if ctx.Err() == nil {
		for _, c := range claimed {
			t.gate.spend(c.Lane)
			t.start(work, owner.ID, c)
		}
		return
	}
	var back []ledger.Completion
	for _, c := range claimed {
		back = append(back, ledger.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: action.Outcome{Kind: action.GivenBack}})
	}
	t.putBack(owner, back)
}

// recover starts what a turn claimed whose answer was lost.
func (t *turner) recover(ctx, work context.Context) error {
	owner := t.current()
	claimed, err := t.ledger.Claims(work, owner.ID)
	if err != nil {
		return err
	}
	t.lost = false
	t.startAll(ctx, work, owner, slices.DeleteFunc(claimed, t.known))
	return nil
}

// known reports whether a claim is running, or has ended and is not recorded.
func (c *Conductor) known(claimed ledger.Claimed) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, runs := c.running[claim{claimed.ID, claimed.Thread.Attempt}]
	same := func(u ledger.Completion) bool { return u.ID == claimed.ID && u.Attempt == claimed.Thread.Attempt }
	return runs || slices.ContainsFunc(c.unflushed, same) || slices.ContainsFunc(c.waiting.completions, same)
}
