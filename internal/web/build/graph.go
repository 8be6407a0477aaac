package build

import (
	"slices"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/server"
)

// stageColumn is a stage of the graph.
type stageColumn struct {
	Name  string
	Steps []stepCard
	More  int // number of further steps
}

// stepCard is a step of the graph.
type stepCard struct {
	server.BuildStepView
	Address string   // the log's
	Needs   []string // names of required steps
}

// fillStages makes the graph. In a stage with many steps, failed ones come first.
func (p *buildPage) fillStages(views []server.BuildStepView) {
	byID := map[int]server.BuildStepView{}
	for _, v := range views {
		byID[v.ID] = v
	}
	for _, stage := range p.Plan.Stages {
		column := stageColumn{Name: stage.Name}
		ids := slices.Clone(stage.Steps)
		if len(ids) > stageStepsShown {
			slices.SortStableFunc(ids, func(a, b int) int { return weight(byID[a].Status) - weight(byID[b].Status) })
			column.More = len(ids) - stageStepsShown
			ids = ids[:stageStepsShown]
		}
		for _, id := range ids {
			card := stepCard{BuildStepView: byID[id], Address: p.addressOf(id)}
			for _, need := range byID[id].Needs[:min(len(byID[id].Needs), 5)] {
				card.Needs = append(card.Needs, byID[need].Path())
			}
			column.Steps = append(column.Steps, card)
		}
		p.Stages = append(p.Stages, column)
	}
}

func weight(s build.Status) int {
	switch {
	case s.Broken():
		return 0
	case s == build.Running || s == build.Backoff:
		return 1
	}
	return 2
}
