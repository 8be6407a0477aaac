package deployer_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/deployer"
)

// TestSlowPipelineDelaysNoOther lets the passes of one pipeline hang for a minute each.
func TestSlowPipelineDelaysNoOther(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.slow = func(pipeline string) {
			if pipeline == "slow" {
				<-time.After(time.Minute)
			}
		}
		f.define(t, greeter("slow"))
		f.define(t, greeter("greeter"))
		_, stop := run(t, f)
		elapse(time.Second)
		f.create("slow", 1)
		f.create("greeter", 1)
		workUntilDone(t, f, "greeter") // within ten seconds
		checkFacts(t, f, "greeter")
		for range 100 {
			elapse(time.Minute)
			f.work("slow")
		}
		checkFacts(t, f, "slow")
		stop()
	})
}

// TestPassesAreBounded has more pipelines with news than passes may be in progress.
func TestPassesAreBounded(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		const pipelines = 3 * deployer.Parallel
		f := newFake()
		var mu sync.Mutex
		most, under := 0, 0
		busy := map[string]bool{}
		f.slow = func(pipeline string) {
			mu.Lock()
			under++
			most = max(most, under)
			if busy[pipeline] {
				t.Errorf("%s has two passes under way", pipeline)
			}
			busy[pipeline] = true
			mu.Unlock()
			<-time.After(10 * time.Millisecond)
			mu.Lock()
			busy[pipeline] = false
			under--
			mu.Unlock()
		}
		for i := range pipelines {
			f.define(t, greeter(fmt.Sprintf("greeter-%d", i)))
		}
		_, stop := run(t, f)
		for i := range pipelines {
			f.create(fmt.Sprintf("greeter-%d", i), 1)
		}
		for range 100 {
			elapse(100 * time.Millisecond)
			for i := range pipelines {
				f.work(fmt.Sprintf("greeter-%d", i))
			}
		}
		for i := range pipelines {
			checkFacts(t, f, fmt.Sprintf("greeter-%d", i))
		}
		stop()
		if most != deployer.Parallel {
			t.Errorf("at most %d passes were under way, want %d", most, deployer.Parallel)
		}
	})
}

// TestNewsDuringAPassIsPassedAtItsEnd appends to a log while its pass is in progress, and announces it only then.
func TestNewsDuringAPassIsPassedAtItsEnd(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		_, stop := run(t, f)
		elapse(time.Second)
		var once sync.Once
		f.mu.Lock()
		f.afterPass = func() {
			once.Do(func() {
				f.create("greeter", 2)
				<-time.After(time.Second) // the news is read while the pass is in progress
			})
		}
		f.mu.Unlock()
		f.create("greeter", 1)
		elapse(2 * time.Second)
		if live := len(f.head("greeter").live); live != 2 {
			t.Errorf("%d builds are under way, want those of both deployments", live)
		}
		stop()
	})
}
