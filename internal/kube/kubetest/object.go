package kubetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// keep gives next a field as it is now.
func keep(next, now *unstructured.Unstructured, path ...string) {
	value, found, err := unstructured.NestedFieldCopy(now.Object, path...)
	if err != nil || !found {
		unstructured.RemoveNestedField(next.Object, path...)
		return
	}
	if unstructured.SetNestedField(next.Object, value, path...) != nil { // an invalid object
		next.Object[path[0]] = map[string]any{path[len(path)-1]: value}
	}
}

// dropEmpty removes empty lists and maps from the metadata of an object.
func dropEmpty(object *unstructured.Unstructured) {
	if len(object.GetLabels()) == 0 {
		object.SetLabels(nil)
	}
	if len(object.GetAnnotations()) == 0 {
		object.SetAnnotations(nil)
	}
	if len(object.GetFinalizers()) == 0 {
		object.SetFinalizers(nil)
	}
}

// sameObject reports whether two states are the same in the API's JSON.
func sameObject(a, b *unstructured.Unstructured) bool {
	return reflect.DeepEqual(plain(a), plain(b))
}

// sameContent reports whether two states differ at most in their metadata and their status.
func sameContent(a, b *unstructured.Unstructured) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, part := range []string{"metadata", "status"} {
		delete(a.Object, part)
		delete(b.Object, part)
	}
	return sameObject(a, b)
}

func plain(o *unstructured.Unstructured) any {
	text, _ := json.Marshal(o.Object) // objects of the API always marshal
	var value any
	_ = json.Unmarshal(text, &value) // what Marshal returned
	return value
}

// patched returns an object with a patch.
func patched(now *unstructured.Unstructured, form types.PatchType, patch []byte) (*unstructured.Unstructured, error) {
	text, err := now.MarshalJSON()
	if err != nil {
		return nil, err
	}
	switch form {
	case types.JSONPatchType:
		steps, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if text, err = steps.Apply(text); err != nil {
			return nil, apierrors.NewGenericServerResponse(
				http.StatusUnprocessableEntity,
				"",
				schema.GroupResource{},
				"",
				err.Error(),
				0,
				false,
			)
		}
	case types.MergePatchType:
		if text, err = jsonpatch.MergePatch(text, patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, errNotServed
	}
	next := &unstructured.Unstructured{}
	if err := next.UnmarshalJSON(text); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return next, nil
}

// chosen selects the objects of a list or a watch.
type chosen struct {
	client
	labels labels.Selector
	fields fields.Selector
}

func (c client) selector(kind Kind, o metav1.ListOptions) (s chosen, err error) {
	s.client = c
	if s.labels, err = labels.Parse(o.LabelSelector); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	if s.fields, err = fields.ParseSelector(o.FieldSelector); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	for _, one := range s.fields.Requirements() {
		if one.Field != "metadata.name" && one.Field != "metadata.namespace" &&
			!slices.Contains(kind.Fields, one.Field) {
			return s, apierrors.NewBadRequest("field label not supported: " + one.Field)
		}
	}
	return s, nil
}

// has reports whether an object is selected; nil is not.
func (s chosen) has(at key, object *unstructured.Unstructured) bool {
	if object == nil || at.resource != s.resource || s.namespace != "" && at.namespace != s.namespace {
		return false
	}
	return s.labels.Matches(labels.Set(object.GetLabels())) && s.fields.Matches(fieldsOf{object})
}

// fieldsOf finds fields of an object by their paths.
type fieldsOf struct{ object *unstructured.Unstructured }

func (f fieldsOf) Has(path string) bool { return fieldText(f.object, path) != "" }

func (f fieldsOf) Get(path string) string { return fieldText(f.object, path) }

// fieldText returns a field by its path; "" if there is none.
func fieldText(object *unstructured.Unstructured, path string) string {
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
	if err != nil || !found {
		return ""
	}
	return fmt.Sprint(value)
}

// sorted returns the keys of all objects by namespace and name. The caller holds the mutex.
func (a *API) sorted() []key {
	return slices.SortedFunc(maps.Keys(a.objects), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}
