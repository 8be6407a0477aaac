package flow

import (
	"slices"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// Granted reports whether ReferenceGrants of the Gateway API allow the flows of a namespace to name an object of another namespace.
// Grants in other namespaces than the object's, and those that are being deleted, do not count.
func Granted(grants []*Object, from string, to Ref) bool {
	if to.Namespace == "" || from == "" {
		return false
	}
	return slices.ContainsFunc(grants, func(grant *Object) bool {
		if grant == nil || grant.Namespace != to.Namespace || grant.deleting() {
			return false
		}
		spec := tree(grant.Spec)
		return slices.ContainsFunc(spec.nodes("from"), func(one tree) bool {
			return one.text("group") == v1alpha1.Group && one.text("kind") == v1alpha1.Kind && one.text("namespace") == from
		}) && slices.ContainsFunc(spec.nodes("to"), func(one tree) bool { return grantsTo(one, to) })
	})
}

// Namespaces returns the namespaces in which a flow may share objects: its own, and those that it names. applications are the integration
// namespaces. A claim of the flow in any other namespace was written by a user there, or before the flow or the configuration changed.
func Namespaces(f *v1alpha1.EventFlow, applications []string) []string {
	found := []string{f.Namespace}
	source, sink := f.Spec.Source, f.Spec.Sink
	if source.Application != "" {
		found = append(found, applications...)
	}
	refs := []*v1alpha1.Reference{source.Ref}
	if source.ChannelRef != nil {
		found = append(found, source.ChannelRef.Namespace)
	}
	if sink.Ref != nil {
		refs = append(refs, &sink.Ref.Reference)
	}
	if d := f.Spec.Delivery; d != nil && d.DeadLetterSink != nil {
		refs = append(refs, d.DeadLetterSink.Ref)
	}
	for _, ref := range refs {
		if ref != nil {
			found = append(found, ref.Namespace)
		}
	}
	return slices.DeleteFunc(found, func(namespace string) bool { return namespace == "" })
}

// grantsTo reports whether an entry of a grant's "to" names an object. An entry without a name names all objects of the kind; one
// of an unexpected form names none.
func grantsTo(one tree, to Ref) bool {
	for _, field := range []string{"group", "kind", "name"} {
		if value, ok := one[field]; ok && value != nil {
			if _, ok := value.(string); !ok {
				return false
			}
		}
	}
	name := one.text("name")
	return one.text("group") == to.Group && one.text("kind") == to.Kind && (name == "" || name == to.Name)
}
