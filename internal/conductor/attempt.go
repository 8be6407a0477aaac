package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
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

// claim identifies an attempt. It is the fence: the ledger refuses the end of an attempt whose
// action has been claimed again since.
type claim struct {
	id     action.ID
	number int
}

// attempt is one claimed action of this instance. It waits for a worker, or a worker runs it.
type attempt struct {
	queue.Claimed
	state turn.Claim
	// owner is the id that this process had when it claimed the action. It differs from the current
	// id once the process was declared dead and joined again; the attempt's end is dropped then.
	owner      action.ID
	ctx        context.Context // the handler's context; nil while the attempt waits for a worker
	cancel     context.CancelCauseFunc
	started    time.Time
	parameters json.RawMessage // the parameters read from the blob store; nil if the row has them
}

// claim returns the claim by which the ledger recognizes the attempt.
func (a *attempt) claim() claim { return claim{a.ID, a.Thread.Attempt} }

// end is a finished attempt with its outcome.
type end struct {
	attempt *attempt
	outcome action.Outcome
	took    time.Duration
}

// start runs an attempt in a goroutine, which sends its end to the loop. Its context derives from
// work, so that the attempt outlives the request to drain.
func (t *claimLoop) start(work context.Context, a *attempt, now time.Time) {
	a.ctx, a.cancel = context.WithCancelCause(work)
	a.started = now
	t.attempts.Go(func() {
		t.metrics.StartLatency.WithLabelValues(a.Handler).Observe(max(0, a.started.Sub(a.Thread.RunAt).Seconds()))
		outcome := t.do(a.ctx, a)
		a.cancel(nil)
		took := time.Since(a.started)
		t.report(a, outcome, took)
		// This never blocks: the channel has room for every worker, and a worker is busy until the
		// loop has received its end.
		t.ended <- end{a, outcome, took}
	})
}

// do makes the attempt within a span. It returns an outcome even if the handler panics.
func (c *Conductor) do(ctx context.Context, a *attempt) action.Outcome {
	ctx, span := c.span(ctx, a)
	outcome := c.handle(ctx, a)
	endSpan(span, outcome)
	return outcome
}

// handle calls the action's handler. It returns an outcome of its own when the handler is not
// configured or the parameters cannot be read.
func (c *Conductor) handle(ctx context.Context, a *attempt) action.Outcome {
	handler, ok := c.table.Load().Handlers[a.Handler]
	switch {
	// A reload removed the handler after the claim. Another instance may still serve it.
	case !ok && action.HandlerOf(a.Lane) == a.Handler:
		return action.Outcome{Kind: action.GivenBack, Code: codeNoHandler,
			Error: fmt.Sprintf("handler %q is not served here any more", a.Handler)}
	// The lane belongs to another handler than the action names. Giving the claim back would bring
	// it to the lane's handler again and again.
	case !ok:
		return action.Outcome{Kind: action.Fatal, Code: codeNoHandler,
			Error: fmt.Sprintf("handler %q is not configured here, but its lane %q belongs to a handler that is", a.Handler, a.Lane)}
	}
	ctx, stop := c.limit(ctx, a)
	defer stop()
	outcome, ok := c.fetch(ctx, a)
	if ok {
		outcome = c.protected(ctx, handler, a)
	}
	return c.refused(a, judge(context.Cause(ctx), a, outcome))
}

// limit returns the context of an attempt, which ends at its timeout or at the action's deadline, whichever is first. So the
// handler knows how long it has. Work that is handed off ends elsewhere: Stop ends it at the deadline.
func (c *Conductor) limit(ctx context.Context, a *attempt) (context.Context, context.CancelFunc) {
	limit := time.Duration(a.Policy.AttemptTimeout)
	if left := time.Until(a.Until); !a.Until.IsZero() && (limit <= 0 || left < limit) && !c.handsOff(a.Handler) {
		return context.WithTimeoutCause(ctx, left, a.pastDeadline())
	}
	if limit > 0 {
		return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w (attemptTimeout: %s)", ErrAttemptTimeout, limit))
	}
	return context.WithCancel(ctx)
}

func (a *attempt) pastDeadline() error {
	return fmt.Errorf("%w (deadline: %s)", ErrDeadline, time.Duration(a.Policy.Deadline))
}

// refused marks an outcome as refused by the target if its error matches the handler's breaker. It
// turns a retry into throttle, so that waiting for the target spends no attempt.
func (c *Conductor) refused(a *attempt, o action.Outcome) action.Outcome {
	if o.Kind != action.Retry || !c.refusing(a.Handler, o.Error) {
		return o
	}
	o.Refused = true
	if a.Delivery != action.AtMostOnce { // the work may be done, and must not be repeated
		o.Kind = action.Throttle
	}
	return o
}

// protected calls the handler and turns its panic into an outcome: a bad action must not end the
// process, and with it all other attempts.
func (c *Conductor) protected(ctx context.Context, handler Handler, a *attempt) (outcome action.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("handler panicked", obs.KeyActionID, a.ID.String(), obs.KeyHandler, a.Handler,
				obs.KeyAttempt, a.Thread.Attempt, obs.KeyError, fmt.Sprint(p), obs.KeyStack, string(debug.Stack()))
			outcome = action.Outcome{Kind: action.Retry, Code: action.CodePanic, Error: fmt.Sprintf("handler %s panicked: %v", a.Handler, p)}
		}
	}()
	held := func() bool { return c.alive(time.Now()) && ctx.Err() == nil } // in this order: a process that joins again cancels first
	return handler.Do(ctx, Attempt{Action: a.whole(), Number: a.Thread.Attempt, Spent: a.Thread.Spent, Held: held})
}

// judge corrects an outcome by the cause with which the attempt's context ended. An end that is
// certain (done, or never possible) stays. Any other outcome may only reflect that the handler was
// interrupted, so the cause decides.
func judge(cause error, a *attempt, o action.Outcome) action.Outcome {
	if o.Kind == action.Done || o.Kind == action.Fatal || o.Kind == action.BadInput {
		return o
	}
	undecided := o.Kind == action.Retry || o.Kind == 0 // the handler reports a failure, or nothing
	switch {
	case errors.Is(cause, ErrDeadline):
		if o.Error == cause.Error() {
			o.Error = "" // the end of the action has the same
		}
		return action.Outcome{Kind: action.Expired, Code: action.CodeDeadline, Error: o.Error, Ref: o.Ref}
	case errors.Is(cause, ErrCanceled):
		return action.Outcome{Kind: action.Stopped, Error: o.Error, Ref: o.Ref}
	case errors.Is(cause, ErrShutdown) && (undecided || o.Kind == action.Stopped):
		// The interrupted attempt may have taken effect: giving it back would do the work twice.
		if a.Delivery == action.AtMostOnce {
			return action.Outcome{Kind: action.Retry, Code: action.CodeOutcomeUnknown, Error: cause.Error(), Ref: o.Ref}
		}
		return action.Outcome{Kind: action.GivenBack, Ref: o.Ref}
	case errors.Is(cause, ErrAttemptTimeout) && undecided:
		o.Kind, o.Code = action.Retry, action.CodeAttemptTimeout
		o.Error = timeoutText(cause, o.Error)
	case o.Kind == 0:
		o.Kind, o.Code = action.Retry, codeNoOutcome
		o.Error = fmt.Sprintf("handler %s returned no outcome", a.Handler)
	}
	return o
}

// timeoutText returns the error of an attempt that its limit ended. reported is the handler's error then, "" for
// nothing; it may name the reason of the attempt's wait.
func timeoutText(limit error, reported string) string {
	switch {
	case reported == "":
		return limit.Error()
	case strings.Contains(reported, limit.Error()):
		return reported
	}
	return limit.Error() + ": " + reported
}

// report counts an ended attempt and logs it, a success only at level debug.
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
		obs.KeySpent, a.Thread.Spent, obs.KeyOutcome, o.Kind.String(), obs.KeyCode, o.Code, obs.KeyError, o.Error,
		obs.KeyDuration, took.Milliseconds()}
	if s := a.Step; s != nil {
		about = append(about, obs.KeyPipeline, s.Pipeline, obs.KeyDeployment, s.Deployment, obs.KeyTarget, s.Target, obs.KeyEvent, s.Event)
	}
	c.log.Log(context.Background(), level, "attempt ended", about...)
}
