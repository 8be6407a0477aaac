//go:build race

package bubbletest

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// running counts the bubbles of this process.
var running struct {
	sync.Mutex
	bubbles    int
	processors int // before the first
}

// Test runs f in a bubble, and Go code on one processor in the meantime. All timers of a bubble share one context of
// the race detector, and Go 1.26 runs those that are due on any processor: two at a time destroy the context, which
// ends the process or corrupts its memory. The detector compares what happens before what, so it finds races on one
// processor as well.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	enter()
	defer leave()
	synctest.Test(t, f)
}

func enter() {
	running.Lock()
	defer running.Unlock()
	if running.bubbles == 0 {
		running.processors = runtime.GOMAXPROCS(1)
	}
	running.bubbles++
}

func leave() {
	running.Lock()
	defer running.Unlock()
	running.bubbles--
	if running.bubbles == 0 {
		runtime.GOMAXPROCS(running.processors)
	}
}
