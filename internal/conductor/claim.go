package conductor

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// wants says what the next turn claims: free workers dealt over the lanes with
// ready work, each lane in its turn, so that a long lane costs the others nothing.
func (t *turner) wants(work context.Context, claiming bool) ([]ledger.Want, error) {
	free := t.free()
	if !claiming || free == 0 {
		return nil, nil
	}
	if t.look {
		lanes, err := t.ledger.Lanes(work, t.handlers, t.last, lanesAtOnce)
		if err != nil {
			return nil, err
		}
		t.lanes, t.look, t.more = lanes, false, len(lanes) == lanesAtOnce
	}
	n := min(free, len(t.lanes))
	wants := make([]ledger.Want, n)
	for i, lane := range t.lanes[:n] {
		handler, _, _ := strings.Cut(lane, "/")
		wants[i] = ledger.Want{Lane: lane, N: free / n, HandOff: t.handsOff(handler)}
		if i < free%n {
			wants[i].N++
		}
		t.last = lane
	}
	t.lanes = t.lanes[n:]
	return wants, nil
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
	return runs || slices.ContainsFunc(c.unflushed, func(u ledger.Completion) bool {
		return u.ID == claimed.ID && u.Attempt == claimed.Thread.Attempt
	})
}
