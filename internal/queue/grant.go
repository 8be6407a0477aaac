package queue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Grant reports results, gives unused tokens back, and takes tokens and slots of many lanes in one transaction. Besides what
// was asked for it returns every other limiter that is slowed, paused or disabled, with nothing granted; on a lane that is
// well and has no limits nothing is kept. fault.StaleClaim: the owner was declared dead.
//
// Each key is asked for once. Results that are reported again after a lost answer may count twice, which at worst slows a
// lane that is refused a little sooner. Tokens that were granted without an answer are lost, so the limit is never exceeded.
func (q *Queue) Grant(ctx context.Context, owner Instance, asks []action.Ask) (grants []action.Grant, err error) {
	if len(asks) == 0 {
		err = q.read(ctx, "read limits", func(tx rows) error {
			grants, err = troubled(tx, nil)
			return err
		})
		return grants, err
	}
	asks = slices.SortedFunc(slices.Values(asks), func(a, b action.Ask) int { return cmp.Compare(a.Key, b.Key) })
	err = q.write(ctx, "ask for limits", func(t *txn) error {
		grants, err = t.grant(owner, asks)
		return err
	})
	return grants, err
}

// grant answers asks, which are sorted by their keys. The limiters are locked in that order, by every instance, and answered in
// another: a handler before its lanes, because an instance gets a slot of a lane only while it has one of the handler.
func (t *txn) grant(owner Instance, asks []action.Ask) ([]action.Grant, error) {
	keys := make([]string, len(asks))
	for i, a := range asks {
		keys[i] = a.Key
	}
	rows, err := t.LockLimiters(keys)
	if err != nil {
		return nil, err
	}
	pools, err := t.pools(owner, keys)
	if err != nil {
		return nil, err
	}
	var (
		grants []action.Grant
		holds  []SlotLeaseRow
		gone   []string
		full   = map[string]bool{}
	)
	for _, i := range handlersFirst(asks) {
		a := asks[i].Within(full)
		a.Results.Pause = t.Corrected(a.Results.Pause)
		g, hold := answer(a, rows[i].Bucket, pools[a.Key], t.Now())
		rows[i].Bucket = g.Bucket
		grants = append(grants, g)
		full[a.Key] = g.Slots != action.Unlimited && g.Slots <= a.Busy
		if hold != pools[a.Key].mine {
			holds = append(holds, SlotLeaseRow{Key: a.Key, Instance: owner.ID, SlotLease: hold})
		}
		if g.Tokens == action.Unlimited && g.Slots == action.Unlimited && g.Bucket.Forgettable(t.Now()) {
			gone = append(gone, a.Key)
		}
	}
	if err := t.PutLimiters(rows); err != nil {
		return nil, err
	}
	if err := t.PutSlotLeases(holds); err != nil {
		return nil, err
	}
	if err := t.DeleteLimiters(gone); err != nil {
		return nil, err
	}
	others, err := troubled(t.rows, keys)
	return append(grants, others...), err
}

// handlersFirst returns the indices of asks, those of whole handlers before those of their lanes, and otherwise in their order.
func handlersFirst(asks []action.Ask) []int {
	order := make([]int, 0, len(asks))
	for _, whole := range []bool{true, false} {
		for i, a := range asks {
			if (a.Key == action.HandlerKey(action.HandlerOf(a.Key))) == whole {
				order = append(order, i)
			}
		}
	}
	return order
}

// pool is a key's slots as far as they are held. Its Capacity is set once the bucket is known.
type pool struct {
	action.SlotPool
	mine SlotLease // what the asking instance has stored
}

// pools counts the slots of living instances. An instance that is not among them gets nothing, and fault.StaleClaim: slots
// belong to the row of their instance, and end with it. The limiters are locked, so no other instance takes slots of theirs
// before the transaction ends.
func (t *txn) pools(owner Instance, keys []string) (map[string]pool, error) {
	live, err := t.Instances()
	if err != nil {
		return nil, err
	}
	alive := func(i InstanceRow) bool { return i.ID == owner.ID && i.LeaseEnd.After(t.Now()) }
	if !t.core.db.Embedded() && !slices.ContainsFunc(live, alive) {
		return nil, fault.New(fault.StaleClaim, "%s was declared dead", owner.Name)
	}
	holds, err := t.SlotLeases(keys, owner.ID)
	pools := make(map[string]pool, len(keys))
	for _, key := range keys {
		var p pool
		for _, i := range live {
			if slices.Contains(i.Handlers, action.HandlerOf(key)) {
				p.Live++
			}
		}
		pools[key] = p
	}
	for _, h := range holds {
		p := pools[h.Key]
		if h.Instance == owner.ID {
			p.mine, p.Had = h.SlotLease, h.Slots
		} else {
			p.Others, p.Wanted = p.Others+h.Slots, p.Wanted || h.Wanted > 0
		}
		pools[h.Key] = p
	}
	return pools, err
}

// answer returns what one ask gets, and the slots that its owner holds from now on. The order matters: the configuration
// first, since it bounds what may be given back; results before tokens are taken, so that a lane that was just refused gives
// away fewer.
func answer(a action.Ask, b action.Bucket, p pool, now time.Time) (action.Grant, SlotLease) {
	b = b.With(a.Limit, now).Return(a.Unused)
	b = b.Observe(a.Results, now)
	g := action.Grant{Key: a.Key, Tokens: action.Unlimited, Slots: action.Unlimited}
	var hold SlotLease
	if p.Capacity = b.Concurrency(); p.Capacity > 0 {
		g.Slots, hold.Slots = p.Share(a.SlotAsk)
		if a.Want > 0 && g.Slots < a.Held+a.Want {
			hold.Wanted = a.Want
		}
		if g.Slots == 0 || g.Slots < a.Busy {
			a.Tokens = 0 // it could not use them; a slot that is busy now is used again
		}
	}
	if b.Metered() {
		b, g.Tokens = b.Take(a.Tokens, now)
	}
	g.Bucket = b
	return g, hold
}

// troubled returns a grant of nothing for each limiter in trouble but those of the keys. An instance that has no work in such
// a lane yet learns by it that it need not claim any.
func troubled(tx rows, but []string) (grants []action.Grant, err error) {
	rows, err := tx.Limiters(true)
	for _, r := range rows {
		b := r.At(tx.Now())
		if b.Troubled() && !slices.Contains(but, r.Key) {
			grants = append(grants, action.Grant{Key: r.Key, Bucket: b})
		}
	}
	return grants, err
}
