//go:build services

package postgres

import (
	"testing"
	"time"
)

// TestChangesAreManyWhileTheyComeQuickly: a hundred a second are sent at once, three hundred share statements.
func TestChangesAreManyWhileTheyComeQuickly(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for every, want := range map[time.Duration]bool{10 * time.Millisecond: false, 3 * time.Millisecond: true, time.Second: false} {
		var l load
		for range 200 {
			now = now.Add(every)
			l.add(now)
		}
		if l.many() != want {
			t.Errorf("a change every %s: many is %v, want %v", every, l.many(), want)
		}
	}
	var l load
	for range 1000 {
		l.add(now)
	}
	if l.add(now.Add(time.Second)); l.many() {
		t.Error("a burst a second ago still counts")
	}
}
