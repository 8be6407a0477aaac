package broker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
)

// subjectOf returns a service instance as package osb decides about it.
func subjectOf(user string, state ledger.ServiceState) (s osb.Subject, err error) {
	s = osb.Subject{User: user, Now: state.Now}
	if state.Row == nil {
		return s, nil
	}
	if s.Row, err = instanceOf(state.Row); err != nil {
		return s, err
	}
	if state.Thread != nil {
		thread := threadOf(*state.Thread)
		s.Thread = &thread
	}
	return s, nil
}

// instanceOf reads a row.
func instanceOf(row *services.Instance) (*osb.Instance, error) {
	i := &osb.Instance{ID: row.ID, User: row.User, Operation: row.Operation, Verb: osb.Verb(row.Verb), End: row.End, GoneAt: row.GoneAt}
	if err := json.Unmarshal(row.Asked, &i.Asked); err != nil {
		return nil, fmt.Errorf("read the row of service instance %q: %w", row.ID, err)
	}
	if row.Applied != nil {
		i.Applied = &osb.Attributes{}
		if err := json.Unmarshal(row.Applied, i.Applied); err != nil {
			return nil, fmt.Errorf("read the row of service instance %q: %w", row.ID, err)
		}
	}
	return i, nil
}

// rowOf writes a row.
func rowOf(i osb.Instance) (row services.Instance, err error) {
	row = services.Instance{ID: i.ID, User: i.User, Operation: i.Operation, Verb: services.Verb(i.Verb), End: i.End, GoneAt: i.GoneAt}
	if row.Asked, err = documentOf(i.Asked); err != nil || i.Applied == nil {
		return row, err
	}
	row.Applied, err = documentOf(i.Applied)
	return row, err
}

// documentOf returns a value as JSON for the log. No page has it as it is, so < is not written as six bytes.
func documentOf(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

func bindingOf(b *services.Binding) *osb.Binding {
	if b == nil {
		return nil
	}
	return &osb.Binding{Instance: b.Instance, ID: b.ID, Parameters: osb.Canonical(b.Document)}
}

// threadOf returns the progress of an operation's action. Attempts that only came too early are not counted.
func threadOf(state queue.ActionState) osb.Thread {
	t := osb.Thread{Status: state.Thread.Status, Attempt: max(1, state.Thread.Spent), Error: state.Error, Next: state.Thread.RunAt,
		Attempts: state.Policy.Attempts(), Text: textOf(state.Output)}
	if t.Status == action.Running {
		t.Attempt = state.Thread.Spent + 1
	}
	return t
}

// textOf returns the text of an action's output for people: that of a handler which wrote a text, or the description that it wrote in JSON.
func textOf(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	var object struct {
		Description string `json:"description"`
		Text        string `json:"text"`
	}
	if json.Unmarshal(output, &object) != nil {
		return ""
	}
	return cmp.Or(object.Description, object.Text)
}

// operationOf returns the operation of an action; nil if it is another kind of action.
func operationOf(state queue.ActionState) *osb.Operation {
	instance, verb, ok := services.OfAction(&state.Action)
	if !ok {
		return nil
	}
	return &osb.Operation{ID: state.ID, Instance: instance, Verb: osb.Verb(verb), Thread: threadOf(state)}
}

func isUnknown(err error) bool {
	return fault.Is(err, fault.NoSuchAction) || fault.Is(err, fault.NotFound)
}
