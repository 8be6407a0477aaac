package eventflow

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/waybill-dev/waybill/internal/flow"
)

// spec returns the ordered one, with numbers as objects of the API server have them.
func (t try) spec() (spec map[string]any, err error) {
	if err := json.Unmarshal(t.order.Spec, &spec); err != nil {
		return nil, fmt.Errorf("read the spec of EventFlow %s: %w", t.name(), err)
	}
	return spec, nil
}

// patch returns the merge patch that has a flow be as ordered; nil: it is. A flow that another action wrote last loses the fields that
// are not ordered. In the flow of this action such fields are defaults of the API server.
func (t try) patch(found *unstructured.Unstructured) ([]byte, error) {
	spec, err := t.spec()
	if err != nil {
		return nil, err
	}
	have, _ := found.Object["spec"].(map[string]any)
	same := contains(have, spec)
	for name, value := range t.annotations() {
		same = same && found.GetAnnotations()[name] == value
	}
	if same {
		return nil, nil
	}
	patch, err := stdjson.Marshal(map[string]any{"spec": flow.MergePatch(have, spec), "metadata": map[string]any{
		"uid": found.GetUID(), "resourceVersion": found.GetResourceVersion(), "annotations": t.annotations()}})
	if err != nil {
		return nil, fmt.Errorf("write the patch of EventFlow %s: %w", t.name(), err)
	}
	return patch, nil
}

// contains reports whether an object has all fields of another.
func contains(have, want map[string]any) bool {
	for name, value := range want {
		inner, is := value.(map[string]any)
		got, _ := have[name].(map[string]any)
		if is && (got == nil || !contains(got, inner)) || !is && !reflect.DeepEqual(have[name], value) {
			return false
		}
	}
	return true
}
