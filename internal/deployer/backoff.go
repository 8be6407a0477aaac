package deployer

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces the tries of a loop whose ledger is away: 100 ms doubling to 5 s, jittered. The zero value is ready.
type backoff struct{ failures int }

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// next is how long to wait after one more failure.
func (b *backoff) next() time.Duration {
	delay := min(maxBackoff, firstBackoff<<min(b.failures, 10))
	b.failures++
	return jitter(delay)
}

func (b *backoff) reset() { b.failures = 0 }

// jitter is d, less up to a fifth of it, so that instances do not move in step and never are late.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/5+1))
}

// pause waits for d; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
