package obs

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Lane is the state of a limited lane.
type Lane struct {
	Handler  string
	Lane     string
	Rate     float64       // attempts a second that it may start; 0: none
	Slowed   time.Duration // how long it has been slowed; 0: it is not
	Disabled bool
}

// worstLanes is the number of lanes that have their own series; the rest is summed up as "other".
const worstLanes = 50

// Lanes reads the state of lanes when metrics are collected, so that a lane without attempts is
// shown as it is now.
type Lanes struct {
	rate, slowed, disabled *prometheus.Desc

	mu   sync.Mutex
	read func() []Lane
}

func newLanes() *Lanes {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(Namespace, "conductor", name), help, []string{"handler", "lane"}, nil)
	}
	return &Lanes{
		rate:     describe("lane_rate", "Attempts a second that a limited lane may start."),
		slowed:   describe("lane_slowed_seconds", "How long a lane has been slowed; 0: it is not."),
		disabled: describe("lane_disabled", "1: the lane runs nothing until a person enables it."),
	}
}

// Watch sets the function that reads the lanes, the worst first.
func (l *Lanes) Watch(read func() []Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = read
}

// Describe implements prometheus.Collector.
func (l *Lanes) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{l.rate, l.slowed, l.disabled} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (l *Lanes) Collect(to chan<- prometheus.Metric) {
	l.mu.Lock()
	read := l.read
	l.mu.Unlock()
	if read == nil {
		return
	}
	for _, lane := range worst(read()) {
		gauge := func(d *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, lane.Handler, lane.Lane)
		}
		gauge(l.rate, lane.Rate)
		gauge(l.slowed, lane.Slowed.Seconds())
		disabled := 0.0
		if lane.Disabled {
			disabled = 1
		}
		gauge(l.disabled, disabled)
	}
}

// worst keeps the first lanes and sums up the rest of each handler.
func worst(lanes []Lane) []Lane {
	if len(lanes) <= worstLanes {
		return lanes
	}
	kept, others := append([]Lane(nil), lanes[:worstLanes]...), map[string]int{}
	for _, lane := range lanes[worstLanes:] {
		i, there := others[lane.Handler]
		if !there {
			i = len(kept)
			others[lane.Handler] = i
			kept = append(kept, Lane{Handler: lane.Handler, Lane: "other"})
		}
		kept[i].Rate += lane.Rate
		kept[i].Slowed = max(kept[i].Slowed, lane.Slowed)
		kept[i].Disabled = kept[i].Disabled || lane.Disabled
	}
	return kept
}
