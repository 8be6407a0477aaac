package deployer

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
)

// join registers this process under a fresh id. It waits for a ledger that is away.
func (d *Deployer) join(ctx context.Context) error {
	var away backoff
	for {
		instance := d.fresh()
		err := d.ledger.Join(ctx, instance)
		if err == nil {
			d.mu.Lock()
			d.instance = instance
			d.mu.Unlock()
			return nil
		}
		if ctx.Err() != nil || !fault.Is(err, fault.LedgerAway) && !fault.Is(err, fault.Unavailable) {
			return fmt.Errorf("join the ledger: %w", err)
		}
		delay := away.next()
		d.log.Warn("cannot join", obs.Error(err), obs.KeyRetryIn, delay.String())
		if !pause(ctx, delay) {
			return fmt.Errorf("join the ledger: %w", context.Cause(ctx))
		}
	}
}

// fresh is this process as a new instance.
func (d *Deployer) fresh() ledger.Instance {
	var random [10]byte
	rand.Read(random[:]) //nolint:errcheck // never fails (crypto/rand)
	instance := d.cfg.Instance
	instance.ID = action.NewID(time.Now(), random)
	if len(instance.Roles) == 0 {
		instance.Roles = []string{"deployer"}
	}
	return instance
}

// current is who we are.
func (d *Deployer) current() ledger.Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.instance
}

// beats says regularly that this instance is alive, and tells the loop when it no longer counts as that.
func (d *Deployer) beats(ctx context.Context) {
	for pause(ctx, jitter(ledger.HeartbeatEvery)) {
		err := d.ledger.Heartbeat(ctx, d.current())
		switch {
		case ctx.Err() != nil:
			return
		case fault.Is(err, fault.StaleClaim):
			poke(d.dead)
		case err != nil:
			d.log.Warn("heartbeat failed", obs.Error(err))
		}
	}
}

// rejoin gives up every pipeline: somebody else may have it by now.
func (d *Deployer) rejoin(ctx context.Context) error {
	d.log.Warn("declared dead; joining anew", obs.KeyInstance, d.current().ID.String(), obs.KeyCount, len(d.held))
	clear(d.held)
	d.mu.Lock()
	clear(d.stopped)
	d.mu.Unlock()
	return d.join(ctx)
}

// leave takes this instance out of the ledger, and with it its leases.
func (d *Deployer) leave(ctx context.Context) {
	if err := d.ledger.Leave(ctx, d.current()); err != nil {
		d.log.Warn("leaving failed; the lease ends by itself", obs.Error(err))
	}
}
