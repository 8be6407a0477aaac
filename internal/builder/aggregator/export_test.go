package aggregator

import "time"

// Hurry makes the delays after failures with workers short.
func (a *Aggregator) Hurry() *Aggregator {
	a.delay, a.most = time.Millisecond, 20*time.Millisecond
	return a
}
