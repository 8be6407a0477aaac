package deployer

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
)

// passRows bounds the rows that a pass records. A pass locks the head, and other writers of the pipeline wait for it.
const passRows = 2000

// held is a pipeline that this instance holds. While a pass of it is in progress, that pass alone uses engine, folded
// and claimed.
type held struct {
	name      string
	lease     journal.Lease
	busy      bool             // a pass is in progress
	began     time.Time        // beginning of the newest pass
	known     int64            // the position of the log, as last heard of
	seq       int64            // the position that the newest pass has reached
	engine    *pipeline.Engine // nil: to be folded
	folded    bool             // an engine was folded before: the next fold counts as a refold
	again     bool             // pass at once: the decision was cut at passRows, or the last pass must be repeated
	wake      time.Time        // time at which the clock alone may change the decision; zero: never
	notBefore time.Time        // no pass before this time: the ledger was unavailable
	archiveAt time.Time        // time of the next search for deployments to archive; zero: never
	archive   *archive         // deployments whose entries are in the blob store: the next pass archives them; nil: none
	away      loop.Backoff
	suspect   bool                           // the last pass broke an invariant; if the next does too, the pipeline stops
	stopped   bool                           // no more passes until this process starts again
	tally     tally                          // counts of deployments by status
	blocked   map[string]int                 // number of steps that wait, by reason
	claimed   map[pipeline.StepKey]time.Time // time of each running step's claim, for the metrics
}

// due returns when the next pass may find something to do, unless something happens before. The zero time is now; ok
// is false while a pass is in progress, and when only an event makes one due.
func (p *held) due() (at time.Time, ok bool) {
	switch {
	case p.stopped || p.busy:
		return at, false
	case p.engine == nil || p.again || p.archive != nil || p.known > p.seq:
		return p.notBefore, true
	}
	at = p.wake
	if at.IsZero() || !p.archiveAt.IsZero() && p.archiveAt.Before(at) {
		at = p.archiveAt
	}
	if at.IsZero() {
		return at, false
	}
	if at.Before(p.notBefore) {
		at = p.notBefore
	}
	return at, true
}

// outcome is the result of a pass.
type outcome struct {
	of   *held
	pass *pass
	head journal.Head
	err  error
}

// pass makes one pass of a pipeline in a goroutine of its own: it folds new rows, lets the engine
// decide, and records the decision.
func (d *Deployer) pass(ctx context.Context, p *held) {
	p.busy, p.began = true, time.Now()
	d.running++
	x := &pass{pipeline: p.name, engine: p.engine, seen: func(row pipeline.Entry) { d.time(p, row) },
		choose: d.takeArchiveTurn(p), archive: p.archive}
	p.archive = nil
	go func() {
		head, err := d.tryPass(ctx, p, x)
		d.ended <- outcome{p, x, head, err}
	}()
}

// settle takes the outcome of a pass. After any error the engine is dropped and folded again, since
// it may have applied rows that were not committed.
func (d *Deployer) settle(ctx context.Context, o outcome) {
	p, err := o.of, o.err
	p.busy = false
	if (o.pass.choose || o.pass.archive != nil) && err != nil {
		p.archiveAt = time.Now().Add(loop.Jitter(archiveRetry))
	}
	d.running--
	switch {
	case err == nil && o.pass.archive != nil:
		d.archivePassed(p, o.pass, o.head)
	case err == nil:
		d.passed(p, o.pass, o.head)
		d.storeChosen(ctx, p, o.pass.chosen)
	case ctx.Err() != nil: // this process ends: not worth a message
		p.engine = nil
	case fault.Is(err, fault.StaleEpoch): // another instance has the lease by now
		d.drop(p.name, err)
	case isBroken(err):
		d.broken(p, err)
	case errors.Is(err, errMoved), errors.Is(err, ErrArchived) && o.pass.engine != nil: // a whole fold has tried several times
		p.engine, p.again = nil, true
		d.metrics.Passes.WithLabelValues("again").Inc()
	default:
		delay := p.away.Next()
		p.engine, p.notBefore = nil, time.Now().Add(delay)
		d.metrics.Passes.WithLabelValues("error").Inc()
		d.log.Warn("pass failed", obs.KeyPipeline, p.name, obs.Error(err), obs.KeyRetryIn, delay.String())
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
	if err == nil && x.choose {
		x.chosen, err = choices(x.engine, x.now)
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

// keepEngine keeps the engine of a pass that was recorded.
func (p *held) keepEngine(x *pass, head journal.Head) {
	p.engine, p.seq, p.suspect, p.notBefore = x.engine, x.engine.Seq(), false, time.Time{}
	p.known = max(p.known, head.Seq)
	p.away.Reset()
	if head.Seq < p.seq {
		p.engine = nil // the engine has applied rows that the log does not have
	}
}

// passed updates the pipeline after its pass was recorded, and decides when the next one is due.
func (d *Deployer) passed(p *held, x *pass, head journal.Head) {
	p.keepEngine(x, head)
	p.again = x.decision.More
	p.wake = time.Time{}
	if !x.decision.Wake.IsZero() {
		// The engine decides by the database's clock. Only the time between can be used here, and only for so long:
		// that clock may be set, or this machine be suspended in the meantime.
		p.wake = time.Now().Add(min(x.decision.Wake.Sub(x.now), look))
	}
	d.metrics.Passes.WithLabelValues("ok").Inc()
	p.blocked = x.decision.Blocked
	for _, e := range x.decision.Entries {
		d.metrics.Rows.WithLabelValues(e.Class.String()).Inc()
		d.time(p, e)
	}
	p.tally.follow(x.engine)
	if !x.decision.Empty() {
		d.log.Info("pass", obs.KeyPipeline, p.name, obs.KeySeq, head.Seq, obs.KeyRows, len(x.decision.Entries),
			obs.KeyActions, len(x.decision.Work),
			obs.KeyDrained, len(x.decision.Drain), obs.KeyCanceled, len(x.decision.Cancel), obs.KeyDuration, time.Since(p.began).Milliseconds())
	}
}

// time measures from a step's claim to its completion, and counts superseded deployments and rollbacks. Events before
// this instance held the pipeline is not measured.
func (d *Deployer) time(p *held, row pipeline.Entry) {
	p.tally.notice(row)
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
	case pipeline.DeploymentCreated:
		var made struct{ Kind string }
		if _ = json.Unmarshal(row.Detail, &made); made.Kind == pipeline.KindRollback {
			d.metrics.Rollbacks.Inc()
		}
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
func (d *Deployer) broken(p *held, why error) {
	invariant := "fold" // the log itself is impossible: a row out of order, a deployment that was never created
	if v, ok := errors.AsType[*pipeline.Violation](why); ok {
		invariant = v.Invariant
	}
	p.engine, p.again, p.stopped, p.suspect = nil, true, p.suspect, true
	d.metrics.Passes.WithLabelValues("violation").Inc()
	d.metrics.Violations.WithLabelValues(invariant).Inc()
	d.log.Error("invariant broken", obs.KeyPipeline, p.name, obs.KeyInvariant, invariant, obs.Error(why), obs.KeyStopped, p.stopped)
	if p.stopped {
		d.stop(p.name, why)
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
