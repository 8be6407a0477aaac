package loop_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/loop"
)

// TestBackoffReachesItsLongestDelay however short the first one is, and stays there.
func TestBackoffReachesItsLongestDelay(t *testing.T) {
	t.Parallel()
	b := loop.Backoff{First: 5 * time.Millisecond, Most: 5 * time.Minute, Even: true}
	want := 5 * time.Millisecond
	for n := range 200 {
		if got := b.Next(); got != min(want, 5*time.Minute) {
			t.Fatalf("delay %d is %s, want %s", n, got, min(want, 5*time.Minute))
		}
		if want < 5*time.Minute {
			want *= 2
		}
	}
}
