package osb

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Request is a request as it was received. Each of its methods is for one route, and checks in the standard's order:
// headers, ids, query, body. Fields that the standard does not know are ignored.
type Request struct {
	Header   http.Header
	Instance string // id of the service instance in the path, percent-decoded once
	Binding  string // id of the binding, likewise
	Query    string // still encoded
	Body     []byte
	Scope    Scope
}

// Context of a service instance in its platform.
type Context struct {
	Text      Canonical
	Platform  string // "": not sent
	Namespace string // "": not sent
}

// Provision is PUT of a service instance. Attributes has no Work, and Maintenance only if it was sent.
type Provision struct {
	Scope             Scope
	Instance          string
	Origin            *Identity // nil: not sent
	AcceptsIncomplete bool
	Attributes        Attributes
}

// Update is PATCH of a service instance.
type Update struct {
	Scope             Scope
	Instance          string
	Origin            *Identity
	AcceptsIncomplete bool
	ServiceID         string
	PlanID            string     // "": unchanged
	Parameters        *Canonical // all parameters from then on; nil: unchanged
	Maintenance       string     // "": unchanged
	Context           *Context   // nil: unchanged
}

// Deprovision is DELETE of a service instance.
type Deprovision struct {
	Instance          string
	Origin            *Identity
	AcceptsIncomplete bool
	ServiceID, PlanID string
}

// Bind is PUT of a binding.
type Bind struct {
	Scope               Scope
	Instance, BindingID string
	Origin              *Identity
	ServiceID, PlanID   string
	Parameters          Canonical
}

// Unbind is DELETE of a binding.
type Unbind struct {
	Instance, BindingID string
	Origin              *Identity
	ServiceID, PlanID   string
}

// Fetch is GET of a service instance or a binding, or of the last operation.
type Fetch struct {
	Instance, BindingID string
	Origin              *Identity
	Named               Named // operation that is polled
}

// changes reports whether the update has more than a context.
func (u Update) changes() bool { return u.PlanID != "" || u.Parameters != nil || u.Maintenance != "" }

// Origin checks the headers. A request for the catalog needs no other check.
func (r Request) Origin() (*Identity, *Error) {
	if err := checkVersion(r.Header); err != nil {
		return nil, err
	}
	return readIdentity(r.Header)
}

// MostID bounds the ids that platforms choose, in bytes.
const MostID = 255

func checkID(name, id string) *Error {
	switch {
	case id == "" || len(id) > MostID:
		return invalid("%s: want an id of 1 to %d bytes", name, MostID)
	case !utf8.ValidString(id) || strings.ContainsRune(id, 0):
		return invalid("%s: the id is not valid text", name)
	}
	return nil
}

// open checks the parts that all routes of a service instance have, and reads the query.
func (r Request) open() (*Identity, url.Values, *Error) {
	origin, err := r.Origin()
	if err != nil {
		return nil, nil, err
	}
	if err := checkID("instance_id", r.Instance); err != nil {
		return nil, nil, err
	}
	query, malformed := url.ParseQuery(r.Query)
	if malformed != nil {
		return nil, nil, invalid("the query is not valid")
	}
	return origin, query, nil
}

// openBinding does the same for routes of a binding.
func (r Request) openBinding() (*Identity, url.Values, *Error) {
	origin, query, err := r.open()
	if err == nil {
		err = checkID("binding_id", r.Binding)
	}
	return origin, query, err
}

func accepts(query url.Values) bool { return query.Get("accepts_incomplete") == "true" }

// context reads the context. Its namespace must be that of the address.
func (r Request) context(b *body, origin *Identity) *Context {
	context := b.context(origin)
	if context != nil && context.Namespace != "" && r.Scope.Mount != "" && context.Namespace != r.Scope.Mount {
		b.fault("context.namespace: the address is that of namespace %q", r.Scope.Mount)
	}
	return context
}

// Provision reads PUT of a service instance.
func (r Request) Provision() (Provision, *Error) {
	origin, query, err := r.open()
	if err != nil {
		return Provision{}, err
	}
	b := readBody(r.Body)
	p := Provision{Scope: r.Scope, Instance: r.Instance, Origin: origin, AcceptsIncomplete: accepts(query)}
	p.Attributes = Attributes{
		ServiceID:    b.required("service_id"),
		PlanID:       b.required("plan_id"),
		Organization: b.required("organization_guid"),
		Space:        b.required("space_guid"),
		Parameters:   b.canonical("parameters"),
		Maintenance:  b.maintenance(),
	}
	if context := r.context(b, origin); context != nil {
		p.Attributes.Context = context.Text
		p.Attributes.Platform, p.Attributes.Namespace = context.Platform, context.Namespace
	}
	p.Attributes.Namespace = cmp.Or(p.Attributes.Namespace, r.Scope.Mount)
	if b.err != nil {
		return Provision{}, b.err
	}
	return p, nil
}

// Update reads PATCH of a service instance.
func (r Request) Update() (Update, *Error) {
	origin, query, err := r.open()
	if err != nil {
		return Update{}, err
	}
	b := readBody(r.Body)
	u := Update{Scope: r.Scope, Instance: r.Instance, Origin: origin, AcceptsIncomplete: accepts(query)}
	u.ServiceID = b.required("service_id")
	if b.present("plan_id") {
		u.PlanID = b.required("plan_id")
	}
	if b.present("parameters") {
		parameters := b.canonical("parameters")
		u.Parameters = &parameters
	}
	u.Maintenance, u.Context = b.maintenance(), r.context(b, origin)
	b.object("previous_values")
	if b.err != nil {
		return Update{}, b.err
	}
	return u, nil
}

// Deprovision reads DELETE of a service instance.
func (r Request) Deprovision() (Deprovision, *Error) {
	origin, query, err := r.open()
	if err != nil {
		return Deprovision{}, err
	}
	d := Deprovision{Instance: r.Instance, Origin: origin, AcceptsIncomplete: accepts(query),
		ServiceID: query.Get("service_id"), PlanID: query.Get("plan_id")}
	return d, named(d.ServiceID, d.PlanID)
}

// named refuses a query without the ids of service and plan.
func named(service, plan string) *Error {
	if service == "" || plan == "" {
		return invalid("service_id, plan_id: both are needed in the query")
	}
	return nil
}

// Bind reads PUT of a binding.
func (r Request) Bind() (Bind, *Error) {
	origin, _, err := r.openBinding()
	if err != nil {
		return Bind{}, err
	}
	b := readBody(r.Body)
	bind := Bind{Scope: r.Scope, Instance: r.Instance, BindingID: r.Binding, Origin: origin,
		ServiceID: b.required("service_id"), PlanID: b.required("plan_id"), Parameters: b.canonical("parameters")}
	r.context(b, origin)
	b.object("bind_resource")
	b.text("app_guid")
	if b.present("predecessor_binding_id") {
		b.fault("predecessor_binding_id: bindings have no secret, so none can be rotated")
	}
	if b.err != nil {
		return Bind{}, b.err
	}
	return bind, nil
}

// Unbind reads DELETE of a binding.
func (r Request) Unbind() (Unbind, *Error) {
	origin, query, err := r.openBinding()
	if err != nil {
		return Unbind{}, err
	}
	u := Unbind{Instance: r.Instance, BindingID: r.Binding, Origin: origin,
		ServiceID: query.Get("service_id"), PlanID: query.Get("plan_id")}
	return u, named(u.ServiceID, u.PlanID)
}

// Fetch reads GET of a service instance, and of its last operation.
func (r Request) Fetch() (Fetch, *Error) {
	origin, query, err := r.open()
	if err != nil {
		return Fetch{}, err
	}
	return Fetch{Instance: r.Instance, Origin: origin, Named: ParseNamed(query.Get("operation"))}, nil
}

// FetchBinding reads GET of a binding, and of its last operation.
func (r Request) FetchBinding() (Fetch, *Error) {
	origin, _, err := r.openBinding()
	if err != nil {
		return Fetch{}, err
	}
	return Fetch{Instance: r.Instance, BindingID: r.Binding, Origin: origin}, nil
}
