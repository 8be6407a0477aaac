package conductor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Limits bounds the attempts of a handler at a time. The zero value limits nothing.
type Limits struct {
	action.Limits     // over all instances
	Workers       int // attempts at a time in this instance; 0: as many as it has workers

	// Refusing reports whether an attempt's error means that the target refuses work. The outcome
	// is then throttle instead of retry. nil: no error does.
	Refusing func(text string) bool
}

// askLimits reports results to the ledger and requests tokens and slots. A request that fails is repeated; until then
// limited lanes wait, and lanes without limits do not.
func (t *claimLoop) askLimits(work context.Context, asks []action.Ask) {
	owner := t.current()
	t.background(func() func(time.Time) {
		granted, err := t.ledger.Grant(work, owner, asks)
		return func(now time.Time) {
			// A grant to an identity that was declared dead since is void.
			if err != nil || owner.ID != t.current().ID {
				t.state.NotAsked(now)
				if err != nil {
					t.log.Warn("ask for limits failed", obs.Error(err))
				}
				return
			}
			for _, news := range t.state.Granted(asks, granted, now) {
				t.logLimits(news.Key, news.Was, news.Is)
			}
			t.publish()
		}
	})
}

// logLimits logs how the breaker of a lane changed, if people should know.
func (c *Conductor) logLimits(lane string, was, is action.Bucket) {
	about := []any{obs.KeyLane, lane, obs.KeyHandler, action.HandlerOf(lane), obs.KeyRate, is.Rate(), obs.KeyReason, is.Reason}
	switch {
	case is.Disabled() && !was.Disabled():
		c.log.Warn("lane disabled", about...)
	case is.PausedBy != "" && (was.PausedBy == "" || !was.PauseUntil.Equal(is.PauseUntil)):
		about = append(about, obs.KeyBy, is.PausedBy)
		if !is.PauseUntil.IsZero() { // zero: the pause lasts until a person resumes the lane
			about = append(about, obs.KeyUntil, is.PauseUntil)
		}
		c.log.Warn("lane paused", about...)
	case is.Slowed > 0 && (was.Slowed == 0 || is.Slowed < was.Slowed):
		c.log.Warn("lane slowed", about...)
	case is.Slowed != was.Slowed:
		c.log.Info("lane sped up", about...)
	case was.Troubled() && !is.Troubled():
		c.log.Info("lane resumed", about...)
	}
}

// lanesNow returns the lanes that are limited, slowed, paused or disabled, for the metrics. The
// disabled ones come first, then those that have been slowed for longest.
func (c *Conductor) lanesNow(now time.Time) []obs.Lane {
	standings := c.standings.Load()
	if standings == nil {
		return nil
	}
	var lanes []obs.Lane
	for _, s := range *standings {
		there := now.Add(s.Skew) // by the ledger's clock, which stamped the bucket
		b := s.Bucket.At(there)
		lane := obs.Lane{Handler: action.HandlerOf(s.Key), Lane: s.Key, Disabled: b.Disabled()}
		if b.Metered() && !b.Disabled() && !b.Paused(there) {
			lane.Rate = b.Rate()
		}
		if b.Slowed > 0 {
			lane.Slowed = there.Sub(b.SlowedAt)
		}
		lanes = append(lanes, lane)
	}
	slices.SortFunc(lanes, func(a, b obs.Lane) int {
		return cmp.Or(-compare(a.Disabled, b.Disabled), -cmp.Compare(a.Slowed, b.Slowed), cmp.Compare(a.Lane, b.Lane))
	})
	return lanes
}

// compare orders false before true.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
