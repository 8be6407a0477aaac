package osb

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
)

// Binding is the row of a service binding.
type Binding struct {
	Instance   string // id of its service instance
	ID         string // chosen by the platform, unique in its service instance
	Parameters Canonical
}

type bindingBody struct {
	Credentials json.RawMessage `json:"credentials"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// Bind decides about a bind that the catalog's CheckBind accepted with a plan. existing is the row with the binding's
// id; nil if there is none.
func (s Subject) Bind(b Bind, plan *Plan, existing *Binding) Decision {
	row, state := s.find()
	switch state {
	case None, Gone, ProvisionFailed:
		return fail(notFound("the service instance is %s", state))
	}
	current := row.Current()
	if b.ServiceID != current.ServiceID || b.PlanID != current.PlanID {
		return fail(invalid("service_id, plan_id: the service instance has others"))
	}
	if err := current.outside(b.Scope); err != nil {
		return fail(err)
	}
	switch state {
	case Provisioning, Updating, Deprovisioning:
		return fail(Concurrency())
	case DeprovisionFailed:
		return fail(refused(CodeBeingDeleted, "the service instance is %s: delete it", state))
	}
	if existing != nil && existing.Parameters != b.Parameters {
		return fail(conflict("the binding exists with other parameters"))
	}
	if d, ok := s.unread(); ok {
		return d
	}
	body := bindingBody{Credentials: s.credentials(plan)}
	if existing == nil {
		binding := &Binding{Instance: row.ID, ID: b.BindingID, Parameters: b.Parameters}
		return Decision{Status: http.StatusCreated, Body: body, Insert: binding}
	}
	return Decision{Status: http.StatusOK, Body: body}
}

// Unbind decides about the removal of a binding, which is possible in every state; existing is its row, or nil.
func (s Subject) Unbind(u Unbind, existing *Binding) Decision {
	row, state := s.find()
	if state == None || state == Gone || existing == nil {
		return fail(gone("the binding is unknown"))
	}
	if err := row.checkIDs(u.ServiceID, u.PlanID); err != nil {
		return fail(err)
	}
	return Decision{Status: http.StatusOK, Body: struct{}{}, Remove: true}
}

// GetBinding decides about a fetch of a binding; existing is its row, or nil. The plan is the current one of the
// catalog; nil if it is not there any more.
func (s Subject) GetBinding(plan *Plan, existing *Binding) Decision {
	_, state := s.find()
	if state == None || state == Gone || existing == nil {
		return fail(notFound("the binding is unknown"))
	}
	if d, ok := s.unread(); ok {
		return d
	}
	parameters := json.RawMessage(cmp.Or(string(existing.Parameters), string(Empty)))
	return Decision{Status: http.StatusOK, Body: bindingBody{Credentials: s.credentials(plan), Parameters: parameters}}
}

// LastBindingOperation decides about a poll of a binding: none is ever in progress.
func (s Subject) LastBindingOperation() Decision {
	return fail(notFound("bindings have no operations: they are made and removed at once"))
}

// unread returns the decision to read the credentials of the service instance's flow, unless that is done. It refuses the request if the
// service instance has become another since then.
func (s Subject) unread() (Decision, bool) {
	own := s.Row.Current().Work.Flow
	switch {
	case reflect.DeepEqual(own, s.Read):
		return Decision{}, false
	case s.Read == nil:
		return Decision{Flow: own}, true
	}
	return fail(Concurrency()), true
}

// credentials returns the credentials of the service instance's bindings, by the current plan or by that of the time
// when the attributes were applied.
func (s Subject) credentials(plan *Plan) json.RawMessage {
	if s.Credentials != "" {
		return json.RawMessage(s.Credentials)
	}
	current := s.Row.Current()
	template := cmp.Or(string(plan.work(current.Work).Credentials), string(current.Work.Credentials))
	return json.RawMessage(fillCredentials(Canonical(template), current.Parameters))
}
