package resource_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/promoter/resource"
)

// TestMinReadyIsACountOrAPercentage: a percentage is rounded up, and more than half of the targets are needed, so that
// two revisions never both qualify.
func TestMinReadyIsACountOrAPercentage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		minReady      string
		targets, want int // want 0: it is refused
	}{
		{"80%", 10, 8}, {"81%", 10, 9}, {"100%", 10, 10}, {"51%", 10, 6}, {"51%", 3, 2}, {"67%", 3, 3}, {"51%", 1, 1},
		{"51%", 0, 0}, {"50%", 10, 0}, {"101%", 10, 0}, {"0%", 10, 0},
		{"6", 10, 6}, {"10", 10, 10}, {"5", 10, 0}, {"11", 10, 0}, {"2", 3, 2}, {"1", 3, 0}, {"1", 1, 1}, {"0", 1, 0},
	} {
		t.Run(fmt.Sprintf("%s of %d", c.minReady, c.targets), func(t *testing.T) {
			t.Parallel()
			var targets []string
			for i := range c.targets {
				targets = append(targets, fmt.Sprintf("{namespace: n%d}", i))
			}
			text := "{name: prod, minReady: " + c.minReady + ", targets: [" + strings.Join(targets, ", ") + "]}"
			p, faults := resource.Parse(edited(t, "spec.environments.2", from(t, text)), resource.Options{Now: now})
			isRefused := len(faults) > 0
			if want := c.want == 0 && c.targets > 0; isRefused != want {
				t.Fatalf("refused %v, want %v: %v", isRefused, want, faults)
			}
			if !isRefused && p.Spec.Environments[2].Need != c.want {
				t.Errorf("got %d, want %d", p.Spec.Environments[2].Need, c.want)
			}
		})
	}
}
