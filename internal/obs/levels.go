package obs

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Level is a pipeline's current count of something.
type Level struct {
	Pipeline string
	Label    string // value of the gauge's own label; of a gauge without one ""
	N        int
}

// Levels is a gauge of all pipelines together, or of each. It is not safe for concurrent use.
type Levels struct {
	vec         *prometheus.GaugeVec
	perPipeline bool
	labelled    bool
	shown       map[string][]string // label values of the series, by all in one text
}

// newLevels returns a gauge with at most one label of its own.
func newLevels(perPipeline bool, make func(labels []string) *prometheus.GaugeVec, own ...string) *Levels {
	var labels []string
	if perPipeline {
		labels = append(labels, "pipeline")
	}
	return &Levels{vec: make(append(labels, own...)), perPipeline: perPipeline, labelled: len(own) > 0, shown: map[string][]string{}}
}

// Show sets all series, each to the sum of its levels. Series without a level end. A reader in the meantime sees old
// or new values of a series, never a part of a sum.
func (l *Levels) Show(levels []Level) {
	series, sums := map[string][]string{}, map[string]int{}
	for _, level := range levels {
		var values []string
		if l.perPipeline {
			values = append(values, level.Pipeline)
		}
		if l.labelled {
			values = append(values, level.Label)
		}
		key := strings.Join(values, "\x00")
		series[key] = values
		sums[key] += level.N
	}
	for key, values := range series {
		l.vec.WithLabelValues(values...).Set(float64(sums[key]))
	}
	for key, values := range l.shown {
		if _, still := series[key]; !still {
			l.vec.DeleteLabelValues(values...)
		}
	}
	l.shown = series
}
