package web

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// track is a pipeline's stages drawn as a graph: each stage is in the tier after its last predecessor, and every
// tier but the first begins with the lines that lead into it.
type track struct {
	Pipeline string
	Tiers    []tier
	Straight bool // a chain, which needs no words about what follows what
}

// tier is the stages that have the same number of stages before them on their longest path.
type tier struct {
	Lines []string // paths of an SVG that is lineWidth wide and lineHeight high
	Cells []cell
}

// cell is a stage, or the place where a line passes that leads from an earlier tier to a later one.
type cell struct {
	Stage server.StageView // no name: a line passes
	from  []string         // the cells of the tier before that lead here
	name  string
}

// Tone returns the class of the stage's state: that of the newest deployment inside, else of what it has.
func (c cell) Tone() string {
	if n := len(c.Stage.Inside); n > 0 {
		return insideTone(c.Stage.Inside[n-1])
	}
	if c.Stage.Current != nil {
		return "t-finished"
	}
	return "t-waiting"
}

// insideTone returns the class of a deployment inside a stage. One that failed elsewhere has stopped here.
func insideTone(at server.Standing) string {
	if at.Status == pipeline.StatusFailed && !at.FailedHere {
		return "t-stopped"
	}
	return toneClass(at.Status)
}

// The size of the drawing between two tiers, in units of its own: the browser stretches it to the tier's height.
const (
	lineWidth  = 28
	lineHeight = 1000
)

// trackOf lays out a pipeline's stages.
func trackOf(name string, stages []server.StageView) track {
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

// depthsOf counts the stages on the longest path to each stage. It ends on a cycle too, which no definition has.
func depthsOf(stages []server.StageView) map[string]int {
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

// cellsAt returns the stages of a tier in their order, then the lines that pass it: one for each stage before it that
// has a successor behind it.
func cellsAt(at int, stages []server.StageView, depths map[string]int) (cells []cell) {
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

// sourceCell names the cell right before a tier from which the line of a stage comes: the stage, or where its line passes.
func sourceCell(stage string, at int, depths map[string]int) string {
	if depths[stage] == at-1 {
		return stage
	}
	return passingCell(stage)
}

// passingCell names the cells through which the line of a stage passes. No stage has such a name.
func passingCell(stage string) string { return "past " + stage }

// middle returns where the lines into a cell come from on average, so that few of them cross.
func (c cell) middle(before []cell) float64 {
	sum := 0
	for _, name := range c.from {
		sum += slices.IndexFunc(before, func(b cell) bool { return b.name == name })
	}
	return float64(sum) / float64(max(1, len(c.from)))
}

// linesBetween draws the lines from one tier's cells to the next one's. Cells of a tier are equally high.
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
