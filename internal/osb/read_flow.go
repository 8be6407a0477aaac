package osb

import (
	"reflect"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/flow"
)

// flow reads the EventFlow of a plan, and notes that the plan needs a cluster.
func (r *catalogReader) flow(plan *document.Node, path string, p *Plan) *Flow {
	n := plan.Get("flow")
	path += ".flow"
	r.references = append(r.references, Reference{Plan: p, Scope: path, At: n.At})
	f := &Flow{Namespace: n.Str("namespace"), WaitForReady: flag(n, "waitForReady", false), Delivery: p.Create == nil}
	if f.Namespace != "" && !flow.IsNamespace(f.Namespace) {
		r.Add(n.Get("namespace"), "value-invalid", path+".namespace", "%q is not the name of a namespace", f.Namespace)
	}
	if p.Bindable && !f.WaitForReady {
		r.Add(n, "value-invalid", path, "a plan that is bindable needs waitForReady: true, so that the address is known")
	}
	if extra := plan.Get("credentials"); extra != nil {
		r.Add(extra, "value-invalid", path, "credentials: those of a flow are its address and its source")
	}
	if p.Create == nil {
		p.Create = deliverySchema()
	}
	f.Spec = r.spec(n, path, p)
	return f
}

// spec reads the spec of a plan's EventFlow, and reports faults that no parameter corrects.
func (r *catalogReader) spec(n *document.Node, path string, p *Plan) Canonical {
	template, _ := document.Plain(n).(map[string]any)
	delete(template, "namespace")
	delete(template, "waitForReady")
	sources := values{fromParameters: {}, fromContext: {}}
	checkReferences(template, sources, p.Create, func(text string) { r.Add(n, "value-invalid", path, "%s", text) })
	filled, _ := fill(template, sources)
	open := func(field string) bool {
		found := false
		walk(template[field], func(text string) {
			_, _, known := sources.of(text)
			found = found || known
		})
		return found
	}
	spec, _ := filled.(map[string]any)
	for _, fault := range flow.CheckSpec(spec, open) {
		r.Add(n, "value-invalid", path, "%s", fault)
	}
	text, err := canonical(template)
	if err != nil {
		r.Add(n, "value-invalid", path, "%s", err)
	}
	return text
}

// updates reports plans between which a service instance might change, although no update makes the one to the other.
func (r *catalogReader) updates(n *document.Node, path string, s *Service) {
	for i, from := range s.Plans {
		if !s.updateable(from.ID) {
			continue
		}
		for j, to := range s.Plans {
			if reason := from.Work.apart(to.Work); reason != "" {
				r.Add(n.Get("plans").Items[i], "value-invalid", document.Index(path+".plans", i)+".plan_updateable",
					"it must be false: plan %q has another %s than plan %q", s.Plans[j].Name, reason, from.Name)
				break
			}
		}
	}
}

// apart returns the part in which two works differ so that no update makes the one to the other; "" if none does.
func (w Work) apart(other Work) string {
	switch {
	case (w.Flow == nil) != (other.Flow == nil):
		return "kind"
	case w.Flow == nil:
		return ""
	}
	one, two := w.Flow.target(), other.Flow.target()
	for _, part := range []string{"source", "sink"} {
		if !reflect.DeepEqual(one[part], two[part]) {
			return part
		}
	}
	return ""
}

// deliverySchema returns the parameters of a flow plan without schemas.
func deliverySchema() *Schema {
	text := map[string]any{"type": "string"}
	schema, err := newSchema(map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
		"properties": map[string]any{"delivery": map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
			"retry": map[string]any{"type": "integer"}, "backoffPolicy": text, "backoffDelay": text, "timeout": text,
			"deadLetterSink": map[string]any{"type": "object"}}}}})
	if err != nil {
		panic(err) // it has no input
	}
	return schema
}
