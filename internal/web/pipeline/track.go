package pipeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// track draws a pipeline's stages as a graph. Each stage is in the tier after its last
// predecessor, and every tier but the first begins with the lines into it.
type track struct {
	Pipeline string
	Tiers    []tier
	Straight bool // the stages form a chain, whose order needs no text
}

// tier holds the stages whose longest path from a first stage has the same length.
type tier struct {
	Lines []string // paths of an SVG of lineWidth by lineHeight
	Cells []cell
}

// cell is a stage, or the place where a line from an earlier tier to a later one passes.
type cell struct {
	Stage service.StageView // no name: a line passes here
	from  []string          // cells of the previous tier that lead here
	name  string
}

// Tone returns the tone of the stage: of the newest deployment inside, else of the current one.
func (c cell) Tone() page.Tone {
	if n := len(c.Stage.Inside); n > 0 {
		return insideTone(c.Stage.Inside[n-1])
	}
	if c.Stage.Current != nil {
		return page.Finished
	}
	return page.Waiting
}

// insideTone returns the tone of a deployment inside a stage. A deployment that failed elsewhere
// is stopped here.
func insideTone(at service.Standing) page.Tone {
	if at.Status == pipeline.StatusFailed && !at.FailedHere {
		return page.Stopped
	}
	return page.ToneOf(at.Status)
}

// conditionTone returns the tone of a condition.
func conditionTone(c service.Condition) page.Tone {
	switch c.State {
	case service.ConditionOpen, service.ConditionPassed:
		return page.Finished
	case service.ConditionClosed:
		return page.Held
	case service.ConditionWaiting:
		if c.Kind == service.ApprovalCondition && c.Deployment != 0 {
			return page.Held // a person has to act
		}
	}
	return page.ToneOf(c.State)
}

// The size of the drawing between two tiers, in its own units. The browser stretches it to the
// tier's height.
const (
	lineWidth  = 28
	lineHeight = 1000
)

// trackOf returns the layout of a pipeline's stages.
func trackOf(name string, stages []service.StageView) track {
	t := track{Pipeline: name, Straight: true}
	for i, stage := range stages {
		if i > 0 && !slices.Equal(stage.After, []string{stages[i-1].Name}) {
			t.Straight = false
		}
	}
	depths := depthsOf(stages)
	for at := range 1 + deepest(depths) {
		cells := cellsAt(at, stages, depths)
		if at > 0 {
			before := t.Tiers[at-1].Cells
			slices.SortStableFunc(cells, func(a, b cell) int { return cmp.Compare(a.middle(before), b.middle(before)) })
		}
		t.Tiers = append(t.Tiers, tier{Cells: cells})
	}
	for at := 1; at < len(t.Tiers); at++ {
		t.Tiers[at].Lines = linesBetween(t.Tiers[at-1].Cells, t.Tiers[at].Cells)
	}
	return t
}

// depthsOf returns the number of stages on the longest path to each stage. It also ends on a cycle,
// which no definition has.
func depthsOf(stages []service.StageView) map[string]int {
	depths := map[string]int{}
	for range stages {
		changed := false
		for _, stage := range stages {
			for _, name := range stage.After {
				depth := min(max(depths[stage.Name], depths[name]+1), len(stages)-1)
				changed = changed || depth != depths[stage.Name]
				depths[stage.Name] = depth
			}
		}
		if !changed { // after one more round than the order of the stages needs
			break
		}
	}
	return depths
}

func deepest(depths map[string]int) (most int) {
	for _, depth := range depths {
		most = max(most, depth)
	}
	return most
}

// cellsAt returns the stages of a tier in their order, then the lines that pass it: one for each
// earlier stage with a later successor.
func cellsAt(at int, stages []service.StageView, depths map[string]int) (cells []cell) {
	passing := map[string]bool{}
	for _, stage := range stages {
		for _, name := range stage.After {
			if depths[name] < at && depths[stage.Name] > at {
				passing[name] = true
			}
		}
		if depths[stage.Name] != at {
			continue
		}
		c := cell{Stage: stage, name: stage.Name}
		for _, name := range stage.After {
			c.from = append(c.from, sourceCell(name, at, depths))
		}
		cells = append(cells, c)
	}
	for _, stage := range stages {
		if passing[stage.Name] {
			cells = append(cells, cell{name: passingCell(stage.Name), from: []string{sourceCell(stage.Name, at, depths)}})
		}
	}
	return cells
}

// sourceCell returns the name of the cell in the previous tier from which the line of a stage
// comes: the stage, or the place where its line passes.
func sourceCell(stage string, at int, depths map[string]int) string {
	if depths[stage] == at-1 {
		return stage
	}
	return passingCell(stage)
}

// passingCell returns the name of the cells through which the line of a stage passes. No stage can
// have such a name.
func passingCell(stage string) string { return "past " + stage }

// middle returns the average position of the sources of a cell. Cells sorted by it have few
// crossing lines.
func (c cell) middle(before []cell) float64 {
	sum := 0
	for _, name := range c.from {
		sum += slices.IndexFunc(before, func(b cell) bool { return b.name == name })
	}
	return float64(sum) / float64(max(1, len(c.from)))
}

// linesBetween returns the lines from the cells of one tier to those of the next. The cells of a
// tier have equal heights.
func linesBetween(left, right []cell) (lines []string) {
	height := func(i, n int) int { return (2*i + 1) * lineHeight / (2 * n) }
	for j, to := range right {
		for i, from := range left {
			if slices.Contains(to.from, from.name) {
				y, end := height(i, len(left)), height(j, len(right))
				lines = append(lines, fmt.Sprintf("M0 %d C%d %d %d %d %d %d", y, lineWidth/2, y, lineWidth/2, end, lineWidth, end))
			}
		}
	}
	return lines
}
