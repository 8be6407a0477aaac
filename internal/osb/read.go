package osb

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// CatalogFile is the most bytes of a catalog's file.
const CatalogFile = 8 << 20

// ParseCatalog reads a catalog's file. The catalog is nil unless all problems are warnings.
func ParseCatalog(file string, data []byte) (*Catalog, fault.Problems) {
	root, problems := yamltree.Parse(file, data, CatalogFile)
	if root == nil || problems.Err() != nil {
		return nil, problems
	}
	r := &catalogReader{services: map[string]bool{}, names: map[string]bool{}, plans: map[string]bool{}}
	r.Problems = problems
	root = document.WithoutShared(root)
	sound := r.Check(root, document.Place{At: root.At}, catalogKeys)
	if !sound || r.Problems.Err() != nil {
		r.Problems.Sort()
		return nil, r.Problems
	}
	var services []*Service
	for i, n := range root.Get("services").Items {
		services = append(services, r.service(n, document.Index("services", i)))
	}
	r.Problems.Sort()
	if r.Problems.Err() != nil {
		return nil, r.Problems
	}
	catalog, err := newCatalog(services, r.references)
	if err != nil {
		r.Add(root, "value-invalid", "services", "%s", err)
	}
	return catalog, r.Problems
}

// catalogReader reads a file whose keys and shapes are sound, and reports broken rules of catalogs.
type catalogReader struct {
	document.Reader
	services, names, plans map[string]bool // ids and names read so far
	references             []Reference
}

// service reads one service.
func (r *catalogReader) service(n *document.Node, path string) *Service {
	s := &Service{ID: n.Str("id"), Name: n.Str("name"), Description: n.Str("description"), Tags: n.Strs("tags"),
		Bindable: flag(n, "bindable", false), Metadata: r.object(n, path, "metadata"),
		PlanUpdateable: flag(n, "plan_updateable", false)}
	r.unique(n, path, "id", r.services)
	r.unique(n, path, "name", r.names)
	if requires := n.Get("requires"); requires != nil && len(requires.Items) > 0 {
		r.Add(requires, "value-invalid", path+".requires", "must be empty: syslog drains, routes and volumes are not offered")
	}
	for _, key := range []string{"instances_retrievable", "bindings_retrievable", "allow_context_updates"} {
		if !flag(n, key, true) {
			r.Add(n.Get(key), "value-invalid", path+"."+key, "is always true")
		}
	}
	names := map[string]bool{}
	for i, item := range n.Get("plans").Items {
		place := document.Index(path+".plans", i)
		r.unique(item, place, "id", r.plans)
		r.unique(item, place, "name", names)
		s.Plans = append(s.Plans, r.plan(item, place, s.Bindable))
	}
	r.updates(n, path, s)
	return s
}

// unique reports a text that was read before under the same key.
func (r *catalogReader) unique(n *document.Node, path, key string, seen map[string]bool) {
	value := n.Get(key)
	if seen[value.Text] {
		r.Add(value, "duplicate", path+"."+key, "%q is used twice", value.Text)
	}
	seen[value.Text] = true
}

// plan reads one plan of a service.
func (r *catalogReader) plan(n *document.Node, path string, bindable bool) *Plan {
	p := &Plan{ID: n.Str("id"), Name: n.Str("name"), Description: n.Str("description"),
		Metadata: r.object(n, path, "metadata"), Maintenance: r.maintenance(n.Get("maintenance_info"), path),
		Free: flag(n, "free", true), Bindable: flag(n, "bindable", bindable)}
	if own := n.Get("plan_updateable"); own != nil {
		updateable := flag(n, "plan_updateable", false)
		p.PlanUpdateable = &updateable
	}
	schemas := n.Get("schemas")
	p.Create = r.schema(schemas.Get("service_instance").Get("create"), path+".schemas.service_instance.create.parameters")
	p.Update = r.schema(schemas.Get("service_instance").Get("update"), path+".schemas.service_instance.update.parameters")
	p.Bind = r.schema(schemas.Get("service_binding").Get("create"), path+".schemas.service_binding.create.parameters")
	p.Work.Polling = r.polling(n.Get("maximum_polling_duration"), path)
	switch own := n.Get("flow"); {
	case (own == nil) == (n.Get("handlers") == nil):
		r.Add(n, "value-invalid", path, "set exactly one of handlers and flow")
	case own != nil:
		p.Work.Flow = r.flow(n, path, p)
	default:
		p.Work.Handlers = r.handlers(n.Get("handlers"), path+".handlers", p)
		p.Work.Credentials = r.credentials(n, path, p)
	}
	return p
}

// handlers reads the handlers of a plan, and notes them as references.
func (r *catalogReader) handlers(n *document.Node, path string, p *Plan) *Handlers {
	for _, f := range n.Fields {
		r.references = append(r.references,
			Reference{Handler: f.Value.Text, Verb: Verb(f.Key), Plan: p, Scope: path + "." + f.Key, At: f.Value.At})
	}
	return &Handlers{Provision: n.Str("provision"), Update: n.Str("update"), Deprovision: n.Str("deprovision")}
}

// credentials reads the template of credentials.
func (r *catalogReader) credentials(n *document.Node, path string, p *Plan) Canonical {
	template := n.Get("credentials")
	switch {
	case template == nil && p.Bindable:
		r.Add(n, "field-missing", path, "a plan that is bindable needs credentials")
	case template != nil && !p.Bindable:
		r.Problems.Add(fault.Problem{Position: template.At, Code: "not-bindable", Scope: path + ".credentials", Warning: true,
			Text: "the plan is not bindable, so that the credentials are not used"})
	}
	if template == nil {
		return ""
	}
	checkReferences(document.Plain(template), values{fromParameters: {}}, p.Create, func(text string) {
		r.Add(template, "value-invalid", path+".credentials", "%s", text)
	})
	return r.object(n, path, "credentials")
}

// semantic matches versions of Semantic Versioning 2.0.0.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

func (r *catalogReader) maintenance(n *document.Node, path string) *Maintenance {
	if n == nil {
		return nil
	}
	m := &Maintenance{Version: n.Str("version"), Description: n.Str("description")}
	if !semantic.MatchString(m.Version) {
		r.Add(n.Get("version"), "value-invalid", path+".maintenance_info.version",
			"want a semantic version such as 1.4.0, found %q", m.Version)
	}
	return m
}

// longestPolling bounds maximum_polling_duration, in seconds: a year.
const longestPolling = 366 * 24 * 60 * 60

// polling reads the time that operations may take.
func (r *catalogReader) polling(n *document.Node, path string) time.Duration {
	if n == nil {
		return DefaultPolling
	}
	seconds, err := strconv.Atoi(n.Text)
	if err != nil || seconds < 1 || seconds > longestPolling {
		r.Add(n, "value-invalid", path+".maximum_polling_duration",
			"want whole seconds from 1 to %d, found %s", longestPolling, n.Text)
	}
	return time.Duration(seconds) * time.Second
}

// schema compiles the parameters of n; nil if there are none.
func (r *catalogReader) schema(n *document.Node, path string) *Schema {
	if n == nil {
		return nil
	}
	parameters := n.Get("parameters")
	schema, err := newSchema(document.Plain(parameters).(map[string]any))
	if err != nil {
		r.Add(parameters, "schema-invalid", path, "%s", err)
	}
	return schema
}

// object reads a mapping of free keys in its canonical form; "" if it is absent.
func (r *catalogReader) object(n *document.Node, path, key string) Canonical {
	value := n.Get(key)
	if value == nil {
		return ""
	}
	text, err := canonical(document.Plain(value).(map[string]any))
	if err != nil {
		r.Add(value, "value-invalid", path+"."+key, "%s", err)
	}
	return text
}

// flag reads a boolean; other if it is absent.
func flag(n *document.Node, key string, other bool) bool {
	if value := n.Get(key); value != nil {
		return strings.EqualFold(value.Text, "true")
	}
	return other
}
