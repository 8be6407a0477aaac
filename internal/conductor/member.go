package conductor

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// join registers this process under a fresh id.
func (c *Conductor) join(ctx context.Context) (queue.Instance, error) {
	began := time.Now()
	instance, err := queue.Join(ctx, c.ledger, c.identity(), c.log)
	if err == nil {
		c.beaten.Store(&began)
	}
	return instance, err
}

// identity is this process as others see it.
func (c *Conductor) identity() queue.Instance {
	instance := c.cfg.Instance
	instance.Handlers = slices.Clone(c.table.Load().names)
	if len(instance.Roles) == 0 {
		instance.Roles = []string{"conductor"}
	}
	return instance
}

// current returns who this process is; its id is zero between being declared dead and joining again.
func (c *Conductor) current() queue.Instance { return *c.instance.Load() }

// alive reports whether the ledger must still take this instance for alive, by this machine's clocks: the one that stops
// while the machine sleeps, and the one that people set. An instance that was frozen finds out so before it begins
// an action that another instance has by now.
func (c *Conductor) alive(now time.Time) bool {
	beaten, lease := *c.beaten.Load(), leaseBeats*c.cfg.Instance.Beat()
	return now.Sub(beaten) < lease && now.Round(0).Sub(beaten.Round(0)) < lease
}

// leaseBeats is how many heartbeats an instance's lease is.
const leaseBeats = queue.InstanceLease / queue.HeartbeatEvery

// attentive is how often others are looked after while they hold claims, so that one that dies is missed at once.
const attentive = time.Second

// beats says regularly that this instance is alive, and looks after what there is to do and after the others.
func (c *Conductor) beats(work context.Context) {
	// Who joins looks soon, since it may be the successor of one that has just died.
	beat, others := time.Now().Add(loop.Jitter(c.cfg.Instance.Beat())), true
	var away loop.Backoff
	for {
		wait := time.Until(beat)
		if others {
			wait = min(wait, loop.Jitter(attentive))
		}
		told := wake(work, wait, c.told)
		if work.Err() != nil {
			return
		}
		renew := told || !time.Now().Before(beat)
		next := time.Now().Add(loop.Jitter(c.cfg.Instance.Beat()))
		var err error
		if others, err = c.pulse(work, renew); err != nil { // to be back before others take it for dead
			beat = time.Now().Add(away.Next())
			continue
		}
		away.Reset()
		if renew {
			beat = next
		}
	}
}

// pulse is one beat, or a look between two. It reports whether others hold claims.
func (c *Conductor) pulse(work context.Context, renew bool) (others bool, err error) {
	self := c.current()
	self.Handlers, self.Draining = c.table.Load().names, c.drains.Load()
	began := time.Now()
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
	if renew {
		c.beaten.Store(&began)
		loop.Poke(c.renewed)
	}
	if pulse.Lost {
		c.takeBack(work)
	}
	return pulse.Others, nil
}

// rejoin gives up everything that was claimed: other instances have it by now.
func (c *Conductor) rejoin(work context.Context) {
	old := c.current()
	c.exec(func(t *claimLoop) {
		t.instance.Store(&queue.Instance{})
		dropped := len(t.unflushed) + len(t.deferred) + t.withdraw(func(*attempt) bool { return true }, action.Outcome{}, time.Now())
		t.unflushed, t.deferred = nil, nil
		t.state.Died()
		lost := t.cancelAll(ErrLeaseLost)
		t.log.Warn("declared dead; joining again", obs.KeyInstance, old.ID.String(), obs.KeyCount, lost, obs.KeyDropped, dropped)
	})
	c.metrics.LeasesLost.Inc()
	instance, err := c.join(work)
	if err != nil {
		if work.Err() == nil {
			c.log.Error("cannot join again; nothing more is claimed until the next heartbeat", obs.Error(err))
		}
		return
	}
	c.exec(func(t *claimLoop) {
		t.instance.Store(&instance)
		t.state.Joined()
	})
	c.takeBack(work)
}

// takeBack rescues claims, and drops those of this instance that are among them.
func (c *Conductor) takeBack(ctx context.Context) {
	begun := map[action.ID]bool{} // what runs, or has ended and is not recorded
	c.exec(func(t *claimLoop) {
		for _, a := range t.claims {
			if a.state.Began() {
				begun[a.ID] = true
			}
		}
		for _, u := range slices.Concat(t.unflushed, t.deferred) {
			begun[u.ID] = true
		}
		for c := range t.recording {
			begun[c.id] = true
		}
	})
	rescued := c.rescue(ctx, func(id action.ID) bool { return begun[id] })
	if len(rescued) == 0 {
		return
	}
	c.exec(func(t *claimLoop) {
		t.withdraw(func(a *attempt) bool {
			return slices.ContainsFunc(rescued, func(r queue.Rescued) bool { return r.ID == a.ID && r.Attempt == a.Thread.Attempt })
		}, action.Outcome{}, time.Now())
	})
	loop.Poke(c.sooner)
	loop.Poke(c.ready)
}

// rescue takes back the claims of dead instances, and those of this one that outlived their lease; see ledger.Rescue.
func (c *Conductor) rescue(ctx context.Context, began func(action.ID) bool) []queue.Rescued {
	rescued, err := c.ledger.Rescue(ctx, c.current().ID, began)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("rescue failed", obs.Error(err))
	}
	for _, claim := range rescued {
		c.metrics.Rescues.WithLabelValues(string(claim.Reason)).Inc()
		c.log.Warn("claim taken back", obs.KeyActionID, claim.ID.String(), obs.KeyHandler, claim.Handler, obs.KeyLane, claim.Lane,
			obs.KeyAttempt, claim.Attempt, obs.KeyReason, string(claim.Reason), obs.KeyBy, claim.Who)
	}
	return rescued
}
