package conductor_test

import (
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// limiters are those of the fake: the arithmetic is the real one, the rows are in memory.
type limiters struct {
	rows  map[string]action.Bucket
	holds map[string]map[action.ID]queue.SlotLease
	asks  int // statements
}

// change does to a lane the same as a person.
func (f *fake) change(lane string, to func(action.Bucket) action.Bucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limits.rows == nil {
		f.limits = limiters{map[string]action.Bucket{}, map[string]map[action.ID]queue.SlotLease{}, f.limits.asks}
	}
	f.limits.rows[lane] = to(f.limits.rows[lane].With(action.Limit{}, time.Now()).At(time.Now()))
	f.poke(store.TopicReady)
}

// bucket returns a lane's bucket as of now.
func (f *fake) bucket(lane string) action.Bucket {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.limits.rows[lane].At(time.Now())
}

// statements returns how often the limits were requested.
func (f *fake) statements() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.limits.asks
}

func (l *limiters) grant(owner action.ID, asks []action.Ask, live int) (grants []action.Grant) {
	if l.rows == nil {
		*l = limiters{map[string]action.Bucket{}, map[string]map[action.ID]queue.SlotLease{}, l.asks}
	}
	l.asks++
	now, asked, full := time.Now(), map[string]bool{}, map[string]bool{}
	asks = slices.SortedStableFunc(slices.Values(asks),
		func(a, b action.Ask) int { return strings.Count(b.Key, "*") - strings.Count(a.Key, "*") })
	for _, a := range asks {
		asked[a.Key] = true
		a = a.Within(full)
		b := l.rows[a.Key].With(a.Limit, now).Return(a.Unused).Observe(a.Results, now)
		g := action.Grant{Key: a.Key, Tokens: action.Unlimited, Slots: action.Unlimited}
		if b.Concurrency() > 0 {
			g.Slots = l.share(owner, a, b.Concurrency(), live)
		}
		full[a.Key] = g.Slots != action.Unlimited && g.Slots <= a.Busy
		if g.Slots == 0 || g.Slots != action.Unlimited && g.Slots < a.Busy {
			a.Tokens = 0
		}
		if b.Metered() {
			b, g.Tokens = b.Take(a.Tokens, now)
		}
		l.rows[a.Key], g.Bucket = b, b
		grants = append(grants, g)
	}
	for key, b := range l.rows {
		if b = b.At(now); b.Troubled() && !asked[key] {
			grants = append(grants, action.Grant{Key: key, Bucket: b})
		}
	}
	return grants
}

func (l *limiters) share(owner action.ID, a action.Ask, capacity, live int) int {
	pool := action.SlotPool{Capacity: capacity, Live: live}
	holds := l.holds[a.Key]
	if holds == nil {
		holds = map[action.ID]queue.SlotLease{}
		l.holds[a.Key] = holds
	}
	for id, h := range holds {
		if id == owner {
			pool.Had = h.Slots
		} else {
			pool.Others, pool.Wanted = pool.Others+h.Slots, pool.Wanted || h.Wanted > 0
		}
	}
	slots, held := pool.Share(a.SlotAsk)
	hold := queue.SlotLease{Slots: held}
	if a.Want > 0 && slots < a.Held+a.Want {
		hold.Wanted = a.Want
	}
	holds[owner] = hold
	return slots
}

// blocked reports whether a lane, or all of its handler, may start nothing now because of its target or a person.
func (l *limiters) blocked(lane string) bool {
	handler, _, _ := strings.Cut(lane, "/")
	now := time.Now()
	for _, key := range []string{lane, action.HandlerKey(handler)} {
		b := l.rows[key].At(now)
		if b.Disabled() || b.Paused(now) || b.Slowed > 0 && b.Tokens < 1 {
			return true
		}
	}
	return false
}
