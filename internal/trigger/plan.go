package trigger

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/jsonpath"
)

// Kind is the kind of planned actions, except jobs.
const Kind = "event"

// maxWork bounds the nodes that all paths of a trigger look at in one event, and that its parameters have. It is
// several times the nodes of the largest event.
const maxWork = 2_000_000

// dataName is the member of an event in JSON that has its data.
const dataName = "data"

// Trigger maps the events that its filter selects to a process or a handler.
type Trigger struct {
	Name       string
	Filter     *Filter // nil: every event
	Target     callback.Target
	Parameters []Parameter // names differ; none: the action has no parameters
}

// Parameter is the source of one parameter: a path into an event, or a value.
type Parameter struct {
	Name  string
	Path  *jsonpath.Path // nil: Value
	Value any            // as encoding/json decodes it
}

// ParsePath compiles a JSONPath (RFC 9535) into an event; one that starts with . is read as after $. It must begin
// with an attribute or $.data, or select several members of the event.
func ParsePath(text string) (*jsonpath.Path, error) {
	path, err := callback.ParsePath(text)
	if err != nil {
		return nil, err
	}
	if name := path.First(); name != "" && name != dataName && !cloudevent.IsName(name) {
		return nil, fmt.Errorf("want an attribute or $.%s: %s", dataName, notAttribute(name))
	}
	return path, nil
}

// Plan makes the action of an event that the filter selects; it does not look at the filter. The action has no id. If
// the event does not fit, the plan has a fault and a code, and is to be stored as FAILED.
func Plan(t *Trigger, e *cloudevent.Event) callback.Planned {
	a, code, err := t.action(e)
	if err != nil {
		a = action.Action{Kind: Kind, Name: t.Name, Handler: t.Target.Handler, Policy: action.DefaultPolicy(),
			Delivery: action.AtLeastOnce}
	}
	a.CreatedBy = createdBy(t.Name, e)
	planned := callback.Planned{Action: a, Code: code}
	if err != nil {
		planned.Fault = err.Error()
	}
	return planned
}

// createdBy names the trigger and the event, by which people find it in its source's log; cut to the size of an action's texts.
func createdBy(trigger string, e *cloudevent.Event) string {
	const most = 1024
	text := fmt.Sprintf("trigger %s, event %s of %s", trigger, e.ID, e.Source)
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// action makes the action. Its error has a code.
func (t *Trigger) action(e *cloudevent.Event) (a action.Action, code string, err error) {
	document, err := t.document(e)
	if err != nil {
		return a, callback.CodeDocument, err
	}
	raw, err := t.parameters(document)
	if err != nil {
		return a, callback.CodeParameters, err
	}
	if a, err = t.Target.Prepare(raw); err != nil {
		return a, callback.CodeParameters, err
	}
	if t.Target.Process == "" {
		a.Kind, a.Name = Kind, t.Name
	}
	return a, "", nil
}

// document returns the event as paths look at it; nil if the trigger has none.
func (t *Trigger) document(e *cloudevent.Event) (any, error) {
	for _, p := range t.Parameters {
		if p.Path == nil {
			continue
		}
		document := e.JSON()
		if err := callback.CheckNumbers(document); err != nil {
			return nil, fmt.Errorf("the event %w", err)
		}
		return document, nil
	}
	return nil, nil
}

// parameters returns the parameters as a JSON object.
func (t *Trigger) parameters(document any) (json.RawMessage, error) {
	left := float64(maxWork)
	values := make(map[string]any, len(t.Parameters))
	for _, p := range t.Parameters {
		value, ok, err := p.take(document, &left)
		if err == nil {
			err = jsonpath.Weigh([]any{value}, &left) // nodes that contain each other are written several times
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		if ok {
			values[p.Name] = value
		}
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("write the parameters: %w", err)
	}
	return raw, nil
}

// take returns the value of the parameter; false if its path selects none. A path of names and indexes selects the
// value of its node, any other path a list, so that the type of a parameter depends on its path alone. Nodes that are
// looked at are taken from left.
func (p Parameter) take(document any, left *float64) (value any, ok bool, err error) {
	if p.Path == nil {
		return p.Value, true, nil
	}
	nodes, err := p.Path.Select(document, left)
	switch {
	case err != nil:
		return nil, false, err
	case !p.Path.Singular():
		return append([]any{}, nodes...), true, nil
	case len(nodes) == 0:
		return nil, false, nil
	}
	return nodes[0], true, nil
}
