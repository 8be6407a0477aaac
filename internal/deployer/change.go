package deployer

import (
	"encoding/json"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Names that the actions of steps carry; the handlers have the same.
const (
	stepHandler  = "step"
	buildHandler = "build"
	author       = "deployer"
)

// Parameters is what the action of a step says of itself beside its Step: names
// in the definition version that the Step has. A build has only Stage.
type Parameters struct {
	Stage string `json:"stage"`
	Group string `json:"group,omitempty"`
	Host  string `json:"host,omitempty"`
	Step  string `json:"step,omitempty"` // the chain's name for it, such as deploy
}

// change is a decision as the ledger records it.
func change(name string, d pipeline.Decision) journal.Change {
	c := journal.Change{By: author, Entries: d.Entries, Drain: d.Drain, Cancel: d.Cancel}
	for _, w := range d.Work {
		c.Actions = append(c.Actions, work(name, w))
	}
	return c
}

// work is one step as an action. The ledger gives it the unique key that makes doing it twice the same as once.
func work(name string, w pipeline.Work) action.Action {
	a := action.Action{
		Name:      w.Event + " " + w.Target,
		Delivery:  action.AtLeastOnce,
		CreatedBy: author,
		Step: &action.StepRef{Pipeline: name, Deployment: w.Deployment, Target: w.Target, Event: w.Event,
			Revision: w.Revision, Version: w.Version},
	}
	p := Parameters{Stage: w.Stage.Name}
	if w.Host == nil {
		a.Kind, a.Handler, a.Lane = buildHandler, buildHandler, buildHandler
		a.Policy = w.Stage.Build.Policy
	} else {
		a.Kind, a.Handler, a.Lane = stepHandler, stepHandler, stepHandler+"/"+w.Host.Address()
		a.Policy = w.Step.Policy
		p.Group, p.Host, p.Step = w.Group.Name, w.Host.Name, w.Step.Name
	}
	a.Parameters, _ = json.Marshal(p) // strings always marshal
	return a
}
