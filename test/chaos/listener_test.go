//go:build linux && services

package chaos_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/chaos"
)

// TestListenerIsCut ends the connection that waits for notifications and holds the instance's lock,
// again and again. It comes back each time before another instance takes the process for dead.
func TestListenerIsCut(t *testing.T) {
	t.Parallel()
	w, proxy := proxied(t, 0)
	serve(t, w, "conductor")
	joined(t, w)
	stop := churn(t, w)
	cut := 0
	for range 10 {
		pause(t.Context(), 400*time.Millisecond)
		cut += proxy.Cut(chaos.Listening)
	}
	stop()
	judged(t, w)
	if cut < 10 {
		t.Errorf("%d connections were cut", cut)
	}
}

// TestListenerFallsSilent has the network swallow what the listeners' connections carry, without a
// word to either side. Polling continues; what the listener does not hear costs a poll at most.
func TestListenerFallsSilent(t *testing.T) {
	t.Parallel()
	w, proxy := proxied(t, 0)
	p, _ := joined(t, w)
	if proxy.Silence(false, chaos.Listening) == 0 {
		t.Fatal("no listener is connected")
	}
	began := time.Now()
	order(t, w, chaos.Effect, "{}", 20)
	judged(t, w)
	t.Logf("20 actions ended %s after they were ordered", time.Since(began).Round(time.Millisecond))
	if lost := p.Output.Lines("declared dead"); len(lost) > 0 {
		t.Errorf("it was declared dead: %s", lost)
	}
}

// TestEverythingFallsSilent has the network swallow what all connections of one of two conductors
// carry. The other takes over within a lease and a heartbeat; what the silent one did is refused
// when it is back.
func TestEverythingFallsSilent(t *testing.T) {
	t.Parallel()
	w, proxy := proxied(t, soon)
	release := w.Target.Hold()
	order(t, w, chaos.Effect, "{}", 20)
	p, silent := joined(t, w)
	holds(t, w, silent, 20)
	other, err := w.ServeOn(t.Context(), w.Direct, "conductor")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Kill)
	if _, err := other.Joined(t.Context(), "conductor"); err != nil {
		t.Fatal(err)
	}
	proxy.Silence(true, chaos.Any)
	began := time.Now()
	free(t, w, silent)
	t.Logf("its claims were free %s after it fell silent", time.Since(began).Round(time.Millisecond))
	release()
	ended(t, w)
	proxy.Cut(chaos.Any)
	proxy.Speak()
	if _, err := p.Joined(t.Context(), "conductor"); err != nil {
		t.Error(err)
	}
	order(t, w, chaos.Effect, "{}", 20)
	judged(t, w)
}
