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

// join registers this process under a new id. The lease counts from before the request, as the
// ledger may have stored it any time since.
func (c *Conductor) join(ctx context.Context) (queue.Instance, error) {
	began := time.Now()
	instance, err := queue.Join(ctx, c.ledger, c.identity(), c.log)
	if err == nil {
		c.beaten.Store(&began)
	}
	return instance, err
}

// identity returns this process as other instances see it, without an id.
func (c *Conductor) identity() queue.Instance {
	instance := c.cfg.Instance
	instance.Handlers = slices.Clone(c.table.Load().names)
	if len(instance.Roles) == 0 {
		instance.Roles = []string{"conductor"}
	}
	return instance
}

// alive reports whether this instance's lease certainly lasts, by both clocks of this machine: the
// monotonic one, which may stop while the machine sleeps, and the wall clock, which people set. A
// process that was frozen thereby finds out before it begins an action that another instance may
// have claimed since.
func (c *Conductor) alive(now time.Time) bool {
	beaten, lease := *c.beaten.Load(), leaseBeats*c.cfg.Instance.Beat()
	return now.Sub(beaten) < lease && now.Round(0).Sub(beaten.Round(0)) < lease
}

// leaseBeats is the lease of an instance in heartbeats.
const leaseBeats = queue.InstanceLease / queue.HeartbeatEvery

// attentive is the time between looks at other instances while they hold claims, so that the death
// of one is noticed soon.
const attentive = time.Second

// beats sends heartbeats until work ends. While other instances hold claims it also looks at them
// between its heartbeats.
func (c *Conductor) beats(work context.Context) {
	// An instance that has just joined looks soon: it may be the successor of one that has just
	// died.
	beat, others := time.Now().Add(loop.Jitter(c.cfg.Instance.Beat())), true
	var away loop.Backoff
	for {
		wait := time.Until(beat)
		if others {
			wait = min(wait, loop.Jitter(attentive))
		}
		changed := wake(work, wait, c.changed)
		if work.Err() != nil {
			return
		}
		renew := changed || !time.Now().Before(beat)
		next := time.Now().Add(loop.Jitter(c.cfg.Instance.Beat()))
		var err error
		if others, err = c.pulse(work, renew); err != nil {
			// The first tries come sooner than a heartbeat would, so that the lease survives a lost
			// answer.
			beat = time.Now().Add(away.Next())
			continue
		}
		away.Reset()
		if renew {
			beat = next
		}
	}
}

// pulse sends a heartbeat if renew is set, and looks at other instances in the same statement. It
// reports whether other instances hold claims.
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
		c.beaten.Store(&began) // time of sending, not of the answer: the lease may be counted from then
		loop.Poke(c.renewed)
	}
	if pulse.Lost {
		c.takeBack(work)
	}
	return pulse.Others, nil
}

// rejoin drops every claim and unrecorded end, since other instances may have claimed these actions
// by now, and registers this process under a new id. Between the two steps the id is zero and the
// state is not joined, so that no turn is made for either identity.
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

// takeBack rescues claims of dead instances and expired claims of this one, and then drops the
// latter here.
func (c *Conductor) takeBack(ctx context.Context) {
	// Which of this instance's attempts have begun: those that run, and those that have ended but
	// are not recorded. The ledger must not treat their claims as unused.
	begun := map[action.ID]bool{}
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

// rescue takes back the claims of dead instances, and those of this one that outlived their lease.
// began reports whether the attempt of one of these has begun.
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
