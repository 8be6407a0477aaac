package deployer

import (
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// The handlers of steps. The first two are also the kinds of their actions; a gate is a step.
const (
	stepHandler  = "step"
	buildHandler = "build"
	gateHandler  = "gate"
	author       = "deployer"
)

// Parameters are the parameters of a step's action: where the step is in the definition version that the action's
// Step names. The handler looks them up in that version, so that a later edit of the pipeline does not change a step
// in progress. A build and the bake of a stage have only Stage, and the bake of a wave has Group. A gate has Stage
// and Gate; one of a handler of the configuration has the definition's parameters instead.
type Parameters struct {
	Stage string `json:"stage"`
	Group string `json:"group,omitempty"`
	Host  string `json:"host,omitempty"`
	Step  string `json:"step,omitempty"` // the chain's name for it, such as deploy
	Gate  string `json:"gate,omitempty"` // its name
	Fence int64  `json:"fence,omitempty"`

	Former int64 `json:"former,omitempty"` // the fence that the log gave the host before; 0: none, or not known
}

// change converts a decision to the ledger's records.
func change(name string, d pipeline.Decision) journal.Change {
	c := journal.Change{By: author, Entries: d.Entries, Drain: d.Drain, Cancel: d.Cancel}
	for _, w := range d.Work {
		c.Actions = append(c.Actions, work(name, w))
	}
	return c
}

// work returns the action of one step. The ledger gives it the unique key (deployment, target,
// event), so that a step that is decided twice is still one action.
func work(name string, w pipeline.Work) action.Action {
	a := action.Action{
		Name:      w.Event + " " + w.Target,
		Delivery:  action.AtLeastOnce,
		CreatedBy: author,
		Step: &action.StepRef{Pipeline: name, Deployment: w.Deployment, Target: w.Target, Event: w.Event,
			Revision: w.Revision, Version: w.Version},
	}
	p := Parameters{Stage: w.Stage.Name}
	if w.Group != nil {
		p.Group = w.Group.Name
	}
	switch {
	case w.Bake != nil: // a lane of its own: it must not wait for the steps of a host, nor they for it
		a.Kind, a.Handler, a.Lane = stepHandler, stepHandler, stepHandler+"/bake/"+w.Target
		a.Policy = w.Bake.Policy
	case w.Gate != nil && w.Gate.Handler != nil: // the lane of its handler, whose limits it shares
		a.Kind, a.Handler, a.Policy = stepHandler, w.Gate.Handler.Name, w.Gate.Policy
		a.Parameters = handlerParameters(w)
		return a
	case w.Gate != nil && w.Gate.CEL != "": // the promoter evaluates it
		a.Kind, a.Handler, a.Lane = stepHandler, promotion.HandlerExpression, promotion.HandlerExpression+"/"+w.Target
		a.Policy = w.Gate.Policy
		a.Parameters, _ = json.Marshal(promotion.StageWork{Stage: w.Stage.Name, Revision: promotion.Revision(w.Label),
			Environment: w.Stage.Environment, Gate: expression(w)})
		return a
	case w.Gate != nil: // a lane per stage: one address that does not answer must not slow the gates of others
		a.Kind, a.Handler, a.Lane = stepHandler, gateHandler, gateHandler+"/"+w.Target
		a.Policy, p.Gate = w.Gate.Policy, w.Gate.Name
	case w.Environment != nil: // a lane per stage: it is handed off at once
		a.Kind, a.Handler, a.Lane = stepHandler, promotion.HandlerEnvironment, promotion.HandlerEnvironment+"/"+w.Target
		a.Policy = w.Environment.Policy
		a.Parameters, _ = json.Marshal(promotion.StageWork{Stage: w.Stage.Name, Revision: promotion.Revision(w.Label), Environment: w.Environment})
		return a
	case w.Host == nil: // a build: it runs on the conductor's machine, and all builds share a lane
		a.Kind, a.Handler, a.Lane = buildHandler, buildHandler, buildHandler
		a.Policy = w.Stage.Build.Policy
	default:
		// A lane per address: hosts of several pipelines on one machine share its limits and its
		// breaker.
		a.Kind, a.Handler, a.Lane = stepHandler, stepHandler, stepHandler+"/"+w.Host.Address()
		a.Policy = w.Step.Policy
		p.Host, p.Step, p.Fence, p.Former = w.Host.Name, w.Step.Name, w.Fence, w.Former
	}
	a.Parameters, _ = json.Marshal(p) // strings always marshal
	return a
}

// expression returns the expression of a gate, with its variables replaced.
func expression(w pipeline.Work) *promotion.GateWork {
	vars := w.Definition.VarsOf(w.Stage, nil, nil)
	vars["stage"], vars["revision"] = w.Stage.Name, w.Label
	text, err := definition.ExpandCEL(w.Gate.CEL, vars)
	if err != nil {
		text = w.Gate.CEL // a definition with such a fault is refused when it is read
	}
	return &promotion.GateWork{Name: w.Gate.Name, CEL: text, Timeout: time.Duration(w.Gate.Policy.Deadline),
		Every: time.Duration(w.Gate.Policy.Initial)}
}

// handlerParameters returns the parameters of a gate's handler, with their variables replaced.
func handlerParameters(w pipeline.Work) json.RawMessage {
	raw := w.Gate.Handler.Parameters
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	vars := w.Definition.VarsOf(w.Stage, nil, nil)
	vars["stage"], vars["revision"] = w.Stage.Name, w.Label
	expanded, err := definition.ExpandJSON(raw, vars)
	if err != nil {
		return raw // a definition with such a fault is refused when it is read
	}
	return expanded
}
