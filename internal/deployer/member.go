package deployer

import (
	"context"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// join registers this process under a new id.
func (d *Deployer) join(ctx context.Context) error {
	identity := d.cfg.Instance
	if len(identity.Roles) == 0 {
		identity.Roles = []string{"deployer"}
	}
	instance, err := queue.Join(ctx, d.ledger, identity, d.log)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.instance = instance
	d.mu.Unlock()
	return nil
}

// current returns this instance as it last joined.
func (d *Deployer) current() queue.Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.instance
}

// beats records regularly that this instance is alive, and signals the loop once it counts as dead.
func (d *Deployer) beats(ctx context.Context) {
	for loop.Pause(ctx, loop.Jitter(d.cfg.Instance.Beat())) {
		err := d.ledger.Heartbeat(ctx, d.current())
		switch {
		case ctx.Err() != nil:
			return
		case fault.Is(err, fault.StaleClaim):
			loop.Poke(d.dead)
		case err != nil:
			d.log.Warn("heartbeat failed", obs.Error(err))
		}
	}
}

// rejoin gives up every pipeline, since another instance may hold it by now, and registers this process under a new
// id. Stopped pipelines are forgotten too: their next owner finds out on its own.
func (d *Deployer) rejoin(ctx context.Context) error {
	d.log.Warn("declared dead; joining again", obs.KeyInstance, d.current().ID.String(), obs.KeyCount, len(d.held))
	clear(d.held)
	d.mu.Lock()
	clear(d.stopped)
	d.mu.Unlock()
	d.ledger.UpdateReport(func(r *queue.Report) { r.Stopped = nil })
	return d.join(ctx)
}
