package pipeline

import (
	"reflect"
	"testing"
)

// TestSameHostLooksAtEachField: hosts are compared field by field, so a new field must be added there. Else an edit of it alone would be
// taken for none.
func TestSameHostLooksAtEachField(t *testing.T) {
	t.Parallel()
	values := map[reflect.Type]any{
		reflect.TypeFor[string]():            "other",
		reflect.TypeFor[*Service]():          &Service{Name: "other"},
		reflect.TypeFor[map[string]string](): map[string]string{"other": ""},
	}
	for i := range reflect.TypeFor[Host]().NumField() {
		field := reflect.TypeFor[Host]().Field(i)
		var other Host
		reflect.ValueOf(&other).Elem().Field(i).Set(reflect.ValueOf(values[field.Type]))
		if sameHost(Host{}, other) {
			t.Errorf("hosts with another %s count as the same", field.Name)
		}
		if !sameHost(other, other) {
			t.Errorf("a host with a %s does not count as the same as itself", field.Name)
		}
	}
}
