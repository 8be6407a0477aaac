package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/services"
)

// decider decides about a service instance and the binding that the request names; nil: there is none. It only computes.
type decider func(osb.Subject, *osb.Binding) osb.Decision

// decide makes and stores the decision about a request in one transaction. A decision that needs more than a transaction may do,
// a blob for large parameters, is made again once that is there.
func (b *Broker) decide(a asker, key ledger.ServiceKey, origin *osb.Identity, decide decider) answer {
	now, err := b.Ledger.Now(a.Context())
	if err != nil {
		return answer{err: err}
	}
	key.Size = len(a.body)
	o := operator{broker: b, key: key, user: a.user, by: createdBy(a.user, origin), id: action.RandomID(now), trace: obs.Traceparent(a.Context())}
	d, err := o.try(a.Context(), decide)
	if large, ok := errors.AsType[largeParameters](err); ok {
		if o.stored, o.ref, err = o.offload(a.Context(), large); err == nil {
			d, err = o.try(a.Context(), decide)
		}
	}
	if err == nil && d.Flow != nil {
		if o.credentials, err = b.credentials(a.Context(), key.Instance, d.Flow); err == nil {
			o.read = d.Flow
			d, err = o.try(a.Context(), decide)
		}
	}
	if err != nil {
		return answer{err: err}
	}
	o.log(identityOf(a.Request), d)
	if d.Start != nil {
		d = d.Start.Answer(o.id)
	}
	return answer{Decision: d}
}

// log logs a decision that has changed the log.
func (o *operator) log(identity string, d osb.Decision) {
	var doing string
	facts := []any{obs.KeyBy, o.user, obs.KeyInstance, o.key.Instance, obs.KeyRef, identity}
	switch {
	case d.Start != nil:
		doing, facts = string(d.Start.Verb), append(facts, obs.KeyActionID, o.id.String())
	case d.Row != nil:
		doing = "context"
	case d.Insert != nil:
		doing = "bind " + o.key.Binding
	case d.Remove:
		doing = "unbind " + o.key.Binding
	default:
		return
	}
	o.broker.Log.Info("a platform has changed a service instance", append(facts, obs.KeyDoing, doing)...)
}

// operator stores the decision about one request.
type operator struct {
	broker          *Broker
	key             ledger.ServiceKey
	user, by, trace string
	id              action.ID // id of the operation, if one starts
	stored          string    // parameters that the blob has
	ref             string    // key of the blob
	credentials     osb.Canonical
	read            *osb.Flow // flow that has the credentials
}

// try makes the decision and stores it. After an error the decision may still be in the making, and is not looked at.
func (o *operator) try(ctx context.Context, decide decider) (osb.Decision, error) {
	var d osb.Decision
	err := o.broker.Ledger.Operate(ctx, o.key, func(state ledger.ServiceState) (change ledger.ServiceChange, err error) {
		subject, err := o.broker.subject(o.user, o.key, state)
		if err != nil {
			return change, err
		}
		subject.Credentials, subject.Read = o.credentials, o.read
		d = decide(subject, bindingOf(state.Binding))
		if d.Start != nil {
			return o.start(d.Start)
		}
		if d.Row != nil {
			row, err := rowOf(*d.Row)
			if err != nil {
				return change, err
			}
			change.Row = &row
		}
		if d.Insert != nil {
			change.Bind = &services.Binding{Instance: d.Insert.Instance, ID: d.Insert.ID, Document: json.RawMessage(d.Insert.Parameters)}
		}
		change.Unbind = d.Remove
		return change, nil
	})
	if err != nil {
		return osb.Decision{}, err
	}
	return d, nil
}

// start returns the row and the action of an operation.
func (o *operator) start(s *osb.Start) (change ledger.ServiceChange, err error) {
	a, err := o.action(s)
	if err != nil {
		return change, err
	}
	row, err := rowOf(s.Row(o.key.Instance, o.user, o.id))
	return ledger.ServiceChange{Row: &row, Start: &ledger.ServiceOperation{Verb: services.Verb(s.Verb), Action: a}}, err
}

// action returns the action of an operation.
func (o *operator) action(s *osb.Start) (a action.Action, err error) {
	if s.Work.Flow != nil {
		a, err = o.flow(s)
	} else {
		a, err = o.handler(s)
	}
	if err != nil {
		return a, err
	}
	a.ID, a.CreatedBy, a.Trace = o.id, o.by, o.trace
	a.Name = services.ActionName(o.key.Instance, services.Verb(s.Verb))
	a.Policy.Deadline = action.Duration(s.Work.Polling)
	if len(a.Parameters) <= blob.Inline {
		return a, nil
	}
	if o.stored != string(a.Parameters) {
		return a, largeParameters(a.Parameters)
	}
	a.Parameters, a.ParametersRef = nil, o.ref
	return a, nil
}

// flow returns the action of an operation of a flow.
func (o *operator) flow(s *osb.Start) (a action.Action, err error) {
	if o.broker.Flows == nil {
		return a, osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the plan is a flow, and server.yaml has no section flow")
	}
	return flowAction(services.Verb(s.Verb), o.key.Instance, s.Work.Flow)
}

// handler returns the action of an operation that the plan's handler does.
func (o *operator) handler(s *osb.Start) (a action.Action, err error) {
	name := s.Work.Handlers.Of(s.Verb)
	h, ok := o.broker.Handlers()[name]
	if !ok {
		return a, osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the plan names the handler %q, which server.yaml does not have", name)
	}
	parameters, err := o.parameters(s.Given, h.Parameters)
	if err != nil {
		return a, err
	}
	if a, err = h.Prepare(parameters); err != nil && s.Verb == osb.VerbDeprovision {
		return a, osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the handler %q cannot delete this service instance: %s", name, err)
	}
	if err != nil {
		return a, osb.NewError(http.StatusBadRequest, osb.CodeInvalid, "parameters: %s", err)
	}
	return a, nil
}

// serviceParameter names the service instance of an operation, for handlers that have it.
const serviceParameter = "service"

// parameters returns those that a handler has in its schema.
func (o *operator) parameters(given osb.Attributes, names []string) (json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(cmp.Or(given.Parameters, osb.Empty)), &values); err != nil {
		return nil, fmt.Errorf("read the parameters of the service instance: %w", err)
	}
	if names != nil {
		for name := range values {
			if !slices.Contains(names, name) {
				delete(values, name)
			}
		}
	}
	if slices.Contains(names, serviceParameter) {
		about, err := json.Marshal(map[string]any{"instance_id": o.key.Instance, "plan_id": given.PlanID,
			"context": json.RawMessage(cmp.Or(given.Context, osb.Empty))})
		if err != nil {
			return nil, err
		}
		values[serviceParameter] = about
	}
	return documentOf(values)
}

// largeParameters is the error of a decision whose parameters need a blob.
type largeParameters []byte

func (p largeParameters) Error() string {
	return fmt.Sprintf("%d bytes of parameters need a blob", len(p))
}

// offload stores parameters as a blob, and returns them with its key.
func (o *operator) offload(ctx context.Context, p largeParameters) (stored, ref string, err error) {
	_, ref, err = blob.Offload(ctx, o.broker.Blobs, blob.ActionKey(o.id, "parameters.json"), json.RawMessage(p))
	return string(p), ref, err
}

// createdBy names who has an operation done: the broker's user, and the user of the platform where that names one.
func createdBy(user string, origin *osb.Identity) string {
	const most = 1000 // bytes; an action's texts are bounded
	by := "broker user " + user
	if origin != nil {
		by += " for " + origin.Platform + " " + string(origin.Value)
	}
	return strings.ToValidUTF8(by[:min(len(by), most)], "")
}
