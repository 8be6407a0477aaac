package osb

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Catalog has the services that the broker offers. It never changes.
type Catalog struct {
	Services   []*Service
	References []Reference // in the order of the file
	body       []byte
	etag       string
}

// Service is one that platforms offer to their users.
type Service struct {
	ID, Name, Description string
	Tags                  []string
	Bindable              bool
	Metadata              Canonical // "": none
	PlanUpdateable        bool
	Plans                 []*Plan
}

// Plan is one form of a service.
type Plan struct {
	ID, Name, Description string
	Metadata              Canonical // "": none
	Free                  bool
	Bindable              bool  // its own word, or that of the service
	PlanUpdateable        *bool // whether its service instances may get another plan; nil: decided by the service
	Maintenance           *Maintenance
	Create, Update, Bind  *Schema // schemas of parameters by request; nil: any are accepted
	Work                  Work
}

// Maintenance is the version of the software that a plan's service instances use.
type Maintenance struct {
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
}

// Reference names a handler of a plan. The caller checks that the handler exists.
type Reference struct {
	Handler string // "": the plan is an EventFlow, and needs a cluster
	Verb    Verb
	Plan    *Plan
	Scope   string // path in the file
	At      fault.Position
}

// DefaultPolling is the maximum_polling_duration of plans that state none.
const DefaultPolling = time.Hour

// newCatalog returns a catalog that is ready to be served.
func newCatalog(services []*Service, references []Reference) (*Catalog, error) {
	wire := catalogBody{Services: make([]serviceBody, len(services))}
	for i, s := range services {
		wire.Services[i] = s.body()
	}
	body, err := json.Marshal(wire)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	etag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return &Catalog{Services: services, References: references, body: body, etag: etag}, nil
}

// JSON returns the answer to a request for the catalog. Equal catalogs have equal answers.
func (c *Catalog) JSON() []byte { return slices.Clone(c.body) }

// ETag returns the strong entity tag (RFC 9110) of JSON, in its quotes.
func (c *Catalog) ETag() string { return c.etag }

// Service returns the service with an id; nil if there is none. A nil catalog has none.
func (c *Catalog) Service(id string) *Service {
	if c == nil {
		return nil
	}
	if i := slices.IndexFunc(c.Services, func(s *Service) bool { return s.ID == id }); i >= 0 {
		return c.Services[i]
	}
	return nil
}

// Plan returns the plan of a service; nil if there is none. A nil catalog has none.
func (c *Catalog) Plan(service, id string) *Plan { return c.Service(service).plan(id) }

func (s *Service) plan(id string) *Plan {
	if s == nil {
		return nil
	}
	if i := slices.IndexFunc(s.Plans, func(p *Plan) bool { return p.ID == id }); i >= 0 {
		return s.Plans[i]
	}
	return nil
}

// updateable reports whether service instances of a plan may get another plan. The plan decides it before the service,
// unless the plan has left the catalog.
func (s *Service) updateable(plan string) bool {
	if p := s.plan(plan); p != nil && p.PlanUpdateable != nil {
		return *p.PlanUpdateable
	}
	return s.PlanUpdateable
}

// version returns the maintenance version of the plan; "" if it has none.
func (p *Plan) version() string {
	if p == nil || p.Maintenance == nil {
		return ""
	}
	return p.Maintenance.Version
}

// work returns the work of the plan, or old if the plan has left the catalog or has become another kind. A flow stays where
// it is, so its old work counts.
func (p *Plan) work(old Work) Work {
	switch {
	case p == nil:
		return old
	case old.Flow != nil, p.Work.Flow != nil && old.Handlers != nil:
		old.Polling = p.Work.Polling
		return old
	}
	return p.Work
}

// CheckParameters refuses parameters of a provision that break the plan's schema.
func (p *Plan) CheckParameters(parameters Canonical) *Error { return p.Create.check(parameters) }

// checkUpdated refuses parameters of an update. They replace all old ones: without a schema of updates they must be good
// for a provision.
func (p *Plan) checkUpdated(parameters Canonical) *Error {
	return cmp.Or(p.Update, p.Create).check(parameters)
}

// The JSON of the catalog; the order of the fields is that of the answer.
type catalogBody struct {
	Services []serviceBody `json:"services"`
}

type serviceBody struct {
	ID                  string          `json:"id"`
	Name                string          `json:"name"`
	Description         string          `json:"description"`
	Tags                []string        `json:"tags,omitempty"`
	Bindable            bool            `json:"bindable"`
	InstancesFetchable  bool            `json:"instances_retrievable"`
	BindingsFetchable   bool            `json:"bindings_retrievable"`
	AllowContextUpdates bool            `json:"allow_context_updates"`
	PlanUpdateable      bool            `json:"plan_updateable"`
	Metadata            json.RawMessage `json:"metadata,omitempty"`
	Plans               []planBody      `json:"plans"`
}

type planBody struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	Metadata       json.RawMessage `json:"metadata,omitempty"`
	Free           bool            `json:"free"`
	Bindable       bool            `json:"bindable"`
	PlanUpdateable *bool           `json:"plan_updateable,omitempty"`
	Schemas        *schemasBody    `json:"schemas,omitempty"`
	MaximumPolling int64           `json:"maximum_polling_duration"` // seconds
	Maintenance    *Maintenance    `json:"maintenance_info,omitempty"`
}

type schemasBody struct {
	Instance *instanceSchemas `json:"service_instance,omitempty"`
	Binding  *bindingSchemas  `json:"service_binding,omitempty"`
}

type instanceSchemas struct {
	Create *schemaBody `json:"create,omitempty"`
	Update *schemaBody `json:"update,omitempty"`
}

type bindingSchemas struct {
	Create *schemaBody `json:"create,omitempty"`
}

type schemaBody struct {
	Parameters json.RawMessage `json:"parameters"`
}

func (s *Service) body() serviceBody {
	body := serviceBody{ID: s.ID, Name: s.Name, Description: s.Description, Tags: s.Tags, Bindable: s.Bindable,
		InstancesFetchable: true, BindingsFetchable: true, AllowContextUpdates: true,
		PlanUpdateable: s.PlanUpdateable, Metadata: json.RawMessage(s.Metadata), Plans: make([]planBody, len(s.Plans))}
	for i, p := range s.Plans {
		body.Plans[i] = planBody{ID: p.ID, Name: p.Name, Description: p.Description, Metadata: json.RawMessage(p.Metadata),
			Free: p.Free, Bindable: p.Bindable, PlanUpdateable: p.PlanUpdateable, Schemas: p.schemas(),
			MaximumPolling: int64(p.Work.Polling / time.Second), Maintenance: p.Maintenance}
	}
	return body
}

// schemas returns the schemas of the plan; nil if it has none.
func (p *Plan) schemas() *schemasBody {
	var body schemasBody
	if p.Create != nil || p.Update != nil {
		body.Instance = &instanceSchemas{Create: p.Create.body(), Update: p.Update.body()}
	}
	if p.Bind != nil {
		body.Binding = &bindingSchemas{Create: p.Bind.body()}
	}
	if body == (schemasBody{}) {
		return nil
	}
	return &body
}
