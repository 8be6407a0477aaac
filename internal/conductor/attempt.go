package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/member"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Codes that the conductor gives to outcomes.
const (
	codeNoOutcome = "no_outcome"
	codeNoHandler = "no_such_handler"
)

// claim is what the fence knows an attempt by.
type claim struct {
	id     action.ID
	number int
}

// attempt is one try at an action that this instance has claimed: it waits for a worker, or has one.
type attempt struct {
	ledger.Claimed
	owner      action.ID       // the instance it was claimed for
	ctx        context.Context // of the handler; nil while it waits for a worker
	cancel     context.CancelCauseFunc
	started    time.Time
	parameters json.RawMessage // that lie in the blob store; nil: they stand in the row
}

// hold keeps a claimed action until a worker takes it. It reports false when it is held already, or the instance
// that it was claimed for is no more.
func (c *Conductor) hold(owner action.ID, claimed ledger.Claimed) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &attempt{Claimed: claimed, owner: owner}
	key := claim{a.ID, a.Thread.Attempt}
	if _, there := c.claims[key]; there || owner != c.instance.ID {
		return false
	}
	c.claims[key] = a
	c.count(a.Lane, 1)
	c.buffer.put(a)
	c.metrics.Buffered.Set(float64(c.buffer.n))
	return true
}

// release lets go of a claim: it has ended, or is somebody else's. The caller holds mu.
func (c *Conductor) release(a *attempt) {
	delete(c.claims, claim{a.ID, a.Thread.Attempt})
	c.count(a.Lane, -1)
}

// startHeld gives waiting attempts to free workers.
func (c *Conductor) startHeld(work context.Context) {
	for {
		c.mu.Lock()
		a := c.nextAttempt(work)
		c.mu.Unlock()
		if a == nil {
			return
		}
		c.work(work, a)
	}
}

// work has a worker make an attempt, and those that come after it.
func (c *Conductor) work(work context.Context, a *attempt) {
	c.attempts.Go(func() {
		for ; a != nil; a = c.try(work, a) {
		}
	})
}

// nextAttempt takes the next waiting attempt for a worker, when there is one and a worker is free for it. The caller holds mu.
func (c *Conductor) nextAttempt(work context.Context) *attempt {
	if c.cfg.Workers-c.started <= c.spare || len(c.unflushed) >= maxUnflushed || !c.ledger.Guarded() {
		return nil
	}
	a := c.buffer.take()
	if a == nil {
		return nil
	}
	c.occupy(work, a)
	return a
}

// occupy takes a worker for an attempt that has left the buffer. The caller holds mu.
func (c *Conductor) occupy(work context.Context, a *attempt) {
	a.ctx, a.cancel = context.WithCancelCause(work)
	a.started = time.Now()
	c.started++
	c.metrics.Running.Set(float64(c.started))
	c.metrics.Buffered.Set(float64(c.buffer.n))
}

// try makes an attempt and hands its end to the next turn. It returns the worker's next one; nil: none.
func (c *Conductor) try(work context.Context, a *attempt) *attempt {
	c.metrics.StartLatency.WithLabelValues(a.Handler).Observe(max(0, a.started.Sub(a.Thread.RunAt).Seconds()))
	outcome := c.do(a.ctx, a)
	a.cancel(nil)
	return c.finish(work, a, outcome)
}

// do makes the attempt, and says how it went whatever the handler does.
func (c *Conductor) do(ctx context.Context, a *attempt) action.Outcome {
	ctx, span := c.span(ctx, a)
	outcome := c.handle(ctx, a)
	endSpan(span, outcome)
	return outcome
}

// handle calls the handler, if there is one.
func (c *Conductor) handle(ctx context.Context, a *attempt) action.Outcome {
	handler, ok := c.table.Load().Handlers[a.Handler]
	switch {
	case !ok && handlerOf(a.Lane) == a.Handler: // it was served when this was claimed
		return action.Outcome{Kind: action.GivenBack, Code: codeNoHandler, Error: fmt.Sprintf("handler %q is not served here any more", a.Handler)}
	case !ok:
		return action.Outcome{Kind: action.Fatal, Code: codeNoHandler,
			Error: fmt.Sprintf("no handler %q is configured here, yet lane %q leads here", a.Handler, a.Lane)}
	}
	if limit := time.Duration(a.Policy.AttemptTimeout); limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, ErrAttemptTimeout)
		defer stop()
	}
	outcome, ok := c.fetch(ctx, a)
	if ok {
		outcome = c.protected(ctx, handler, a)
	}
	return c.refused(a, judge(context.Cause(ctx), a, outcome))
}

// refused corrects an outcome whose error the breaker knows: the target refuses work.
func (c *Conductor) refused(a *attempt, o action.Outcome) action.Outcome {
	if o.Kind != action.Retry || !c.gate.refusing(a.Handler, o.Error) {
		return o
	}
	o.Refused = true
	if a.Delivery != action.AtMostOnce { // what may have been done must not be done again
		o.Kind = action.Throttle
	}
	return o
}

// protected turns a panic into an outcome: one bad action must not take the others with it.
func (c *Conductor) protected(ctx context.Context, handler Handler, a *attempt) (outcome action.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("handler panicked", obs.KeyActionID, a.ID.String(), obs.KeyHandler, a.Handler,
				obs.KeyAttempt, a.Thread.Attempt, obs.KeyError, fmt.Sprint(p), obs.KeyStack, string(debug.Stack()))
			outcome = action.Outcome{Kind: action.Retry, Code: action.CodePanic, Error: fmt.Sprintf("handler %s panicked: %v", a.Handler, p)}
		}
	}()
	return handler.Do(ctx, Attempt{Action: a.whole(), Number: a.Thread.Attempt, Spent: a.Thread.Spent})
}

// judge corrects an outcome by why the attempt's context ended, if it did. What
// happened or will never pass stays so; everything else is no news about the action.
func judge(cause error, a *attempt, o action.Outcome) action.Outcome {
	if o.Kind == action.Done || o.Kind == action.Fatal || o.Kind == action.BadInput {
		return o
	}
	undecided := o.Kind == action.Retry || o.Kind == 0
	switch {
	case errors.Is(cause, ErrCanceled):
		return action.Outcome{Kind: action.Stopped, Error: o.Error, Ref: o.Ref}
	case errors.Is(cause, ErrShutdown) && (undecided || o.Kind == action.Stopped):
		if a.Delivery == action.AtMostOnce { // it may have taken effect: giving it back would do it twice
			return action.Outcome{Kind: action.Retry, Code: action.CodeOutcomeUnknown, Error: cause.Error(), Ref: o.Ref}
		}
		return action.Outcome{Kind: action.GivenBack, Ref: o.Ref}
	case errors.Is(cause, ErrAttemptTimeout) && undecided:
		o.Kind, o.Code = action.Retry, action.CodeAttemptTimeout
		o.Error = timeoutText(time.Duration(a.Policy.AttemptTimeout), o.Error)
	case o.Kind == 0:
		o.Kind, o.Code = action.Retry, codeNoOutcome
		o.Error = fmt.Sprintf("handler %s returned no outcome", a.Handler)
	}
	return o
}

func timeoutText(limit time.Duration, said string) string {
	text := fmt.Sprintf("the attempt took longer than %s", limit)
	if said != "" {
		text += ": " + said
	}
	return text
}

// finish hands an ended attempt to the next turn, and its worker to the next attempt. The end of one whose instance
// was declared dead is dropped: the fence would refuse it.
func (c *Conductor) finish(work context.Context, a *attempt, o action.Outcome) (next *attempt) {
	now := time.Now()
	took := now.Sub(a.started)
	c.report(a, o, took)
	c.gate.ended(a.Lane, o, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(a)
	c.started--
	c.paced(a, took, now)
	if a.owner == c.instance.ID {
		c.queue(ledger.Completion{ID: a.ID, Attempt: a.Thread.Attempt, Outcome: o, HandOff: c.handsOff(a.Handler), Claimed: &a.Claimed})
	} else {
		c.metrics.LateCompletions.WithLabelValues(a.Handler).Inc()
	}
	if o.Kind == action.Throttle || o.DisableLane || !o.PauseLane.IsZero() { // those behind it would be refused as well
		c.giveBack(func(w *attempt) bool { return w.Lane == a.Lane })
		delete(c.paces, a.Lane)
	}
	next = c.nextAttempt(work)
	if next == nil {
		c.metrics.Running.Set(float64(c.started))
	}
	if next == nil || len(c.unflushed) == 1 || len(c.unflushed)%turnRows == 0 {
		member.Poke(c.ended)
	}
	return next
}

// queue adds completions to the unflushed ones. The caller holds mu.
func (c *Conductor) queue(completions ...ledger.Completion) {
	if len(completions) == 0 {
		return
	}
	if len(c.unflushed) == 0 {
		c.firstEnded = time.Now()
	}
	c.unflushed = append(c.unflushed, completions...)
	c.metrics.Unflushed.Set(float64(len(c.unflushed)))
}

// report counts an ended attempt, and logs one that did not just work.
func (c *Conductor) report(a *attempt, o action.Outcome, took time.Duration) {
	c.metrics.Attempts.WithLabelValues(a.Handler, o.Kind.String()).Inc()
	c.metrics.AttemptSeconds.WithLabelValues(a.Handler, o.Kind.String()).Observe(took.Seconds())
	level := slog.LevelInfo
	if o.Kind == action.Done {
		level = slog.LevelDebug
	}
	if !c.log.Enabled(a.ctx, level) {
		return
	}
	about := []any{obs.KeyActionID, a.ID.String(), obs.KeyHandler, a.Handler, obs.KeyLane, a.Lane, obs.KeyAttempt, a.Thread.Attempt,
		obs.KeySpent, a.Thread.Spent, obs.KeyOutcome, o.Kind.String(), obs.KeyCode, o.Code, obs.KeyError, o.Error, obs.KeyDuration, took.Milliseconds()}
	if s := a.Step; s != nil {
		about = append(about, obs.KeyPipeline, s.Pipeline, obs.KeyDeployment, s.Deployment, obs.KeyTarget, s.Target, obs.KeyEvent, s.Event)
	}
	c.log.Log(context.Background(), level, "attempt ended", about...)
}
