package queue

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Limiter is one stored limiter with the slots that instances hold.
type Limiter struct {
	Key   string `json:"lane"`
	State string `json:"state"` // open | slowed | half-open | paused | disabled
	action.Bucket
	// Rate is the number of attempts that may start now in a second; 0: any number, unless State reports that none
	// may.
	Rate float64 `json:"rate,omitempty"`
	Held int     `json:"held"` // slots that instances hold
}

// Limits lists, by key, the limiters with a configured limit and those whose target refuses work or has refused some of late.
// Lanes that are well and have no limits may have a row until it is forgotten; they are left out.
func (q *Queue) Limits(ctx context.Context) (limits []Limiter, err error) {
	err = q.read(ctx, "read limits", func(tx rows) error {
		limits, err = limitsOf(tx, nil)
		return err
	})
	return limits, err
}

// BlockingLimiter returns, of what Limits lists, the limiter that slows or blocks a lane: its own, or its handler's. It is
// nil if neither does. A disabled limiter is preferred, since it does not recover without a person.
func BlockingLimiter(limits []Limiter, lane string) (trouble *Limiter) {
	whole := action.HandlerKey(action.HandlerOf(lane))
	for i, limit := range limits {
		if (limit.Key == lane || limit.Key == whole) && limit.Troubled() && (trouble == nil || limit.Disabled()) {
			trouble = &limits[i]
		}
	}
	return trouble
}

// limitsOf reads limiters as they are now; keys nil: all that Limits lists. Rows are as of their last use, so each is brought
// to the transaction's time first: a pause that has ended by then does not show.
func limitsOf(tx rows, keys []string) ([]Limiter, error) {
	rows, err := tx.Limiters(false)
	if err != nil {
		return nil, err
	}
	holds, err := tx.SlotLeases(nil, action.ID{})
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

// LimitCommand is a person's command to a lane's limiter. A pause stops starts and lets attempts end. Resume ends a
// pause, the target's as well as a person's. Enable lets a disabled lane run again. Reset forgets what the limiter
// learned of its target, the target's own pause included; a person's pause and a disabled lane stay.
type LimitCommand struct {
	Kind   string        // one of limitKinds
	By     string        // pause: the person, for the status; "": "a person"
	Reason string        // pause
	For    time.Duration // pause: afterwards the target is probed; 0: until a person resumes
}

// limitKinds returns the kinds of commands.
func limitKinds() []string { return []string{"pause", "resume", "enable", "reset"} }

// Limit carries out a command on a lane, or with action.HandlerKey on all lanes of a handler, and wakes the conductors.
// Any lane may be paused; the other commands want one that has a limiter: fault.NotFound. A command, lane or time that is not
// valid is fault.Invalid. It returns the limiter as the command left it.
//
// Conductors that have tokens of the lane may still use them until they ask again, about a second later. Claims respect a
// pause at once, since the claiming statement looks at the limiter.
func (q *Queue) Limit(ctx context.Context, lane string, c LimitCommand) (limit Limiter, err error) {
	err = q.write(ctx, c.Kind+" lane "+lane, func(t *txn) error {
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
		t.Touch(store.TopicAction)
		if lane == action.HandlerKey(action.HandlerOf(lane)) {
			t.Touch(store.TopicReady)
		} else {
			t.TouchReady(lane)
		}
		found, err := limitsOf(t.rows, []string{lane})
		if err == nil {
			limit = found[0]
		}
		return err
	})
	return limit, err
}

// limitable refuses an unknown command, and to make a limiter where the command needs one that is there: LockLimiters makes
// what is missing, so a misspelt lane would otherwise get a row.
func (t *txn) limitable(lane string, c LimitCommand) error {
	if !slices.Contains(limitKinds(), c.Kind) {
		return fault.New(fault.Invalid, "%q is not a command: want %s", c.Kind, strings.Join(limitKinds(), ", "))
	}
	if c.For < 0 || c.For > farthest {
		return fault.New(fault.Invalid, "a pause of %s: want at most a year", c.For)
	}
	if c.Kind == "pause" {
		if action.HandlerOf(lane) == "" {
			return fault.New(fault.Invalid, "%q is not a valid lane: want a handler, or handler/target", lane)
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

// commanded returns a bucket after a command of limitKinds.
func commanded(b action.Bucket, c LimitCommand, now time.Time) action.Bucket {
	switch c.Kind {
	case "pause":
		var until time.Time
		if c.For > 0 {
			until = now.Add(c.For)
		}
		return b.Pause(cmp.Or(c.By, "a person"), c.Reason, until, now)
	case "resume":
		return b.Resume(now)
	case "enable":
		return b.Enable()
	}
	return b.Reset(now)
}

// forgetLimits drops limiters that are equal to new ones. They are looked at again under their locks, because an
// instance may have reported results since. A limiter that is used again later is made again.
func (q *Queue) forgetLimits(ctx context.Context) error {
	return q.write(ctx, "forget limits", func(t *txn) error {
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

// forgetAfter is the age at which an unused limiter is forgotten. It leaves limiters alone that are used each second,
// so that these are not deleted and made again.
const forgetAfter = time.Hour
