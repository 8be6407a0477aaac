package deployer

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// survey reads the positions of all logs, takes over the pipelines without a living owner, and sets
// when to look again.
func (d *Deployer) survey(ctx context.Context) {
	heads, err := d.ledger.Heads(ctx)
	if err != nil {
		d.read = time.Now().Add(d.away.Next())
		d.log.Warn("cannot read the pipelines", obs.Error(err), obs.KeyRetryIn, time.Until(d.read).String())
		return
	}
	d.away.Reset()
	d.notice(heads)
	d.others = false              // set by takeOver for each pipeline of another instance
	alive := map[action.ID]bool{} // owners that were found alive just now
	for _, head := range heads {
		p := d.held[head.Pipeline]
		if p == nil {
			p = d.takeOver(ctx, head, alive)
		}
		if p != nil {
			p.known = max(p.known, head.Seq) // a pass may have gone further in the meantime
		}
	}
	d.read = d.nextLook(time.Now())
}

// start begins passes of the pipelines that need one, as many as may be in progress at a time. Those whose last pass
// began first come first, so that none waits forever.
func (d *Deployer) start(ctx context.Context) {
	now := time.Now()
	var due []*held
	for _, p := range d.held {
		if at, ok := p.due(); ok && !at.After(now) {
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b *held) int {
		return cmp.Or(a.began.Compare(b.began), strings.Compare(a.name, b.name))
	})
	for _, p := range due[:min(len(due), parallel-d.running)] {
		d.pass(ctx, p)
	}
}

// notice remembers when some log grew. Positions only grow, so their sum is enough.
func (d *Deployer) notice(heads []journal.Head) {
	var total int64
	for _, h := range heads {
		total += h.Seq
	}
	if total != d.total {
		d.total, d.moved = total, time.Now()
	}
}

// takeOver leases a pipeline, unless its owner is alive. alive saves a transaction for each further
// pipeline of an owner that was found alive just now.
func (d *Deployer) takeOver(ctx context.Context, head journal.Head, alive map[action.ID]bool) *held {
	if alive[head.Owner] {
		d.others = true
		return nil
	}
	lease, ok, err := d.ledger.Lease(ctx, head.Pipeline, d.current().ID)
	if err != nil {
		d.others = true
		d.log.Warn("lease failed", obs.KeyPipeline, head.Pipeline, obs.Error(err))
		return nil
	}
	if !ok {
		d.others = true
		alive[head.Owner] = !head.Owner.IsZero()
		return nil
	}
	d.log.Info("pipeline taken", obs.KeyPipeline, head.Pipeline, obs.KeyEpoch, lease.Epoch)
	p := &held{name: head.Pipeline, lease: lease, claimed: map[pipeline.StepKey]time.Time{}}
	if d.cfg.Blobs != nil {
		p.archiveAt = time.Now().Add(loop.Jitter(d.cfg.FirstArchive))
	}
	d.held[head.Pipeline] = p // without an engine: the first pass folds the log
	return p
}

// nextLook returns when to read the positions again if no event comes first. No event
// announces the death of another instance, so the deployer polls while another instance holds
// pipelines, and more often while deployments are moving.
func (d *Deployer) nextLook(now time.Time) time.Time {
	// With jitter, so that instances that started together do not read together.
	next := now.Add(loop.Jitter(look))
	if !d.others {
		return next
	}
	every := d.cfg.Instance.Beat()
	if now.Sub(d.moved) < attention {
		every = attentive
	}
	if soon := now.Add(loop.Jitter(every)); soon.Before(next) {
		return soon
	}
	return next
}

// next returns when there is something to do if no event comes first.
func (d *Deployer) next() time.Time {
	next := d.read
	if d.running == parallel { // the end of a pass is an event
		return next
	}
	for _, p := range d.held {
		if at, ok := p.due(); ok && at.Before(next) {
			next = at
		}
	}
	return next
}

// gauge publishes figures about the held pipelines. Of deployments it shows every status, also those that none has.
func (d *Deployer) gauge() {
	stopped := 0
	var deployments, blocked, lag []obs.Level
	for _, p := range d.held {
		for _, status := range statuses() {
			deployments = append(deployments, obs.Level{Pipeline: p.name, Label: string(status), N: p.tally.count[status]})
		}
		for reason, n := range p.blocked {
			blocked = append(blocked, obs.Level{Pipeline: p.name, Label: reason, N: n})
		}
		lag = append(lag, obs.Level{Pipeline: p.name, N: int(max(0, p.known-p.seq))})
		if p.stopped {
			stopped++
		}
	}
	d.metrics.Deployments.Show(deployments)
	d.metrics.Blocked.Show(blocked)
	d.metrics.LagRows.Show(lag)
	d.metrics.Pipelines.Set(float64(len(d.held)))
	d.metrics.Stopped.Set(float64(stopped))
}

// statuses returns every status of a deployment.
func statuses() []pipeline.Status {
	return []pipeline.Status{pipeline.StatusActive, pipeline.StatusFinished, pipeline.StatusFailed,
		pipeline.StatusSuperseded, pipeline.StatusCanceled}
}
