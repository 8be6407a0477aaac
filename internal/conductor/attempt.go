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
	"github.com/waybill-dev/waybill/internal/conductor/turn"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
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
	queue.Claimed
	state      turn.Claim
	owner      action.ID       // the instance it was claimed for
	ctx        context.Context // of the handler; nil while it waits for a worker
	cancel     context.CancelCauseFunc
	started    time.Time
	parameters json.RawMessage // that are in the blob store; nil: they are in the row
}

// claim is what the fence knows the attempt by.
func (a *attempt) claim() claim { return claim{a.ID, a.Thread.Attempt} }

// end is how an attempt went.
type end struct {
	attempt *attempt
	outcome action.Outcome
	took    time.Duration
}

// start has a worker make an attempt, which reports its end to the loop.
func (t *claimLoop) start(work context.Context, a *attempt, now time.Time) {
	a.ctx, a.cancel = context.WithCancelCause(work)
	a.started = now
	t.attempts.Go(func() {
		t.metrics.StartLatency.WithLabelValues(a.Handler).Observe(max(0, a.started.Sub(a.Thread.RunAt).Seconds()))
		outcome := t.do(a.ctx, a)
		a.cancel(nil)
		took := time.Since(a.started)
		t.report(a, outcome, took)
		t.ended <- end{a, outcome, took} // there is room for every worker
	})
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
	case !ok && action.HandlerOf(a.Lane) == a.Handler: // it was served when this was claimed
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
	if o.Kind != action.Retry || !c.refusing(a.Handler, o.Error) {
		return o
	}
	o.Refused = true
	if a.Delivery != action.AtMostOnce { // what may have been done must not be done again
		o.Kind = action.Throttle
	}
	return o
}

// protected turns a panic into an outcome: a bad action must not end other attempts.
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
	if said == "" {
		return fmt.Sprintf("the attempt took longer than %s", limit)
	}
	return fmt.Sprintf("timed out after %s: %s", limit, said)
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
