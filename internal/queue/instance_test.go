package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// TestSilenceIsWatched: an instance is silent only if it was watched for as long as a lease and did not renew its own.
func TestSilenceIsWatched(t *testing.T) {
	t.Parallel()
	self, other := action.DerivedID(time.Now(), "self"), action.DerivedID(time.Now(), "other")
	const second = time.Second
	for name, c := range map[string]struct {
		looks  []time.Duration // since the start
		renews time.Duration   // interval of the lease's renewals
		want   bool
	}{
		"watched for a lease": {looks: []time.Duration{0, 5 * second, 10 * second, 15 * second}, want: true},
		"watched for less":    {looks: []time.Duration{0, 5 * second, 10 * second, 14 * second}},
		"renewed in between":  {looks: []time.Duration{0, 5 * second, 10 * second, 15 * second, 20 * second}, renews: 9 * second},
		"renewed and then silent": {looks: []time.Duration{0, 5 * second, 10 * second, 15 * second, 20 * second,
			25 * second}, renews: 9 * second, want: true},
		"looked at twice":     {looks: []time.Duration{0, time.Hour}},
		"no look for a while": {looks: []time.Duration{0, 5 * second, 10 * second, 25 * second, 30 * second, 35 * second}},
		"and then looks again": {looks: []time.Duration{0, 5 * second, 10 * second, 25 * second, 30 * second,
			35 * second, 40 * second}, want: true},
		"a late look counts for a beat": {looks: []time.Duration{0, 9 * second, 18 * second}},
		"late looks that are enough":    {looks: []time.Duration{0, 9 * second, 18 * second, 27 * second}, want: true},
		"never looked at":               {looks: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &Queue{core: &core{}}
			start, lease := time.Now(), time.Now()
			var silent []action.ID
			for _, at := range c.looks {
				if c.renews > 0 && at >= c.renews {
					lease = start.Add(time.Minute)
				}
				silent = q.silent(self, []InstanceRow{{Instance: Instance{ID: other}, LeaseEnd: lease}}, start.Add(at))
			}
			if got := slices.Contains(silent, other); got != c.want {
				t.Errorf("silent: %v, want %v", got, c.want)
			}
		})
	}
}
