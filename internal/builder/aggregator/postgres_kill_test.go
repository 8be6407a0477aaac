//go:build services

package aggregator_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/pgtest"
)

// TestTheDatabaseIsKilledInTheMiddle: the server crashes in the middle of a log, stays away for some tries, and recovers.
func TestTheDatabaseIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	w := newWorld(t, server.URL())
	w.build(60_000)
	for range 3 {
		reached := make(chan struct{})
		limit := &limited{Store: w.Builds, left: 4, reached: reached, after: true}
		stop := w.aggregate(func(c *aggregator.Config) { c.Store = limit })
		select {
		case <-reached:
		case <-w.server.Acknowledged():
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		stop()
		refused := &counting{Store: w.Builds, failed: make(chan struct{}, 100)}
		stop = w.aggregate(func(c *aggregator.Config) { c.Store = refused })
		for range 3 {
			<-refused.failed
		}
		if err := server.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
	}
	w.aggregate()
	w.taken()
	w.check()
}

// TestTheDatabasesClockDiffers: it is three hours ahead of everyone else's.
func TestTheDatabasesClockDiffers(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.SetClock(3 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := server.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	clocksDiffer(t, server.URL())
}
