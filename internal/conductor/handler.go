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
}

// Handler does the work of actions that name it. What people and other systems say is checked before it is stored, where no
// handler need be: by the configuration (config.Handler.Prepare), and what only a handler knows by its package.
type Handler interface {
	// Do makes one attempt. Its context ends with cause ErrAttemptTimeout, ErrCanceled, ErrShutdown or ErrLeaseLost.
	Do(ctx context.Context, a Attempt) action.Outcome
}

// HandOff is a handler whose work continues elsewhere once it was accepted: Done
// means QUEUED, and an observer says how it ends. Being one is the trait.
type HandOff interface {
	Handler
	// Stop ends work that may have been handed off. Done: it was asked to end, or is not there; Fatal: it
	// cannot be stopped, and the action is given up; anything else is tried again.
	Stop(ctx context.Context, a Attempt) action.Outcome
}

// Causes with which an attempt's context ends.
var (
	ErrAttemptTimeout = errors.New("the attempt took too long")
	ErrCanceled       = errors.New("canceled")
	ErrShutdown       = errors.New("this process is shutting down")
	ErrLeaseLost      = errors.New("this process was declared dead")
)
