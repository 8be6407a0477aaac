// Package semaphore bounds how many callers do something expensive at a time, and how long one more
// waits.
package semaphore

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Semaphore lets a number of callers do one thing at a time. Safe for concurrent use.
type Semaphore struct {
	tokens   chan struct{} // holds one for each caller that is doing it
	patience time.Duration
	busy     string
}

// New returns a semaphore for n callers at a time. One more waits as long as patience, and is then
// refused with an error that begins with busy, such as "too many lists are being read".
func New(n int, patience time.Duration, busy string) *Semaphore {
	return &Semaphore{tokens: make(chan struct{}, n), patience: patience, busy: busy}
}

// Acquire waits until the caller may begin; the caller calls release once it has finished. A caller
// that has waited as long as the semaphore's patience gets fault.Unavailable.
func (s *Semaphore) Acquire(ctx context.Context) (release func(), err error) {
	full := time.NewTimer(s.patience)
	defer full.Stop()
	select {
	case s.tokens <- struct{}{}:
		return func() { <-s.tokens }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-full.C:
		err := fault.New(fault.Unavailable, "%s, and none ended within %s", s.busy, s.patience)
		return nil, err.WithHint("try again soon, with fewer requests at a time")
	}
}
