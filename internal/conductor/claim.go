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

// wants says what the next turn claims: free workers dealt over the lanes with ready work, each lane in its turn, so
// that a long lane costs the others nothing, and what may be claimed ahead of a lane. Lanes that may start nothing now
// are held until they may; for those that only a free worker can serve, the next ones are kept free.
func (t *turner) wants(work context.Context) ([]ledger.Want, error) {
	looked := t.look
	if err := t.find(work); err != nil {
		return nil, err
	}
	postponed := t.ask(work)
	d := t.deal()
	for n := min(len(t.held), lanesAtOnce); n > 0 && d.more(); n-- {
		lane := t.held[0]
		t.held = t.held[1:]
		if !d.offer(lane) {
			t.held = append(t.held, lane)
		}
	}
	var starved []string
	hungry := 0 // of them, those of which nothing waits for a worker
	for len(t.lanes) > 0 && d.more() {
		t.last = t.lanes[0]
		t.lanes = t.lanes[1:]
		if d.offer(t.last) {
			continue
		}
		starved = append(starved, t.last)
		if !d.waits(t.last) {
			hungry++
		}
	}
	t.lanes = append(starved, t.lanes...)
	t.keepFree(hungry + t.shares)
	if len(d.wants) == 0 && t.more && len(t.lanes) == 0 {
		t.look = true // what was found is held; there is more behind it
	}
	t.reopen = t.gate.reopens(t.held[:min(len(t.held), lanesAtOnce)], time.Now())
	if looked && !postponed.IsZero() && (t.reopen.IsZero() || postponed.Before(t.reopen)) {
		t.reopen = postponed // something changed: perhaps a lane may go on that was paused or disabled
	}
	return d.wants, nil
}

// dealing is what a turn can claim, and to which lanes it went.
type dealing struct {
	*turner
	now   time.Time
	free  int // workers
	idle  int // of them, those that no waiting attempt will take
	left  int // lanes that have a share in them
	rows  int // that the turn still takes
	wants []ledger.Want
}

func (t *turner) deal() *dealing {
	free, idle := t.workers()
	return &dealing{turner: t, now: time.Now(), free: free, idle: idle, left: min(free, len(t.held)+len(t.lanes)), rows: t.rows()}
}

func (d *dealing) more() bool { return d.rows > 0 }

// offer gives a lane its share. It reports false when there is none left.
func (d *dealing) offer(lane string) bool {
	share := 0
	if d.free > 0 {
		share = max(1, d.free/max(1, d.left))
	}
	if d.waits(lane) { // workers are kept free for others
		share = min(share, d.idle)
	}
	n := min(share+d.room(lane, d.now), d.rows)
	if n == 0 {
		return false
	}
	got := d.gate.deal(lane, n, d.busy)
	if got == 0 {
		d.turner.held = append(d.turner.held, lane)
		return true
	}
	d.wants = append(d.wants, ledger.Want{Lane: lane, N: got, HandOff: d.handsOff(handlerOf(lane))})
	d.asked[lane] += got
	share = min(got, share)
	d.shares += share
	d.free, d.idle, d.left, d.rows = d.free-share, max(0, d.idle-share), d.left-1, d.rows-got
	return true
}

// waits reports whether attempts of a lane wait for a worker, or will when a turn in flight is answered.
func (t *turner) waits(lane string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.buffer.lanes[lane])+t.asked[lane] > 0
}

// room is how many more of a lane may be claimed ahead.
func (t *turner) room(lane string, now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.ahead(lane, now)-len(t.buffer.lanes[lane])-t.asked[lane])
}

// keepFree lets so many workers wait for what is being claimed for them, or for lanes of which nothing may wait for a worker.
func (t *turner) keepFree(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spare = max(0, min(n, t.cfg.Workers))
}

func (t *turner) kept() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spare
}

// find looks for lanes with ready work where there may be new ones.
func (t *turner) find(work context.Context) error {
	if !t.look || t.free() == 0 && !t.buffered() {
		return nil
	}
	names := t.table.Load().names
	t.held = slices.DeleteFunc(t.held, func(lane string) bool {
		_, served := slices.BinarySearch(names, handlerOf(lane))
		return !served
	})
	known := make(map[string]bool, len(t.held))
	for _, lane := range t.held {
		known[lane] = true
	}
	var fresh []string
	next := t.last
	for round := t.last != ""; len(fresh) == 0; { // page after page, and once from the start
		lanes, end, err := t.ledger.Lanes(work, names, next, lanesAtOnce)
		if err != nil {
			return fmt.Errorf("look for ready lanes: %w", err)
		}
		fresh = slices.DeleteFunc(lanes, func(lane string) bool { return known[lane] })
		if next = end; next == "" {
			if !round {
				break
			}
			round = false
		}
	}
	t.lanes, t.look, t.more = fresh, false, next != ""
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

// free is how many workers may be claimed for now: those that nothing waits for, or that are kept free.
func (t *turner) free() int {
	free, _ := t.workers()
	return free
}

// workers are those that may be claimed for now, and of them those that nothing waits for.
func (t *turner) workers() (free, idle int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	unused := t.cfg.Workers - t.started
	idle = unused - t.buffer.n - t.shares
	return max(0, idle, min(unused, t.spare)-t.shares), max(0, idle)
}

// buffered reports whether something waits for a worker, so that workers are never free unless they are kept so.
func (t *turner) buffered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buffer.n > 0
}

// rows is how many actions one turn may claim.
func (t *turner) rows() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unflushed) >= maxUnflushed || !t.ledger.Guarded() { // nothing would begin
		return 0
	}
	return maxRows
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

// startAll starts what was claimed, or keeps it for the next free worker, or gives it back when this process is about to end.
func (t *turner) startAll(ctx, work context.Context, owner ledger.Instance, claimed []ledger.Claimed) {
	for _, c := range claimed {
		if t.hold(owner.ID, c) {
			t.gate.spend(c.Lane)
		}
	}
	if ctx.Err() == nil {
		t.startHeld(work)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		t.giveBack(all)
	}
	if t.buffer.n > 0 { // what may be done once is not to be lost before it has begun
		t.startOnce(work)
		t.giveBack(func(a *attempt) bool {
			if a.Delivery != action.AtMostOnce {
				return false
			}
			t.paced(a, 0, time.Now())
			return true
		})
	}
}

// startOnce gives workers to attempts that may not wait for one, also those that are kept free: they were claimed for
// one, and given back they would be claimed again at once. The caller holds mu.
func (t *turner) startOnce(work context.Context) {
	if len(t.unflushed) >= maxUnflushed || !t.ledger.Guarded() {
		return
	}
	free := t.cfg.Workers - t.started
	for _, a := range t.buffer.remove(func(a *attempt) bool {
		mine := a.Delivery == action.AtMostOnce && free > 0
		if mine {
			free--
		}
		return mine
	}) {
		t.occupy(work, a)
		t.work(work, a)
	}
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

// known reports whether a claim is held, or has ended and is not recorded.
func (c *Conductor) known(claimed ledger.Claimed) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, held := c.claims[claim{claimed.ID, claimed.Thread.Attempt}]
	same := func(u ledger.Completion) bool { return u.ID == claimed.ID && u.Attempt == claimed.Thread.Attempt }
	return held || slices.ContainsFunc(c.unflushed, same) || slices.ContainsFunc(c.waiting.completions, same)
}
