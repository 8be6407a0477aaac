package action

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"
)

// DefaultPolicy returns the policy of an action whose handler configures none.
func DefaultPolicy() Policy {
	return Policy{
		Retries:        5,
		Initial:        Duration(5 * time.Second),
		Factor:         2,
		Max:            Duration(5 * time.Minute),
		Jitter:         0.1,
		AttemptTimeout: Duration(30 * time.Second),
		Deadline:       Duration(7 * 24 * time.Hour),
	}
}

// Unbounded is the number of retries of a policy whose deadline alone ends an action.
const Unbounded = math.MaxInt32

// Attempts returns the most attempts at an action; 0: no bound.
func (p Policy) Attempts() int {
	if p.Retries >= Unbounded {
		return 0
	}
	return p.Retries + 1
}

// Delay returns how long to wait after the n-th attempt that failed, n from 1. The jitter comes
// from the id and n, so every instance computes the same delay.
func (p Policy) Delay(id ID, n int) time.Duration {
	delay := float64(p.plain(max(n, 1)))
	delay *= 1 + p.Jitter*(2*unit(id, n)-1)
	return time.Duration(min(max(delay, 0), math.MaxInt64/2))
}

// plain returns the n-th back-off without jitter. The last one of a schedule repeats.
func (p Policy) plain(n int) time.Duration {
	if len(p.Schedule) > 0 {
		return time.Duration(p.Schedule[min(n, len(p.Schedule))-1])
	}
	delay := float64(p.Initial) * math.Pow(max(p.Factor, 1), float64(n-1))
	if p.Max > 0 {
		delay = min(delay, float64(p.Max))
	}
	return time.Duration(min(delay, math.MaxInt64/2))
}

// unit returns a number in [0, 1) that is evenly distributed over ids, and always the same for an
// id and n.
func unit(id ID, n int) float64 {
	seed := binary.BigEndian.AppendUint64(id[:], uint64(n))
	sum := sha256.Sum256(seed)
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}
