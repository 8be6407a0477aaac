package osb

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ReadApplication reads an object of the kind Application. A field of an unexpected form is taken as absent, and texts are cut.
func ReadApplication(object *unstructured.Unstructured) Application {
	a := Application{Name: object.GetName()}
	a.ID, _, _ = unstructured.NestedString(object.Object, "spec", "compassMetadata", "applicationId")
	a.Description, _, _ = unstructured.NestedString(object.Object, "spec", "description")
	for _, one := range objectsIn(object.Object, "spec", "services") {
		events := slices.ContainsFunc(objectsIn(one, "entries"), func(entry map[string]any) bool { return entry["type"] == "Events" })
		a.Services = append(a.Services, ApplicationService{ID: textIn(one, "id"), Name: textIn(one, "name"), DisplayName: textIn(one, "displayName"),
			Description: cmp.Or(textIn(one, "description"), textIn(one, "longDescription")), Events: events})
	}
	return a
}

// ReadMappedServices reads the ids of the services in an ApplicationMapping; nil if it has no list, which means all.
func ReadMappedServices(object *unstructured.Unstructured) (ids []string) {
	if list, found, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "services"); !found || list == nil {
		return nil
	}
	ids = []string{}
	for _, one := range objectsIn(object.Object, "spec", "services") {
		ids = append(ids, textIn(one, "id"))
	}
	return ids
}

// objectsIn returns the objects of a list in an object.
func objectsIn(object map[string]any, path ...string) (found []map[string]any) {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	items, _ := value.([]any)
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			found = append(found, fields)
		}
	}
	return found
}

// mostServiceText bounds the texts of Applications in bytes.
const mostServiceText = 1 << 10

// textIn returns a text of a service, cut to its bound.
func textIn(fields map[string]any, name string) string {
	text, _ := fields[name].(string)
	return strings.ToValidUTF8(text[:min(len(text), mostServiceText)], "")
}
