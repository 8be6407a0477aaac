package pipeline

import (
	"cmp"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// metricsPage is the data of the page of a pipeline's metrics: frequency, speed and safety of
// changes.
type metricsPage struct {
	Pipeline string
	Weeks    int64
	Choices  []int64
	Stages   []measuredStage
}

// measuredStage holds the metrics of a stage and a drawing of its weeks.
type measuredStage struct {
	service.StageMetrics
	Bars []weekBar // oldest first
}

// weekBar draws the changes of a week, up to weekHeight.
type weekBar struct {
	X, Good, Bad int // place of the week; height of its finished changes; height of its failed changes
}

// The size of the drawing of a week, in its own units.
const (
	weekWidth  = 10
	weekHeight = 40
)

// Base returns the y of the bar's finished part.
func (b weekBar) Base() int { return weekHeight - b.Good }

// Top returns the y of the bar's failed part, above the finished one.
func (b weekBar) Top() int { return weekHeight - b.Good - b.Bad }

// Width returns the width of the drawing of the weeks.
func (m measuredStage) Width() int { return max(1, len(m.Bars)) * weekWidth }

// metrics returns the page of the metrics of a pipeline.
func (p *pages) metrics(r *http.Request) (page.Content, error) {
	weeks, err := page.Number(r, "weeks")
	if err != nil {
		return page.Content{}, err
	}
	data := metricsPage{Pipeline: r.PathValue("pipeline"), Weeks: cmp.Or(weeks, 12), Choices: []int64{4, 12, 26, 52}}
	q := service.MetricsQuery{Pipeline: data.Pipeline, Weeks: int(min(data.Weeks, 1000))}
	stages, err := p.service.Metrics(r.Context(), q)
	for _, stage := range stages {
		data.Stages = append(data.Stages, measuredStage{stage, weekBars(stage.Weeks)})
	}
	return page.Content{Title: "Metrics of " + data.Pipeline, Nav: "pipelines", Data: data}, err
}

// weekBars returns the drawing of weeks. The week with the most changes has the full height.
func weekBars(weeks []service.Week) (bars []weekBar) {
	most := 1
	for _, week := range weeks {
		most = max(most, week.Changes)
	}
	for i, week := range weeks {
		bad := week.Failures * weekHeight / most
		bars = append(bars, weekBar{X: i * weekWidth, Good: (week.Changes - week.Failures) * weekHeight / most, Bad: bad})
	}
	return bars
}

// date returns the day.
func date(t time.Time) string { return t.UTC().Format("2 Jan 2006") }

// length returns a duration for people.
func length(d action.Duration) string { return service.Took(time.Duration(d)) }
