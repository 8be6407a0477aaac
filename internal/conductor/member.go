package conductor

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
)

// join registers this process under a fresh id, then takes back what dead
// instances left. It waits for a ledger that is away.
func (c *Conductor) join(ctx context.Context) error {
	var away backoff
	for {
		instance := c.fresh()
		err := c.ledger.Join(ctx, instance)
		if err == nil {
			c.become(instance)
			c.rescue(ctx)
			return nil
		}
		if ctx.Err() != nil || !passing(err) {
			return fmt.Errorf("join the ledger: %w", err)
		}
		delay := away.next()
		c.log.Warn("cannot join", obs.Error(err), obs.KeyRetryIn, delay.String())
		if !pause(ctx, delay) {
			return fmt.Errorf("join the ledger: %w", context.Cause(ctx))
		}
	}
}

// fresh is this process as a new instance.
func (c *Conductor) fresh() ledger.Instance {
	var random [10]byte
	rand.Read(random[:]) //nolint:errcheck // never fails (crypto/rand)
	instance := c.cfg.Instance
	instance.ID = action.NewID(time.Now(), random)
	instance.Handlers = slices.Clone(c.handlers)
	if len(instance.Roles) == 0 {
		instance.Roles = []string{"conductor"}
	}
	return instance
}

func (c *Conductor) become(instance ledger.Instance) {
	c.mu.Lock()
	c.instance = instance
	c.mu.Unlock()
	poke(c.ready)
}

// current is who we are; its id is zero between being declared dead and joining anew.
func (c *Conductor) current() ledger.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instance
}

// attentive is how often others are looked after while they hold claims, so that one that dies is missed at once.
const attentive = time.Second

// beats says regularly that this instance is alive, and looks after those that are not.
func (c *Conductor) beats(work context.Context) {
	beat, others := time.Now().Add(jitter(ledger.HeartbeatEvery)), 0
	for {
		wait := time.Until(beat)
		if others > 0 {
			wait = min(wait, jitter(attentive))
		}
		if !pause(work, wait) {
			return
		}
		if !time.Now().Before(beat) {
			beat = time.Now().Add(jitter(ledger.HeartbeatEvery))
			c.beat(work)
		}
		others = c.rescue(work)
	}
}

func (c *Conductor) beat(work context.Context) {
	err := c.ledger.Heartbeat(work, c.current())
	switch {
	case err == nil, work.Err() != nil:
	case fault.Is(err, fault.StaleClaim):
		c.rejoin(work)
	default:
		c.log.Warn("heartbeat failed", obs.Error(err))
	}
}

// rejoin gives up everything that was claimed: somebody else has it by now.
func (c *Conductor) rejoin(work context.Context) {
	c.mu.Lock()
	old := c.instance.ID
	c.instance = ledger.Instance{}
	dropped := len(c.unflushed)
	c.unflushed = nil
	c.metrics.Unflushed.Set(0)
	c.mu.Unlock()
	c.metrics.LeasesLost.Inc()
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
	for _, a := range c.running {
		a.cancel(cause)
	}
	return len(c.running)
}

// rescue takes back the claims of dead instances, and says how many living ones hold.
func (c *Conductor) rescue(ctx context.Context) (others int) {
	n, others, err := c.ledger.Rescue(ctx, c.current().ID)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("rescue failed", obs.Error(err))
		}
		return 0
	}
	if n == 0 {
		return others
	}
	c.metrics.Rescues.Add(float64(n))
	c.log.Info("took back claims of dead instances", obs.KeyCount, n)
	poke(c.sooner)
	poke(c.ready)
	return others
}

// leave takes this instance out of the ledger. What it still holds is then anybody's.
func (c *Conductor) leave(ctx context.Context) {
	if err := c.ledger.Leave(ctx, c.current()); err != nil {
		c.log.Warn("leaving failed; the lease ends by itself", obs.Error(err))
	}
}
