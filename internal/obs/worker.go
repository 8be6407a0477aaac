package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Worker is the metrics of a build's worker. A nil one counts nothing.
type Worker struct {
	create      promauto.Factory
	stepSeconds *prometheus.HistogramVec // type, status
	outputBytes prometheus.Counter
}

// NewWorker makes the metrics and registers them.
func NewWorker(to prometheus.Registerer) *Worker {
	create, at := promauto.With(to), named("worker")
	return &Worker{
		create:      create,
		stepSeconds: create.NewHistogramVec(at.histogram("step_seconds", "How long steps took that ran.", long()), []string{"type", "status"}),
		outputBytes: create.NewCounter(at.counter("output_bytes_total", "Bytes that steps printed, without the ends of lines.")),
	}
}

// CountMasked counts the places at which secrets were replaced, by a function that returns their number so far. Call it once.
func (w *Worker) CountMasked(marks func() int64) {
	if w != nil {
		w.create.NewCounterFunc(named("worker").counter("masked_total", "Places at which a secret was replaced in what steps printed."),
			func() float64 { return float64(marks()) })
	}
}

// StepEnded counts a step that ran.
func (w *Worker) StepEnded(kind, status string, took time.Duration) {
	if w != nil {
		w.stepSeconds.WithLabelValues(kind, status).Observe(took.Seconds())
	}
}

// Printed counts the output of a step.
func (w *Worker) Printed(bytes int) {
	if w != nil {
		w.outputBytes.Add(float64(bytes))
	}
}
