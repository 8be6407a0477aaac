package obs

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheWorstLanesStandAlone(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	c := NewConductor(registry)
	c.Lanes.Watch(func() []Lane {
		lanes := []Lane{{Handler: "a", Lane: "a/gone", Disabled: true}, {Handler: "a", Lane: "a/slow", Rate: 2, Slowed: time.Minute}}
		for i := range 60 {
			lanes = append(lanes, Lane{Handler: "b", Lane: fmt.Sprintf("b/%02d", i), Rate: 1})
		}
		return lanes
	})
	for metric, want := range map[string]string{
		"lane_rate": `{handler="b",lane="other"} 12`, "lane_slowed_seconds": `{handler="a",lane="a/slow"} 60`,
		"lane_disabled": `{handler="a",lane="a/gone"} 1`,
	} {
		name := "waybill_conductor_" + metric
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found, series := false, 0
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() != name {
					continue
				}
				series++
				labels := m.GetLabel()
				line := fmt.Sprintf(`{handler=%q,lane=%q} %g`, labels[0].GetValue(), labels[1].GetValue(), m.GetGauge().GetValue())
				found = found || line == want
			}
		}
		if series != worstLanes+1 {
			t.Errorf("%s: %d series, want %d", name, series, worstLanes+1)
		}
		if !found {
			t.Errorf("%s%s is missing", name, want)
		}
	}
}
