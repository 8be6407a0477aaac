package deployer

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
)

// passRows is how many rows a pass records at most. A pass locks the head, and other writers of the
// pipeline wait for it.
const passRows = 2000

// held is a pipeline that this instance holds.
type held struct {
	lease     journal.Lease
	engine    *pipeline.Engine // nil: to be folded
	folded    bool             // an engine was folded before: the next fold counts as a refold
	again     bool             // pass at once: the decision was cut at passRows, or others appended meanwhile
	wake      time.Time        // when time alone may change the decision; zero: never
	notBefore time.Time        // no pass before this time: the ledger was unavailable
	away      loop.Backoff
	suspect   bool                           // the last pass broke an invariant; if the next does too, the pipeline stops
	stopped   bool                           // no more passes until this process starts again
	active    int                            // number of active deployments
	blocked   map[string]int                 // number of steps that wait, by reason
	claimed   map[pipeline.StepKey]time.Time // when each step under way was claimed, for the metrics
}

// due reports whether a pass may find something to do.
func (p *held) due(seq int64, now time.Time) bool {
	if p.stopped || now.Before(p.notBefore) {
		return false
	}
	return p.engine == nil || p.again || seq > p.engine.Seq() || !p.wake.IsZero() && !p.wake.After(now)
}

// round reads the heads of all pipelines, takes over those without a living owner, and makes a pass
// of each held pipeline that needs one. It returns the time of the next round. An error of one
// pipeline does not end the round.
func (d *Deployer) round(ctx context.Context) (next time.Time, err error) {
	heads, err := d.ledger.Heads(ctx)
	if err != nil {
		return next, err
	}
	d.others = false // set by takeOver for each pipeline of another instance
	d.notice(heads)
	d.lag(heads)
	alive := map[action.ID]bool{} // owners that were found alive in this round
	for _, head := range heads {
		p := d.held[head.Pipeline]
		if p == nil {
			p = d.takeOver(ctx, head, alive)
		}
		// head.Seq may be old by now, after the passes before it; another notification has then
		// come.
		if p != nil && p.due(head.Seq, time.Now()) {
			d.pass(ctx, head.Pipeline, p)
		}
	}
	d.gauge()
	return d.next(time.Now()), nil
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

// lag publishes by how many rows the engines are behind the logs of the held pipelines.
func (d *Deployer) lag(heads []journal.Head) {
	var rows int64
	for _, h := range heads {
		if p := d.held[h.Pipeline]; p != nil && p.engine != nil {
			rows += max(0, h.Seq-p.engine.Seq())
		}
	}
	d.metrics.LagRows.Set(float64(rows))
}

// takeOver leases a pipeline, unless its owner is alive. alive saves a transaction for each further
// pipeline of an owner that was found alive in this round.
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
	p := &held{lease: lease, claimed: map[pipeline.StepKey]time.Time{}}
	d.held[head.Pipeline] = p // without an engine: the first pass folds the log
	return p
}

// next returns the time of the next round if no event comes first. The death of another instance is
// no event: while it holds pipelines, it is looked for, and more often while deployments are
// moving.
func (d *Deployer) next(now time.Time) time.Time {
	// With jitter, so that instances that started together do not read the heads together.
	next := now.Add(loop.Jitter(look))
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for _, p := range d.held {
		switch {
		case p.stopped:
		case p.engine == nil || p.again:
			sooner(p.notBefore)
		case !p.wake.IsZero():
			sooner(p.wake)
		}
	}
	if d.others && now.Sub(d.moved) < attention {
		sooner(now.Add(loop.Jitter(attentive)))
	} else if d.others {
		sooner(now.Add(loop.Jitter(d.cfg.Instance.Beat())))
	}
	return next
}

// pass makes one pass of a pipeline: it folds new rows, lets the engine decide, and records the
// decision. After any error the engine is dropped and folded again, since it may have applied rows
// that were not committed.
func (d *Deployer) pass(ctx context.Context, name string, p *held) {
	began := time.Now()
	x := &pass{pipeline: name, engine: p.engine, seen: func(row pipeline.Entry) { d.time(p, row) }}
	head, err := d.tryPass(ctx, p, x)
	switch {
	case err == nil:
		d.passed(name, p, x, head, time.Since(began))
	case ctx.Err() != nil: // this process ends: not worth a message
		p.engine = nil
	case fault.Is(err, fault.StaleEpoch): // another instance has the lease by now
		d.drop(name, err)
	case isBroken(err):
		d.broken(name, p, err)
	case errors.Is(err, errMoved):
		p.engine, p.again = nil, true
		d.metrics.Passes.WithLabelValues("again").Inc()
	default:
		delay := p.away.Next()
		p.engine, p.notBefore = nil, time.Now().Add(delay)
		d.metrics.Passes.WithLabelValues("error").Inc()
		d.log.Warn("pass failed", obs.KeyPipeline, name, obs.Error(err), obs.KeyRetryIn, delay.String())
	}
}

// tryPass brings the engine up to date and makes the transaction. It returns the pipeline's head as
// the transaction left it.
func (d *Deployer) tryPass(ctx context.Context, p *held, x *pass) (journal.Head, error) {
	if err := d.fold(ctx, p, x); err != nil {
		return journal.Head{}, err
	}
	began := time.Now()
	head, err := d.ledger.Pass(ctx, p.lease, x.engine.Seq(), x.decide)
	d.metrics.PassSeconds.Observe(time.Since(began).Seconds())
	if x.err != nil { // as decide returned it: the caller distinguishes errMoved and broken
		return head, x.err
	}
	return head, err
}

// fold brings the pipeline's engine up to date outside of the transaction, so
// that the pass itself finds few rows and no new definition.
func (d *Deployer) fold(ctx context.Context, p *held, x *pass) error {
	if x.engine != nil {
		return Catch(ctx, d.ledger, x.pipeline, x.engine, x.seen)
	}
	began := time.Now()
	engine, err := Fold(ctx, d.ledger, x.pipeline)
	if err != nil {
		return err
	}
	if p.folded {
		d.metrics.Refolds.Inc()
	}
	d.metrics.FoldSeconds.Observe(time.Since(began).Seconds())
	x.engine, p.folded = engine, true
	return nil
}

// passed updates the pipeline after its pass was recorded, and decides when the next one is due.
func (d *Deployer) passed(name string, p *held, x *pass, head journal.Head, took time.Duration) {
	p.engine, p.suspect, p.notBefore = x.engine, false, time.Time{}
	p.away.Reset()
	if head.Seq < x.engine.Seq() {
		p.engine = nil // the engine has applied rows that the log does not have
	}
	p.again = x.decision.More || head.Seq > x.engine.Seq()
	p.wake = time.Time{}
	if !x.decision.Wake.IsZero() {
		// The engine decides by the database's clock. Only the time between can be used here.
		p.wake = time.Now().Add(x.decision.Wake.Sub(x.now))
	}
	p.active = len(x.engine.Deployments(true))
	d.metrics.Passes.WithLabelValues("ok").Inc()
	p.blocked = x.decision.Blocked
	for _, e := range x.decision.Entries {
		d.metrics.Rows.WithLabelValues(e.Class.String()).Inc()
		d.time(p, e)
	}
	if !x.decision.Empty() {
		d.log.Info("pass", obs.KeyPipeline, name, obs.KeySeq, head.Seq, obs.KeyRows, len(x.decision.Entries), obs.KeyActions, len(x.decision.Work),
			obs.KeyDrained, len(x.decision.Drain), obs.KeyCanceled, len(x.decision.Cancel), obs.KeyDuration, took.Milliseconds())
	}
}

// time measures from a step's claim to its completion, and counts superseded deployments. Steps
// claimed before this instance held the pipeline are not measured.
func (d *Deployer) time(p *held, row pipeline.Entry) {
	switch row.Event {
	case pipeline.StepClaimed, pipeline.StepFailed, pipeline.StepCanceled:
		var detail pipeline.StepDetail
		_ = json.Unmarshal(row.Detail, &detail) // what cannot be read names no step
		key := pipeline.StepKey{Deployment: row.Deployment, Target: row.Target, Event: detail.Event}
		if delete(p.claimed, key); row.Event == pipeline.StepClaimed {
			p.claimed[key] = row.At
		}
	case pipeline.PipelineSuperseded:
		d.metrics.Superseded.Inc()
	default:
		key := pipeline.StepKey{Deployment: row.Deployment, Target: row.Target, Event: row.Event}
		if since, ok := p.claimed[key]; ok && row.Class == pipeline.Fact {
			delete(p.claimed, key)
			d.metrics.StepSeconds.WithLabelValues(row.Event).Observe(row.At.Sub(since).Seconds())
		}
	}
}

// drop forgets a pipeline that another instance has leased.
func (d *Deployer) drop(name string, why error) {
	delete(d.held, name)
	d.stop(name, nil)
	d.metrics.Passes.WithLabelValues("stale").Inc()
	d.log.Info("pipeline lost", obs.KeyPipeline, name, obs.Error(why))
}

// broken handles a broken invariant. At the first it has the log folded once more, since the engine
// may be at fault; at the second in a row it stops the pipeline. Deciding on would record decisions
// that cannot be taken back.
func (d *Deployer) broken(name string, p *held, why error) {
	invariant := "fold" // the log itself is impossible: a row out of order, a deployment that was never created
	if v, ok := errors.AsType[*pipeline.Violation](why); ok {
		invariant = v.Invariant
	}
	p.engine, p.again, p.stopped, p.suspect = nil, true, p.suspect, true
	d.metrics.Passes.WithLabelValues("violation").Inc()
	d.metrics.Violations.WithLabelValues(invariant).Inc()
	d.log.Error("invariant broken", obs.KeyPipeline, name, obs.KeyInvariant, invariant, obs.Error(why), obs.KeyStopped, p.stopped)
	if p.stopped {
		d.stop(name, why)
	}
}

// stop records why a pipeline's decisions stopped, and reports it with this instance's heartbeats.
// A nil reason removes the record.
func (d *Deployer) stop(name string, why error) {
	d.mu.Lock()
	delete(d.stopped, name)
	if why != nil {
		d.stopped[name] = why
	}
	reasons := map[string]string{}
	for name, why := range d.stopped {
		reasons[name] = why.Error()
	}
	d.mu.Unlock()
	d.ledger.UpdateReport(func(r *queue.Report) { r.Stopped = reasons })
}

// gauge publishes figures about the held pipelines.
func (d *Deployer) gauge() {
	active, stopped, blocked := 0, 0, map[string]int{}
	for _, p := range d.held {
		active += p.active
		for reason, n := range p.blocked {
			blocked[reason] += n
		}
		if p.stopped {
			stopped++
		}
	}
	d.metrics.Pipelines.Set(float64(len(d.held)))
	d.metrics.Stopped.Set(float64(stopped))
	d.metrics.Blocked.Reset()
	for reason, n := range blocked {
		d.metrics.Blocked.WithLabelValues(reason).Set(float64(n))
	}
	d.metrics.Deployments.WithLabelValues(string(pipeline.StatusActive)).Set(float64(active))
}
