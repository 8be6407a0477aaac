package osb

import "cmp"

// Change has the parts of the catalog that an update concerns.
type Change struct {
	Service *Service
	Plan    *Plan // plan after the update; nil: none is named, and the present one is not known
}

// CheckProvision refuses a provision that the catalog does not offer, and then one that does not accept an asynchronous
// answer. It returns the plan, with the service instance's own work.
func (c *Catalog) CheckProvision(p Provision) (*Plan, *Error) {
	plan, err := c.find(p.Attributes.ServiceID, p.Attributes.PlanID)
	if err != nil {
		return nil, err
	}
	if err := plan.CheckParameters(p.Attributes.Parameters); err != nil {
		return nil, err
	}
	plan, err = plan.placed(p.Attributes, p.Scope)
	if err != nil {
		return nil, err
	}
	if err := plan.checkVersion(p.Attributes.Maintenance); err != nil {
		return nil, err
	}
	if !p.AcceptsIncomplete {
		return nil, asyncRequired()
	}
	return plan, nil
}

// CheckUpdate checks an update like CheckProvision. planNow is the present plan of the service instance; "": unknown.
// An update of service and context alone needs no asynchronous answer.
func (c *Catalog) CheckUpdate(u Update, planNow string) (Change, *Error) {
	change := Change{Service: c.Service(u.ServiceID)}
	if change.Service == nil {
		return Change{}, invalid("service_id: the catalog has no such service")
	}
	change.Plan = change.Service.plan(cmp.Or(u.PlanID, planNow))
	if change.Plan == nil && u.PlanID != "" {
		return Change{}, invalid("plan_id: the service has no such plan")
	}
	if err := change.check(u); err != nil {
		return Change{}, err
	}
	if !u.AcceptsIncomplete && (u.changes() || u.Context == nil) {
		return Change{}, asyncRequired()
	}
	return change, nil
}

// check compares an update with the plan, if that is known.
func (c Change) check(u Update) *Error {
	if c.Plan == nil {
		return nil
	}
	if u.Parameters != nil {
		if err := c.Plan.checkUpdated(*u.Parameters); err != nil {
			return err
		}
	}
	return c.Plan.checkVersion(u.Maintenance)
}

// CheckBind refuses a bind that the catalog does not offer. It returns the plan.
func (c *Catalog) CheckBind(b Bind) (*Plan, *Error) {
	plan, err := c.find(b.ServiceID, b.PlanID)
	if err != nil {
		return nil, err
	}
	if !plan.Bindable {
		return nil, invalid("plan_id: the plan is not bindable")
	}
	return plan, plan.Bind.check(b.Parameters)
}

// find returns a plan of a service.
func (c *Catalog) find(service, plan string) (*Plan, *Error) {
	s := c.Service(service)
	if s == nil {
		return nil, invalid("service_id: the catalog has no such service")
	}
	if p := s.plan(plan); p != nil {
		return p, nil
	}
	return nil, invalid("plan_id: the service has no such plan")
}

// checkVersion refuses a maintenance version that is not the plan's; "" is none.
func (p *Plan) checkVersion(version string) *Error {
	if version == "" || version == p.version() {
		return nil
	}
	return refused(CodeMaintenanceInfo, "maintenance_info.version: the catalog has another one; fetch the catalog again")
}
