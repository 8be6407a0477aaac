package service

import (
	"maps"
	"sync"
	"time"
)

// observedLasts is the age from which an observation is not shown: the loop must have stopped.
const observedLasts = 5 * time.Minute

// observations are the last answers that Observe got, by lookKey. Requests read them, so that no request asks hundreds of
// hosts.
type observations struct {
	mu  sync.Mutex
	all map[string]observation
}

// observation is a host's answer.
type observation struct {
	seen sight
	seq  int64 // the end of the pipeline's log before the host was asked
}

// lastObserved returns the last answer of a host. It is false if there is none, or if the log has changed the host since.
func (o *observations) lastObserved(host *HostView) (sight, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, found := o.all[host.lookKey()]
	if !found || last.seq < host.changed || time.Since(last.seen.at) > observedLasts {
		return sight{}, false
	}
	return last.seen, true
}

// keep stores the answer of a host.
func (o *observations) keep(host *HostView, last observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all[host.lookKey()] = last
}

// forgetOthers removes the answers of hosts that are not among keys.
func (o *observations) forgetOthers(keys map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.all, func(key string, _ observation) bool { return !keys[key] })
}

// failures returns 1 if a host did not answer to the last poll, else 0.
func (o *observations) failures(host *HostView) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[host.lookKey()].seen.err != nil {
		return 1
	}
	return 0
}
