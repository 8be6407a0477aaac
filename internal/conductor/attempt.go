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
	"github.com/waybill-dev/waybill/internal/obs"
)

// Codes that the conductor gives to outcomes.
const (
	codePanic     = "panic"
	codeTimeout   = "attempt_timeout"
	codeNoOutcome = "no_outcome"
	codeNoHandler = "no_such_handler"
)

// claim is what the fence knows an attempt by.
type claim struct {
	id     action.ID
	number int
}

// attempt is one running try at an action.
type attempt struct {
	ledger.Claimed
	owner      action.ID // the instance it was claimed for
	cancel     context.CancelCauseFunc
	started    time.Time
	parameters json.RawMessage // that lie in the blob store; nil: they stand in the row
}

// start runs a claimed action; the caller has seen to it that there is a free worker.
func (c *Conductor) start(work context.Context, owner action.ID, claimed ledger.Claimed) {
	ctx, cancel := context.WithCancelCause(work)
	a := &attempt{Claimed: claimed, owner: owner, cancel: cancel, started: time.Now()}
	if !c.register(a) {
		cancel(nil)
		return
	}
	c.metrics.StartLatency.WithLabelValues(a.Handler).Observe(max(0, a.started.Sub(a.Thread.RunAt).Seconds()))
	c.attempts.Go(func() {
		defer cancel(nil)
		outcome := c.do(ctx, a)
		c.finish(a, outcome)
	})
}

// do makes the attempt, and says how it went whatever the handler does.
func (c *Conductor) do(ctx context.Context, a *attempt) action.Outcome {
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
			outcome = action.Outcome{Kind: action.Retry, Code: codePanic, Error: fmt.Sprintf("handler %s panicked: %v", a.Handler, p)}
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
		o.Kind, o.Code = action.Retry, codeTimeout
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

// register adds a to the running ones, unless the instance it was claimed for is no more or it runs already.
func (c *Conductor) register(a *attempt) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := claim{a.ID, a.Thread.Attempt}
	if _, there := c.running[key]; there || a.owner != c.instance.ID {
		return false
	}
	c.running[key] = a
	c.count(a.Lane, 1)
	c.metrics.Running.Set(float64(len(c.running)))
	return true
}

// finish hands an ended attempt to the next turn, and frees its worker. The end
// of one whose instance was declared dead is dropped: the fence would refuse it.
func (c *Conductor) finish(a *attempt, o action.Outcome) {
	c.report(a, o)
	c.gate.ended(a.Lane, o, time.Now())
	c.mu.Lock()
	delete(c.running, claim{a.ID, a.Thread.Attempt})
	c.count(a.Lane, -1)
	c.metrics.Running.Set(float64(len(c.running)))
	if a.owner == c.instance.ID {
		c.queue(ledger.Completion{ID: a.ID, Attempt: a.Thread.Attempt, Outcome: o, HandOff: c.handsOff(a.Handler), Claimed: &a.Claimed})
	} else {
		c.metrics.LateCompletions.WithLabelValues(a.Handler).Inc()
	}
	c.mu.Unlock()
	poke(c.ended)
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
func (c *Conductor) report(a *attempt, o action.Outcome) {
	took := time.Since(a.started)
	c.metrics.Attempts.WithLabelValues(a.Handler, o.Kind.String()).Inc()
	c.metrics.AttemptSeconds.WithLabelValues(a.Handler, o.Kind.String()).Observe(took.Seconds())
	level := slog.LevelInfo
	if o.Kind == action.Done {
		level = slog.LevelDebug
	}
	about := []any{obs.KeyActionID, a.ID.String(), obs.KeyHandler, a.Handler, obs.KeyLane, a.Lane, obs.KeyAttempt, a.Thread.Attempt,
		obs.KeySpent, a.Thread.Spent, obs.KeyOutcome, o.Kind.String(), obs.KeyCode, o.Code, obs.KeyError, o.Error, obs.KeyDuration, took.Milliseconds()}
	if s := a.Step; s != nil {
		about = append(about, obs.KeyPipeline, s.Pipeline, obs.KeyDeployment, s.Deployment, obs.KeyTarget, s.Target, obs.KeyEvent, s.Event)
	}
	c.log.Log(context.Background(), level, "attempt ended", about...)
}
