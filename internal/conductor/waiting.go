package conductor

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
)

// askAgain is how long completions wait whose followers could not be planned: documents of callbacks are away.
const askAgain = time.Second

// waiting are completions that a turn left out, and when they are tried again.
type waiting struct {
	completions []ledger.Completion
	until       time.Time
}

// postpone keeps completions that cannot be recorded now, unless their instance is no more.
func (c *Conductor) postpone(owner ledger.Instance, completions []ledger.Completion, deferred ledger.Deferred) {
	if len(deferred.IDs) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner.ID != c.instance.ID {
		return
	}
	for _, one := range completions {
		if slices.Contains(deferred.IDs, one.ID) {
			c.waiting.completions = append(c.waiting.completions, one)
		}
	}
	c.waiting.until = time.Now().Add(askAgain)
	c.log.Warn("callbacks cannot be planned; their actions end later", obs.KeyActionID, deferred.IDs[0].String(), obs.KeyCount, len(deferred.IDs),
		obs.KeyError, deferred.Why, obs.KeyRetryIn, askAgain.String())
}

// again queues what has waited long enough. The caller holds mu.
func (c *Conductor) again(now time.Time) {
	if len(c.waiting.completions) == 0 || now.Before(c.waiting.until) {
		return
	}
	some := c.waiting.completions
	c.waiting.completions = nil
	c.queue(some...)
}

// due says when something has waited long enough; false: nothing waits.
func (w waiting) due() (time.Time, bool) { return w.until, len(w.completions) > 0 }
