// Package loop holds the common parts of loops that run for months: the delay after a failure, jitter, wake-ups, and
// shards of work.
package loop

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Backoff computes the delays of a loop that cannot reach the database or another service: they double, with jitter. The
// zero value is ready to use.
type Backoff struct {
	First time.Duration // 0: 100 ms
	Most  time.Duration // 0: 5 s
	Even  bool          // without jitter

	failures int
}

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// Next counts a failure and returns how long to wait after it.
func (b *Backoff) Next() time.Duration {
	most, delay := cmp.Or(b.Most, maxBackoff), cmp.Or(b.First, firstBackoff)
	for range b.failures {
		if delay >= most {
			break
		}
		delay *= 2
	}
	delay = min(delay, most)
	b.failures++
	if b.Even {
		return delay
	}
	return Jitter(delay)
}

// Reset forgets the failures. Call it after a success.
func (b *Backoff) Reset() { b.failures = 0 }

// Jitter returns d, shortened at random by up to a fifth. Instances thus do not act at the same moment, and none is late.
func Jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/5+1))
}

// Pause waits for d and reports whether it has passed; false means that ctx ended first.
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

// Passing reports whether err means that a service is unavailable, so that the same call may succeed later.
func Passing(err error) bool {
	return fault.Is(err, fault.LedgerUnavailable) || fault.Is(err, fault.Unavailable)
}
