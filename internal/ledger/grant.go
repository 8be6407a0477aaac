package ledger

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// HandlerKey is the limiter of all lanes of a handler together; their own are named as they are.
func HandlerKey(handler string) string { return handler + "/*" }

// Unlimited stands for any number of tokens or slots.
const Unlimited = -1

// Ask is what one instance reports of a limiter and wants of it.
type Ask struct {
	Key          string // a lane, or HandlerKey
	action.Limit        // as configured
	Results      action.Results
	Unused       int // tokens to give back
	Tokens       int // to take at most
	action.SlotAsk
}

// Grant is what an instance may do in a lane until it asks again.
type Grant struct {
	Key    string
	Tokens int // attempts that it may start; Unlimited: the lane has no meter
	Slots  int // attempts that it may have in progress; Unlimited: any number
	Bucket action.Bucket
}

// Limiter is one stored limiter with the slots that instances hold.
type Limiter struct {
	Key   string `json:"lane"`
	State string `json:"state"` // open | slowed | half-open | paused | disabled
	action.Bucket
	Rate float64 `json:"rate,omitempty"` // attempts a second that it may start now; 0: any number, unless State says that it may start none
	Held int     `json:"held"`           // slots that instances hold
}

// Grant reports results, gives unused tokens back, and takes tokens and slots of
// many lanes in one transaction. Besides what was asked for it returns every
// other limiter that is slowed, paused or disabled, with nothing granted; on a
// lane that is well and has no limits nothing is kept. fault.StaleClaim: the owner was declared dead.
func (l *Ledger) Grant(ctx context.Context, owner Instance, asks []Ask) (grants []Grant, err error) {
	if len(asks) == 0 {
		err = l.read(ctx, "read limits", func(tx Tx) error {
			grants, err = troubled(tx, nil)
			return err
		})
		return grants, err
	}
	slices.SortFunc(asks, func(a, b Ask) int { return cmp.Compare(a.Key, b.Key) })
	err = l.write(ctx, "ask for limits", func(t *txn) error {
		grants, err = t.grant(owner, asks)
		return err
	})
	return grants, err
}

// grant answers asks, which are sorted by their keys.
func (t *txn) grant(owner Instance, asks []Ask) ([]Grant, error) {
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
		grants []Grant
		holds  []HoldRow
		gone   []string
	)
	for i, a := range asks {
		a.Results.Pause = t.corrected(a.Results.Pause)
		g, hold := answer(a, rows[i].Bucket, pools[a.Key], t.Now())
		rows[i].Bucket = g.Bucket
		grants = append(grants, g)
		if hold != pools[a.Key].mine {
			holds = append(holds, HoldRow{Key: a.Key, Instance: owner.ID, Hold: hold})
		}
		if g.Tokens == Unlimited && g.Slots == Unlimited && g.Bucket.Forgettable(t.Now()) {
			gone = append(gone, a.Key)
		}
	}
	if err := t.PutLimiters(rows); err != nil {
		return nil, err
	}
	if err := t.PutHolds(holds); err != nil {
		return nil, err
	}
	if err := t.DeleteLimiters(gone); err != nil {
		return nil, err
	}
	others, err := troubled(t, keys)
	return append(grants, others...), err
}

// pool is a key's slots as far as they are held.
type pool struct {
	action.SlotPool
	mine Hold
}

// pools counts the slots of living instances. An instance that is not among them gets nothing.
func (t *txn) pools(owner Instance, keys []string) (map[string]pool, error) {
	live, err := t.Instances()
	if err != nil {
		return nil, err
	}
	alive := func(i InstanceRow) bool { return i.ID == owner.ID && i.LeaseEnd.After(t.Now()) }
	if !t.core.driver.Embedded() && !slices.ContainsFunc(live, alive) {
		return nil, fault.New(fault.StaleClaim, "%s was declared dead", owner.Name)
	}
	holds, err := t.Holds(keys, owner.ID)
	pools := make(map[string]pool, len(keys))
	for _, key := range keys {
		handler, _, _ := strings.Cut(key, "/")
		var p pool
		for _, i := range live {
			if slices.Contains(i.Handlers, handler) {
				p.Live++
			}
		}
		pools[key] = p
	}
	for _, h := range holds {
		p := pools[h.Key]
		if h.Instance == owner.ID {
			p.mine, p.Had = h.Hold, h.Slots
		} else {
			p.Others, p.Wanted = p.Others+h.Slots, p.Wanted || h.Wanted > 0
		}
		pools[h.Key] = p
	}
	return pools, err
}

// answer is what one ask gets, and the slots that its owner holds from now on.
func answer(a Ask, b action.Bucket, p pool, now time.Time) (Grant, Hold) {
	b = b.With(a.Limit, now).Return(a.Unused)
	b = b.Observe(a.Results, now)
	g := Grant{Key: a.Key, Tokens: Unlimited, Slots: Unlimited}
	var hold Hold
	if p.Capacity = b.Concurrency(); p.Capacity > 0 {
		g.Slots, hold.Slots = p.Share(a.SlotAsk)
		if a.Want > 0 && g.Slots < a.Held+a.Want {
			hold.Wanted = a.Want
		}
		if g.Slots <= a.Busy {
			a.Tokens = 0 // it could not use them
		}
	}
	if b.Metered() {
		b, g.Tokens = b.Take(a.Tokens, now)
	}
	g.Bucket = b
	return g, hold
}

// troubled are the limiters in trouble but those of the keys.
func troubled(tx Tx, but []string) (grants []Grant, err error) {
	rows, err := tx.Limiters(true)
	for _, r := range rows {
		b := r.At(tx.Now())
		if b.Troubled() && !slices.Contains(but, r.Key) {
			grants = append(grants, Grant{Key: r.Key, Bucket: b})
		}
	}
	return grants, err
}

// Limits lists the limiters that have something to say, by key: those with a configured limit, and those whose target refuses work.
func (l *Ledger) Limits(ctx context.Context) (limits []Limiter, err error) {
	err = l.read(ctx, "read limits", func(tx Tx) error {
		limits, err = limitsOf(tx, nil)
		return err
	})
	return limits, err
}

// Trouble is what keeps a lane from running freely: its own limiter, or its handler's, that is slowed, paused or disabled; nil: nothing does.
func (l *Ledger) Trouble(ctx context.Context, lane string) (trouble *Limiter, err error) {
	handler, _, _ := strings.Cut(lane, "/")
	err = l.read(ctx, "read the limits of "+lane, func(tx Tx) error {
		limits, err := limitsOf(tx, []string{HandlerKey(handler), lane})
		for _, limit := range limits {
			if limit.Troubled() && (trouble == nil || limit.Disabled()) {
				trouble = &limit
			}
		}
		return err
	})
	return trouble, err
}

// limitsOf reads limiters as they are now; keys nil: all.
func limitsOf(tx Tx, keys []string) ([]Limiter, error) {
	rows, err := tx.Limiters(false)
	if err != nil {
		return nil, err
	}
	holds, err := tx.Holds(nil, action.ID{})
	held := map[string]int{}
	for _, h := range holds {
		held[h.Key] += h.Slots
	}
	var limits []Limiter
	for _, r := range rows {
		b := r.At(tx.Now())
		well := b.Slots == 0 && b.Configured == 0 && b.Bad == 0 && !b.Troubled()
		if keys != nil && !slices.Contains(keys, r.Key) || keys == nil && well {
			continue
		}
		l := Limiter{Key: r.Key, State: b.State(tx.Now()), Bucket: b, Held: held[r.Key]}
		if b.Metered() && !b.Disabled() && !b.Paused(tx.Now()) {
			l.Rate = b.Rate()
		}
		limits = append(limits, l)
	}
	return limits, err
}

// LimitCommand is what a person may do with a lane's limiter.
type LimitCommand struct {
	Kind   string // pause | resume | enable | reset
	By     string
	Reason string        // pause
	For    time.Duration // pause: afterwards the target is probed; 0: until somebody resumes
}

// LimitKinds lists the commands.
func LimitKinds() []string { return []string{"pause", "resume", "enable", "reset"} }

// Limit carries out a command on a lane, or with HandlerKey on all lanes of a handler, and wakes the conductors.
// Any lane may be paused; the other commands want one that has a limiter: fault.NotFound.
func (l *Ledger) Limit(ctx context.Context, lane string, c LimitCommand) (limit Limiter, err error) {
	err = l.write(ctx, c.Kind+" lane "+lane, func(t *txn) error {
		if err := t.limitable(lane, c); err != nil {
			return err
		}
		rows, err := t.LockLimiters([]string{lane})
		if err != nil {
			return err
		}
		b := rows[0].Bucket
		b = commanded(b.With(b.Limit(), t.Now()).At(t.Now()), c, t.Now())
		if err := t.PutLimiters([]LimiterRow{{Key: lane, Bucket: b}}); err != nil {
			return err
		}
		t.touch(TopicAction)
		t.touch(TopicReady)
		found, err := limitsOf(t, []string{lane})
		if err == nil {
			limit = found[0]
		}
		return err
	})
	return limit, err
}

// limitable refuses an unknown command, and to make a limiter where the command needs one that is there.
func (t *txn) limitable(lane string, c LimitCommand) error {
	if !slices.Contains(LimitKinds(), c.Kind) {
		return fault.New(fault.Invalid, "%q is not a command: want %s", c.Kind, strings.Join(LimitKinds(), ", "))
	}
	if c.For < 0 || c.For > farthest {
		return fault.New(fault.Invalid, "a pause of %s: want at most a year", c.For)
	}
	if c.Kind == "pause" {
		if handler, _, _ := strings.Cut(lane, "/"); handler == "" {
			return fault.New(fault.Invalid, "%q is no lane: want a handler, or handler/target", lane)
		}
		return nil
	}
	rows, err := t.Limiters(false)
	if err != nil {
		return err
	}
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = r.Key
	}
	if slices.Contains(keys, lane) {
		return nil
	}
	missing := fault.New(fault.NotFound, "lane %q is not limited, slowed, paused or disabled", lane)
	if near := fault.Nearest(lane, keys); near != "" {
		return missing.WithHint("did you mean %q?", near)
	}
	return missing.WithHint("waybill action limits")
}

// commanded is a bucket after a command of LimitKinds.
func commanded(b action.Bucket, c LimitCommand, now time.Time) action.Bucket {
	switch c.Kind {
	case "pause":
		var until time.Time
		if c.For > 0 {
			until = now.Add(c.For)
		}
		return b.Pause(cmp.Or(c.By, "somebody"), c.Reason, until, now)
	case "resume":
		return b.Resume(now)
	case "enable":
		return b.Enable()
	}
	return b.Reset(now)
}

// forgetLimits drops limiters that say no more than new ones would.
func (l *Ledger) forgetLimits(ctx context.Context) error {
	return l.write(ctx, "forget limits", func(t *txn) error {
		rows, err := t.Limiters(false)
		if err != nil {
			return err
		}
		var keys []string
		for _, r := range rows {
			if t.Now().Sub(r.RefilledAt) > forgetAfter && r.Forgettable(t.Now()) {
				keys = append(keys, r.Key)
			}
		}
		if rows, err = t.LockLimiters(keys); err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r LimiterRow) bool {
			return t.Now().Sub(r.RefilledAt) <= forgetAfter || !r.Forgettable(t.Now())
		})
		keys = nil
		for _, r := range rows {
			keys = append(keys, r.Key)
		}
		return t.DeleteLimiters(keys)
	})
}

// forgetAfter is how long nobody has asked for a limiter that is forgotten.
const forgetAfter = time.Hour
