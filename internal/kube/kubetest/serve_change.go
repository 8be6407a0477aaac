package kubetest

import (
	"encoding/json"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// changing names the object that a request changes: as a whole, or its status.
type changing struct {
	name   string // "": the request creates one
	status bool
}

// maxChange bounds the body of a request that changes an object.
const maxChange = 3 << 20

// serveChange creates or changes an object.
func serveChange(w http.ResponseWriter, r *http.Request, objects dynamic.ResourceInterface, to changing) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxChange))
	object := &unstructured.Unstructured{}
	form := types.PatchType(r.Header.Get("Content-Type"))
	if isPatch := r.Method == http.MethodPatch && form != types.ApplyYAMLPatchType; err == nil && !isPatch {
		err = object.UnmarshalJSON(body)
	}
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	var parts []string
	if to.status {
		parts = []string{"status"}
	}
	code := http.StatusOK
	switch {
	case r.Method == http.MethodPost && to.name == "":
		code = http.StatusCreated
		object, err = objects.Create(r.Context(), object, metav1.CreateOptions{})
	case r.Method == http.MethodPut:
		object, err = objects.Update(r.Context(), object, metav1.UpdateOptions{}, parts...)
	case r.Method == http.MethodPatch && form == types.ApplyYAMLPatchType:
		object, err = objects.Apply(r.Context(), to.name, object, metav1.ApplyOptions{}, parts...)
	case r.Method == http.MethodPatch:
		object, err = objects.Patch(r.Context(), to.name, form, body, metav1.PatchOptions{}, parts...)
	default:
		err = errNotServed
	}
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, code, object)
}

// serveDeletion deletes an object.
func serveDeletion(w http.ResponseWriter, r *http.Request, objects dynamic.ResourceInterface, name string) {
	var o metav1.DeleteOptions
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxChange))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &o)
	}
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	if err := objects.Delete(r.Context(), name, o); err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
	})
}
