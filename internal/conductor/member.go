package conductor

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/member"
	"github.com/waybill-dev/waybill/internal/obs"
)

// join registers this process under a fresh id, then takes back what dead instances left.
func (c *Conductor) join(ctx context.Context) error {
	instance, err := member.Join(ctx, c.ledger, c.identity(), c.log)
	if err != nil {
		return err
	}
	c.become(instance)
	c.rescue(ctx)
	return nil
}

// identity is this process as others see it.
func (c *Conductor) identity() ledger.Instance {
	instance := c.cfg.Instance
	instance.Handlers = slices.Clone(c.table.Load().names)
	if len(instance.Roles) == 0 {
		instance.Roles = []string{"conductor"}
	}
	return instance
}

func (c *Conductor) become(instance ledger.Instance) {
	c.mu.Lock()
	c.instance = instance
	c.mu.Unlock()
	member.Poke(c.ready)
}

// current is who we are; its id is zero between being declared dead and joining anew.
func (c *Conductor) current() ledger.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instance
}

// attentive is how often others are looked after while they hold claims, so that one that dies is missed at once.
const attentive = time.Second

// beats says regularly that this instance is alive, and looks after what there is to do and after the others.
func (c *Conductor) beats(work context.Context) {
	// Who joins looks soon, since it may be the successor of one that has just died.
	beat, others := time.Now().Add(member.Jitter(c.cfg.Instance.Beat())), true
	var away member.Backoff
	for {
		wait := time.Until(beat)
		if others {
			wait = min(wait, member.Jitter(attentive))
		}
		told := wake(work, wait, c.told)
		if work.Err() != nil {
			return
		}
		renew := told || !time.Now().Before(beat)
		next := time.Now().Add(member.Jitter(c.cfg.Instance.Beat()))
		var err error
		if others, err = c.pulse(work, renew); err != nil { // to be back before others take it for dead
			beat = time.Now().Add(away.Next())
			continue
		}
		away.Reset()
		if renew {
			beat = next
			c.forget(time.Now())
		}
	}
}

// pulse is one beat, or a look between two. It reports whether others hold claims.
func (c *Conductor) pulse(work context.Context, renew bool) (others bool, err error) {
	self := c.current()
	self.Handlers, self.Draining = c.table.Load().names, c.drains.Load()
	pulse, err := c.ledger.Pulse(work, self, renew)
	switch {
	case err != nil && work.Err() != nil:
		return false, err
	case fault.Is(err, fault.StaleClaim):
		c.rejoin(work)
		return true, nil
	case err != nil:
		c.log.Warn("heartbeat failed", obs.Error(err))
		return false, err
	}
	c.leads.Store(pulse.Leads)
	if pulse.Lost {
		c.rescue(work)
	}
	return pulse.Others, nil
}

// rejoin gives up everything that was claimed: somebody else has it by now.
func (c *Conductor) rejoin(work context.Context) {
	c.mu.Lock()
	old := c.instance.ID
	c.instance = ledger.Instance{}
	dropped := len(c.unflushed) + len(c.waiting.completions) + c.withdraw(all, action.Outcome{})
	c.unflushed, c.waiting.completions = nil, nil
	c.metrics.Unflushed.Set(0)
	c.mu.Unlock()
	c.metrics.LeasesLost.Inc()
	c.gate.close()
	lost := c.cancelAll(ErrLeaseLost)
	c.log.Warn("declared dead; joining anew", obs.KeyInstance, old.String(), obs.KeyCount, lost, obs.KeyDropped, dropped)
	if err := c.join(work); err != nil && work.Err() == nil {
		c.log.Error("cannot join anew; nothing more is claimed until the next heartbeat", obs.Error(err))
	}
}

// cancelAll ends the contexts of all running attempts, and says of how many.
func (c *Conductor) cancelAll(cause error) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.claims {
		if a.cancel != nil {
			a.cancel(cause)
		}
	}
	return len(c.claims)
}

// rescue takes back the claims of dead instances.
func (c *Conductor) rescue(ctx context.Context) {
	rescued, err := c.ledger.Rescue(ctx, c.current().ID, c.began)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("rescue failed", obs.Error(err))
	}
	for _, claim := range rescued {
		c.metrics.Rescues.WithLabelValues(string(claim.Reason)).Inc()
		c.log.Warn("claim taken back", obs.KeyActionID, claim.ID.String(), obs.KeyHandler, claim.Handler, obs.KeyLane, claim.Lane,
			obs.KeyAttempt, claim.Attempt, obs.KeyReason, string(claim.Reason), obs.KeyBy, claim.Who)
	}
	c.mu.Lock()
	c.withdraw(func(a *attempt) bool {
		return slices.ContainsFunc(rescued, func(r ledger.Rescued) bool { return r.ID == a.ID && r.Attempt == a.Thread.Attempt })
	}, action.Outcome{})
	c.mu.Unlock()
	if len(rescued) > 0 {
		member.Poke(c.sooner)
		member.Poke(c.ready)
	}
}

// began reports whether the attempt of a claim runs, or has ended and is not recorded.
func (c *Conductor) began(id action.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.claims {
		if a.ID == id {
			return a.ctx != nil
		}
	}
	same := func(u ledger.Completion) bool { return u.ID == id }
	return slices.ContainsFunc(c.unflushed, same) || slices.ContainsFunc(c.waiting.completions, same)
}
