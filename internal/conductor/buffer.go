package conductor

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// buffer is attempts that are claimed and wait for a worker. Lanes take turns, so that a long one does not keep the others waiting.
type buffer struct {
	lanes map[string][]*attempt
	order []string // lanes in which attempts wait, next first
	n     int
}

// put adds an attempt; a lane that comes new is next.
func (b *buffer) put(a *attempt) {
	if b.lanes == nil {
		b.lanes = map[string][]*attempt{}
	}
	if len(b.lanes[a.Lane]) == 0 {
		b.order = slices.Insert(b.order, 0, a.Lane)
	}
	b.lanes[a.Lane] = append(b.lanes[a.Lane], a)
	b.n++
}

// take removes the next attempt; nil: none waits.
func (b *buffer) take() *attempt {
	if b.n == 0 {
		return nil
	}
	lane := b.order[0]
	waiting := b.lanes[lane]
	b.n--
	if len(waiting) == 1 {
		delete(b.lanes, lane)
		b.order = b.order[1:]
		return waiting[0]
	}
	b.lanes[lane] = waiting[1:]
	if len(b.order) > 1 {
		b.order = append(b.order[1:], lane)
	}
	return waiting[0]
}

// remove takes out every attempt that which names.
func (b *buffer) remove(which func(*attempt) bool) (removed []*attempt) {
	for _, lane := range slices.Clone(b.order) {
		var stay []*attempt
		for _, a := range b.lanes[lane] {
			if which(a) {
				removed = append(removed, a)
			} else {
				stay = append(stay, a)
			}
		}
		b.lanes[lane] = stay
		if len(stay) == 0 {
			delete(b.lanes, lane)
			b.order = slices.DeleteFunc(b.order, func(l string) bool { return l == lane })
		}
	}
	b.n -= len(removed)
	return removed
}

// withdraw ends attempts that wait for a worker, before they have begun, with an outcome; the zero one: nothing is
// recorded. It returns how many. The caller holds mu.
func (c *Conductor) withdraw(which func(*attempt) bool, o action.Outcome) int {
	removed := c.buffer.remove(which)
	for _, a := range removed {
		c.release(a)
		if o.Kind != 0 {
			c.queue(ledger.Completion{ID: a.ID, Attempt: a.Thread.Attempt, Outcome: o, HandOff: c.handsOff(a.Handler), Claimed: &a.Claimed})
		}
	}
	c.metrics.Buffered.Set(float64(c.buffer.n))
	return len(removed)
}

// giveBack returns attempts that wait for a worker to whoever can start them. The caller holds mu.
func (c *Conductor) giveBack(which func(*attempt) bool) {
	c.withdraw(which, action.Outcome{Kind: action.GivenBack})
}

// all are all attempts.
func all(*attempt) bool { return true }

// ahead is how many more of a lane may be claimed than there are free workers. The caller holds mu.
func (c *Conductor) ahead(lane string, now time.Time) int {
	p := c.paces[lane]
	if p == nil || c.handsOff(handlerOf(lane)) {
		return 0
	}
	return p.ahead(now)
}

// paced counts an ended attempt in its lane's pace. The caller holds mu.
func (c *Conductor) paced(a *attempt, took time.Duration, now time.Time) {
	p := c.paces[a.Lane]
	if p == nil {
		p = &pace{since: now}
		c.paces[a.Lane] = p
	}
	p.ended(took, a.Delivery == action.AtMostOnce, now)
}

// forget drops the paces of lanes in which nothing runs any more.
func (c *Conductor) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for lane, p := range c.paces {
		if p.idle(now) {
			delete(c.paces, lane)
		}
	}
}
