package osb

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Canonical holds a JSON object in the form of RFC 8785. Equal objects are equal texts.
type Canonical string

// Empty is the object without fields, which absent parameters mean.
const Empty Canonical = "{}"

// Attributes of a service instance. The JSON form is for stores.
type Attributes struct {
	ServiceID    string    `json:"serviceId"`
	PlanID       string    `json:"planId"`
	Organization string    `json:"organization,omitempty"` // organization_guid
	Space        string    `json:"space,omitempty"`        // space_guid
	Platform     string    `json:"platform,omitempty"`     // context.platform
	Namespace    string    `json:"namespace,omitempty"`    // context.namespace
	Context      Canonical `json:"context,omitempty"`      // as last sent
	Parameters   Canonical `json:"parameters,omitempty"`
	Maintenance  string    `json:"maintenance,omitempty"` // maintenance_info.version, or the plan's at that time
	Work         Work      `json:"work,omitzero"`         // copy of the plan's, in case the plan leaves the catalog
	First        action.ID `json:"first,omitzero"`        // first operation since the id was free; zero: unknown
}

// Verb names an operation of a service instance.
type Verb string

// The verbs. Clients may poll with one instead of the operation's id.
const (
	VerbProvision   Verb = "provision"
	VerbUpdate      Verb = "update"
	VerbDeprovision Verb = "deprovision"
)

// Work configures the operations and the bindings of a plan. Exactly one kind of plan is set.
type Work struct {
	Handlers    *Handlers     `json:"handlers,omitempty"`
	Flow        *Flow         `json:"flow,omitempty"`
	Credentials Canonical     `json:"credentials,omitempty"` // with ${parameters.NAME} as whole values; "": not bindable
	Polling     time.Duration `json:"polling,omitempty"`     // maximum_polling_duration: the deadline of every operation
}

// Handlers of server.yaml that do the work of a plan.
type Handlers struct {
	Provision   string `json:"provision"`
	Update      string `json:"update,omitempty"` // "": the plan offers no updates
	Deprovision string `json:"deprovision"`
}

// Of returns the name of the handler that does an operation; "" if none does.
func (h *Handlers) Of(verb Verb) string {
	switch {
	case h == nil:
		return ""
	case verb == VerbProvision:
		return h.Provision
	case verb == VerbUpdate:
		return h.Update
	}
	return h.Deprovision
}

// Updatable reports whether the work includes updates.
func (w Work) Updatable() bool { return w.Flow != nil || w.Handlers.Of(VerbUpdate) != "" }

// same reports whether a provision with the attributes b repeats one with a. Maintenance and the rest of the context
// may differ: platforms change them without a request for it.
func (a Attributes) same(b Attributes) bool {
	return a.ServiceID == b.ServiceID && a.PlanID == b.PlanID &&
		a.Organization == b.Organization && a.Space == b.Space &&
		a.Platform == b.Platform && a.Namespace == b.Namespace &&
		a.Parameters == b.Parameters
}

// alike reports whether an update from a to b has no effect.
func (a Attributes) alike(b Attributes) bool {
	return a.PlanID == b.PlanID && a.Parameters == b.Parameters && a.Maintenance == b.Maintenance
}
