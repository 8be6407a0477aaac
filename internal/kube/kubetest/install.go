package kubetest

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Install serves a kind of custom resources from now on, and adds its definition.
func (a *API) Install(kind Kind) {
	a.mutex.Lock()
	a.kinds[kind.GroupVersionResource] = served{kind, make(chan struct{})}
	a.mutex.Unlock()
	a.Add(Definitions, kind.definition())
}

// Remove deletes the definition of a kind and the objects, whatever their finalizers. Requests for the kind are answered with 404,
// and watches end after the deletions.
func (a *API) Remove(resource schema.GroupVersionResource) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	kind, is := a.kinds[resource]
	if !is {
		return
	}
	for _, one := range a.sorted() {
		if one.resource == resource || one == (key{Definitions, "", kind.definition().GetName()}) {
			a.store(one, nil)
		}
	}
	delete(a.kinds, resource)
	close(kind.removed)
}

// definition returns the definition of a kind, as far as clients read it.
func (k Kind) definition() *unstructured.Unstructured {
	scope := "Namespaced"
	if k.Cluster {
		scope = "Cluster"
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"group":    k.Group,
			"names":    map[string]any{"kind": k.Kind, "plural": k.Resource, "singular": strings.ToLower(k.Kind)},
			"scope":    scope,
			"versions": []any{map[string]any{"name": k.Version, "served": true, "storage": true}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	}}
	object.SetGroupVersionKind(Definitions.GroupVersion().WithKind("CustomResourceDefinition"))
	object.SetName(k.GroupResource().String())
	object.SetGeneration(1)
	return object
}

// serving returns the kinds that are served, by group, version and resource.
func (a *API) serving() []Kind {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	found := make([]Kind, 0, len(a.kinds))
	for _, one := range slices.SortedFunc(maps.Keys(a.kinds), func(a, b schema.GroupVersionResource) int {
		return strings.Compare(a.String(), b.String())
	}) {
		found = append(found, a.kinds[one].Kind)
	}
	return found
}

// serves reports whether a kind is served.
func (a *API) serves(resource schema.GroupVersionResource) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	_, is := a.kinds[resource]
	return is
}
