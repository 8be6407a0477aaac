package osb

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/flow"
)

// Flow configures the EventFlow that is a service instance. That of a plan may have references; that of a service instance has their
// values, and the flow's namespace.
type Flow struct {
	Spec         Canonical        `json:"spec,omitempty"`
	Namespace    string           `json:"namespace,omitempty"`    // in a plan: the namespace of all its flows; "": the request decides
	WaitForReady bool             `json:"waitForReady,omitempty"` // an operation succeeds once the flow is Ready
	Activation   *flow.Activation `json:"activation,omitempty"`

	// Delivery has the parameter delivery replace the fields of spec.delivery that it names.
	Delivery bool `json:"delivery,omitempty"`
}

// Scope bounds the namespaces of a request's flows.
type Scope struct {
	Mount   string   // namespace of the address; "": the address names none
	Allowed []string // namespaces of the user; nil: all
}

// Allows reports whether flows may be in a namespace.
func (s Scope) Allows(namespace string) bool {
	return s.Allowed == nil || slices.Contains(s.Allowed, namespace)
}

// MountAllowed reports whether flows may be in the namespace of the address, if that names one.
func (s Scope) MountAllowed() bool {
	return s.Mount == "" || flow.IsNamespace(s.Mount) && s.Allows(s.Mount)
}

// place returns the namespace for a flow with attributes.
func (f *Flow) place(a Attributes, scope Scope) (string, *Error) {
	for _, namespace := range []string{f.Namespace, scope.Mount, a.Namespace} {
		if namespace == "" {
			continue
		}
		if !scope.Allows(namespace) {
			return "", invalid("context.namespace: the namespace %q is not allowed to this user", namespace)
		}
		if !flow.IsNamespace(namespace) {
			return "", invalid("context.namespace: %q is not the name of a namespace", namespace)
		}
		return namespace, nil
	}
	return "", invalid("context.namespace: the plan needs a namespace, and neither the plan nor the address has one")
}

// outside refuses a request about a service instance with attributes whose flow is not in the scope, as after the namespaces of the user were
// reduced.
func (a Attributes) outside(scope Scope) *Error {
	own := a.Work.Flow
	switch {
	case own == nil:
		return nil
	case scope.Mount != "" && scope.Mount != own.Namespace && scope.Mount != a.Namespace:
		return invalid("the service instance is in another namespace than that of the address")
	case !scope.Allows(own.Namespace):
		return invalid("the namespace %q of the service instance is not allowed to this user", own.Namespace)
	}
	return nil
}

// moved refuses a context of another platform or namespace than a service instance with attributes has.
func (a Attributes) moved(context *Context) *Error {
	if context == nil {
		return nil
	}
	namespace := a.Namespace
	if a.Work.Flow != nil {
		namespace = cmp.Or(namespace, a.Work.Flow.Namespace)
	}
	for _, c := range []struct{ name, now, sent string }{
		{"platform", a.Platform, context.Platform}, {"namespace", namespace, context.Namespace},
	} {
		if c.now != "" && c.sent != "" && c.now != c.sent {
			return unrepeatable(CodeNotSupported, "context.%s: the service instance has %q, which cannot be changed", c.name, c.now)
		}
	}
	return nil
}

// of returns the flow of a service instance with attributes, in a namespace.
func (f *Flow) of(a Attributes, namespace string) (*Flow, *Error) {
	parameters := a.Parameters.values()
	filled, _ := fill(f.Spec.values(), values{fromParameters: parameters, fromContext: a.Context.values()})
	spec, _ := filled.(map[string]any)
	if given, ok := parameters["delivery"].(map[string]any); ok && f.Delivery {
		delivery, _ := spec["delivery"].(map[string]any)
		delivery = maps.Clone(delivery)
		if delivery == nil {
			delivery = map[string]any{}
		}
		maps.Copy(delivery, given)
		spec["delivery"] = delivery
	}
	if faults := flow.CheckSpec(spec, func(string) bool { return false }); faults != nil {
		return nil, invalid("parameters: they do not make a sound flow: %s", strings.Join(faults, "; "))
	}
	text, err := canonical(spec)
	if err != nil {
		return nil, invalid("parameters: %s", err)
	}
	return &Flow{Spec: text, Namespace: namespace, WaitForReady: f.WaitForReady, Activation: f.Activation}, nil
}

// target returns the parts of the spec that no update changes.
func (f *Flow) target() map[string]any { return flow.Fixed(f.Spec.values()) }

// leftover returns the work that removes a flow that was found. The plan, if it is there, has the activation.
func (p *Plan) leftover(found *Flow) Work {
	own := *found
	if p != nil && p.Work.Flow != nil {
		own.Activation = p.Work.Flow.Activation
	}
	return p.work(Work{Flow: &own, Polling: DefaultPolling})
}

// placed returns the plan with the flow of a provision as its work.
func (p *Plan) placed(a Attributes, scope Scope) (*Plan, *Error) {
	if p.Work.Flow == nil {
		return p, nil
	}
	namespace, refused := p.Work.Flow.place(a, scope)
	if refused != nil {
		return nil, refused
	}
	own, refused := p.Work.Flow.of(a, namespace)
	if refused != nil {
		return nil, refused
	}
	copied := *p
	copied.Work.Flow = own
	return &copied, nil
}

// changed returns the work of a service instance after an update to attributes of a plan. A flow keeps its namespace.
func (p *Plan) changed(a Attributes, now Work) (Work, *Error) {
	if (now.Flow == nil) != (p.Work.Flow == nil) {
		return Work{}, unrepeatable(CodeNotSupported, "plan_id: the plan is of another kind than the service instance")
	}
	if now.Flow == nil {
		return p.Work, nil
	}
	next, refused := p.Work.Flow.of(a, now.Flow.Namespace)
	if refused != nil {
		return Work{}, refused
	}
	if !reflect.DeepEqual(next.target(), now.Flow.target()) {
		return Work{}, unrepeatable(CodeNotSupported, "the update would change the source or the sink of the flow: make a new service instance")
	}
	work := p.Work
	work.Flow = next
	return work, nil
}
