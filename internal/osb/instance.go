package osb

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// Put decides about a provision that the catalog's CheckProvision accepted with a plan.
func (s Subject) Put(p Provision, plan *Plan) Decision {
	if s.taken() {
		return fail(conflict("the id of the service instance is in use"))
	}
	asked := p.Attributes
	asked.Maintenance = plan.version() // also the one that is sent, if any
	asked.Work = plan.Work

	row, state := s.find()
	switch state {
	case None, Gone:
		d := s.start(VerbProvision, asked)
		d.Start.first = true
		return d
	case Deprovisioning:
		return fail(Concurrency())
	case DeprovisionFailed:
		return fail(conflict("the service instance is %s: delete it first", state))
	}
	if !row.Current().same(asked) {
		return fail(conflict("the service instance exists with other attributes, and is %s", state))
	}
	if state == ProvisionFailed {
		asked.First = row.Asked.First
		return s.start(VerbProvision, asked)
	}
	return s.repeated()
}

// Repeated decides about a provision that the catalog refuses, as after a change of it. One that repeats that of the service instance is
// answered as if the catalog had not changed.
func (s Subject) Repeated(p Provision, refused *Error) Decision {
	row, state := s.find()
	switch state {
	case Provisioning, Ready, Updating, UpdateFailed:
	default:
		return fail(refused)
	}
	current, version := row.Current(), p.Attributes.Maintenance
	if !p.AcceptsIncomplete || !current.same(p.Attributes) || version != "" && version != current.Maintenance || current.outside(p.Scope) != nil {
		return fail(refused)
	}
	return s.repeated()
}

// repeated answers a provision that repeats that of the service instance.
func (s Subject) repeated() Decision {
	switch row, state := s.find(); state {
	case Provisioning:
		return accepted(row.Operation, s.Dashboard)
	case Updating:
		return fail(Concurrency())
	}
	return s.done()
}

// start starts an operation that makes the service instance as a request wants it.
func (s Subject) start(verb Verb, asked Attributes) Decision {
	return Decision{Start: &Start{Verb: verb, Asked: asked, Given: asked, Work: asked.Work, dashboard: s.Dashboard}}
}

// Patch decides about an update that the catalog's CheckUpdate accepted with a change.
func (s Subject) Patch(u Update, change Change) Decision {
	row, state := s.find()
	if state == None || state == Gone {
		return fail(notFound("the service instance is %s", state))
	}
	if row.Current().ServiceID != u.ServiceID {
		return fail(invalid("service_id: the service instance is of another service"))
	}
	if err := row.Current().outside(u.Scope); err != nil {
		return fail(err)
	}
	switch state {
	case Provisioning, Deprovisioning:
		return fail(Concurrency())
	case ProvisionFailed:
		return fail(unrepeatable(CodeNotProvisioned, "the service instance is %s: delete it", state))
	case DeprovisionFailed:
		return fail(unrepeatable(CodeBeingDeleted, "the service instance is %s: delete it", state))
	}
	if err := row.Current().moved(u.Context); err != nil {
		return fail(err)
	}
	if !u.changes() && state == Updating {
		return fail(Concurrency())
	}
	if !u.changes() {
		return s.keep(u.Context) // also when the plan has left the catalog
	}
	if change.Plan == nil {
		return fail(invalid("plan_id: the plan of the service instance is not in the catalog any more"))
	}
	asked := row.Current().with(u, change.Plan)
	if state == Updating {
		if asked.alike(row.Asked) {
			return accepted(row.Operation, s.Dashboard)
		}
		return fail(Concurrency())
	}
	return s.update(u, change, asked)
}

// unrepeatable refuses an update that will not succeed when it is repeated.
func unrepeatable(code, format string, args ...any) *Error {
	err, repeatable := refused(code, format, args...), false
	err.UpdateRepeatable = &repeatable
	return err
}

// update starts an update to attributes, unless it has no effect. A failed update may have done half of its
// work: an update to the applied attributes takes it back.
func (s Subject) update(u Update, change Change, asked Attributes) Decision {
	current := s.Row.Current()
	if asked.alike(current) && asked.alike(s.Row.Asked) {
		return s.keep(u.Context)
	}
	moved := asked.PlanID != current.PlanID
	if moved && !change.Service.updateable(current.PlanID) {
		return fail(unrepeatable(CodeNotSupported, "plan_id: the plan of this service instance cannot be changed"))
	}
	if !change.Plan.Work.Updatable() {
		return fail(unrepeatable(CodeNotSupported, "service instances of plan %s cannot be changed", change.Plan.Name))
	}
	if moved && u.Parameters == nil {
		if err := change.Plan.CheckParameters(asked.Parameters); err != nil {
			return fail(err)
		}
	}
	work, err := change.Plan.changed(asked, current.Work)
	if err != nil {
		return fail(err)
	}
	if asked.Work = work; work.Credentials == "" {
		asked.Work.Credentials = current.Work.Credentials // those that its bindings have got
	}
	d := s.start(VerbUpdate, asked)
	d.Start.Applied = s.Row.Applied
	return d
}

// keep answers an update without an operation: a context that differs is stored for the operations that follow.
func (s Subject) keep(context *Context) Decision {
	d, row := s.done(), *s.Row
	row.Asked = row.Asked.within(context)
	if row.Applied != nil {
		applied := row.Applied.within(context)
		row.Applied = &applied
	}
	if row.Asked != s.Row.Asked || row.Current() != s.Row.Current() {
		d.Row = &row
	}
	return d
}

// Delete decides about a deprovision. A service instance outlives its plan, and the catalog may be nil. leftover is the flow that an unknown
// service instance has left; nil if none was found. It counts only if the id is not in use.
func (s Subject) Delete(d Deprovision, catalog *Catalog, leftover *Flow) Decision {
	if !d.AcceptsIncomplete {
		return fail(asyncRequired())
	}
	row, state := s.find()
	if state == None || state == Gone {
		if leftover == nil || s.taken() {
			return fail(gone("the service instance is %s", state))
		}
		work := catalog.Plan(d.ServiceID, d.PlanID).leftover(leftover)
		named := Attributes{ServiceID: d.ServiceID, PlanID: d.PlanID, Work: work}
		return Decision{Start: &Start{Verb: VerbDeprovision, Asked: named, Given: named, Work: work, first: true}}
	}
	if err := row.checkIDs(d.ServiceID, d.PlanID); err != nil {
		return fail(err)
	}
	if state == Deprovisioning {
		return accepted(row.Operation, "")
	}
	current := row.Current() // also if the request names the plan of an update that has not succeeded
	work := catalog.Plan(current.ServiceID, current.PlanID).work(current.Work)
	return Decision{Start: &Start{Verb: VerbDeprovision, Asked: row.Asked, Applied: row.Applied, Given: current, Work: work}}
}

// checkIDs compares the ids of a request that removes something with the row. While a change of plan has not
// succeeded, platforms send the old plan or the new one.
func (i *Instance) checkIDs(service, plan string) *Error {
	current := i.Current()
	switch {
	case service != current.ServiceID:
		return invalid("service_id: the service instance is of another service")
	case plan != current.PlanID && plan != i.Asked.PlanID:
		return invalid("plan_id: the service instance has another plan")
	}
	return nil
}

// instanceBody is the body of a fetched service instance.
type instanceBody struct {
	ServiceID   string           `json:"service_id"`
	PlanID      string           `json:"plan_id"`
	Dashboard   string           `json:"dashboard_url,omitempty"`
	Parameters  json.RawMessage  `json:"parameters"`
	Maintenance *maintenanceBody `json:"maintenance_info,omitempty"`
}

type maintenanceBody struct {
	Version string `json:"version"`
}

// Get decides about a fetch of the service instance.
func (s Subject) Get() Decision {
	row, state := s.find()
	switch state {
	case Updating, Deprovisioning:
		return fail(Concurrency())
	case None, Gone, Provisioning, ProvisionFailed:
		return fail(notFound("the service instance is %s", state))
	}
	if state == DeprovisionFailed && row.Applied == nil {
		return fail(notFound("the service instance was never provisioned"))
	}
	current := row.Current()
	body := instanceBody{ServiceID: current.ServiceID, PlanID: current.PlanID, Dashboard: s.Dashboard,
		Parameters: json.RawMessage(cmp.Or(string(current.Parameters), string(Empty)))}
	if current.Maintenance != "" {
		body.Maintenance = &maintenanceBody{Version: current.Maintenance}
	}
	return Decision{Status: http.StatusOK, Body: body}
}

// with returns the attributes after an update to a plan: fields that it does not send stay. A change of plan without
// a maintenance version takes that of the new plan.
func (a Attributes) with(u Update, plan *Plan) Attributes {
	if u.PlanID != "" && u.PlanID != a.PlanID {
		a.PlanID, a.Maintenance = u.PlanID, plan.version()
	}
	if u.Parameters != nil {
		a.Parameters = *u.Parameters
	}
	if u.Maintenance != "" {
		a.Maintenance = u.Maintenance
	}
	return a.within(u.Context)
}

// within returns the attributes in another context; nil: in the same. A platform and a namespace that it does not name stay:
// a repeated provision is compared with them.
func (a Attributes) within(context *Context) Attributes {
	if context != nil {
		a.Context = context.Text
		a.Platform, a.Namespace = cmp.Or(context.Platform, a.Platform), cmp.Or(context.Namespace, a.Namespace)
	}
	return a
}
