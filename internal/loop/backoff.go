// Package loop holds what loops that run for months share: the delay after a failure, jitter, and wake-ups.
package loop

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Backoff spaces the tries of a loop whose ledger is away: 100 ms doubling to 5 s, jittered. The zero value is ready.
type Backoff struct{ failures int }

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// Next is how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	delay := min(maxBackoff, firstBackoff<<min(b.failures, 10))
	b.failures++
	return Jitter(delay)
}

// Reset forgets the failures: it went well.
func (b *Backoff) Reset() { b.failures = 0 }

// Jitter is d, less up to a fifth of it, so that instances do not move in step and never are late.
func Jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/5+1))
}

// Pause waits for d; false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Passing reports whether err says that the ledger is away, which passes by itself.
func Passing(err error) bool {
	return fault.Is(err, fault.LedgerUnavailable) || fault.Is(err, fault.Unavailable)
}
