package conductor

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

const (
	sampleEvery = 15 * time.Second
	samplePart  = 20 // sampling takes at most 1/samplePart of the time, however many actions are live
)

// measure samples the ledger regularly while this instance leads. Otherwise it clears the sample,
// since sums over instances would count the same actions several times.
func (c *Conductor) measure(ctx context.Context) {
	sampled := c.cfg.Ledger.Sampled
	defer sampled.Set(nil)
	wait := sampleEvery
	for loop.Pause(ctx, wait) {
		wait = sampleEvery
		if !c.leads.Load() {
			sampled.Set(nil)
			continue
		}
		began := time.Now()
		sample, err := c.ledger.Sample(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.log.Warn("measuring the ledger failed", obs.Error(err))
			}
			continue
		}
		sampled.Set(shown(sample))
		wait = max(sampleEvery, samplePart*time.Since(began))
	}
}

// shown converts a sample to metrics.
func shown(s queue.Sample) *obs.Sample {
	m := &obs.Sample{Threads: map[[2]string]int{}, Oldest: map[string]time.Duration{}, DeadTuples: s.Strain.DeadTuples}
	if p := s.Partitions; p != nil {
		m.Partitions = &obs.Partitions{Ahead: p.Ahead, Pinned: len(p.Pinned)}
	}
	for _, b := range s.Backlogs {
		for status := action.Pending; status.Live(); status++ {
			m.Threads[[2]string{b.Handler, status.String()}] = b.Counts[status]
		}
		m.Oldest[b.Handler] = 0
		if b.Ready > 0 {
			m.Oldest[b.Handler] = max(0, s.Now.Sub(b.Oldest))
		}
	}
	return m
}
