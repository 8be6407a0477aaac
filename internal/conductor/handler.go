package conductor

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/action"
)

// Attempt is one try at an action.
type Attempt struct {
	Action action.Action
	Number int // counts claims from 1; the fence
	Spent  int // attempts that count against the policy's retries
	// Held reports whether the claim certainly lasts; nil: it does. The context of a process that was stopped may end later than its claim, so
	// a handler checks right before an effect that its repetition could not find.
	Held func() bool
}

// Handler does the work of actions that name it. It may expect valid parameters: input is checked
// before it is stored, by processes that may not run the handler. The configuration checks it
// (config.Handler.Prepare), with functions of the handler's package where only that knows the
// rules.
type Handler interface {
	// Do makes one attempt. Its context ends with cause ErrAttemptTimeout, ErrDeadline, ErrCanceled,
	// ErrShutdown or ErrLeaseLost.
	Do(ctx context.Context, a Attempt) action.Outcome
}

// HandOff is a handler whose work continues elsewhere after it was accepted: Done means QUEUED, and
// an observer reports how the work ends. A handler hands off if and only if it implements HandOff.
type HandOff interface {
	Handler
	// Stop ends work that may have been handed off. It returns Done if the work was asked to end or
	// does not exist, and Fatal if it cannot be stopped; the action ends in both cases. After any
	// other outcome Stop is called again.
	Stop(ctx context.Context, a Attempt) action.Outcome
}

// Causes with which an attempt's context ends. That of a limit also names the key of the limit and its value.
var (
	ErrAttemptTimeout = errors.New("the attempt took too long")
	ErrDeadline       = errors.New("all attempts together took too long")
	ErrCanceled       = errors.New("canceled")
	ErrShutdown       = errors.New("this process is shutting down")
	ErrLeaseLost      = errors.New("this process was declared dead")
)
