package kubetest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// merge changes the object a with a merge patch.
func (o objects) merge(t *testing.T, patch string) (*unstructured.Unstructured, error) {
	t.Helper()
	return o.Patch(t.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
}

// merged changes the object a with a merge patch that has to succeed.
func (o objects) merged(t *testing.T, patch string) *unstructured.Unstructured {
	t.Helper()
	changed, err := o.merge(t, patch)
	if err != nil {
		t.Fatalf("patch a with %.200s: %v", patch, err)
	}
	return changed
}

// mergePatchMayNameTheUID differs from an update: another UID is invalid, and not a conflict.
func mergePatchMayNameTheUID(t *testing.T, o objects) {
	made := o.make(t, o.named("a"))
	_, err := o.merge(t, `{"metadata": {"uid": "another", "annotations": {"test": "1"}}}`)
	if !apierrors.IsInvalid(err) || !isAbout(err, "metadata.uid") {
		t.Errorf("another UID: got %v", err)
	}
	if got := o.get(t); got.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("another UID: got %v", got)
	}
	got := o.merged(t, `{"metadata": {"uid": "`+string(made.GetUID())+`", "annotations": {"test": "1"}}}`)
	if got.GetAnnotations()["test"] != "1" || got.GetUID() != made.GetUID() {
		t.Errorf("its own UID: got %v", got)
	}
	_, err = o.merge(t, `{"metadata": {"uid": "another", "resourceVersion": "`+made.GetResourceVersion()+`"}}`)
	if !apierrors.IsConflict(err) {
		t.Errorf("another UID and a stale version: got %v", err)
	}
}

// isAbout reports whether an error is about a field.
func isAbout(err error, field string) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && slices.ContainsFunc(
		status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field })
}

func patchWithoutChange(t *testing.T, o objects) {
	object := o.named("a")
	object.SetAnnotations(map[string]string{"test": "1"})
	made := o.make(t, object)
	for _, patch := range []string{`{}`, `{"metadata": {"annotations": {"test": "1", "other": null}}}`} {
		if got := o.merged(t, patch); got.GetResourceVersion() != made.GetResourceVersion() {
			t.Errorf("%s: version %s after %s", patch, got.GetResourceVersion(), made.GetResourceVersion())
		}
	}
}

func emptyMetadataIsAbsent(t *testing.T, o objects) {
	object := labeled(o.named("a"), "1")
	object.SetAnnotations(map[string]string{"test": "1"})
	o.make(t, object)
	o.merged(t, `{"metadata": {"annotations": {"test": null}, "labels": {"test": null}, "finalizers": []}}`)
	metadata := o.get(t).Object["metadata"].(map[string]any)
	for _, field := range []string{"annotations", "labels", "finalizers"} {
		if value, is := metadata[field]; is {
			t.Errorf("%s is %v", field, value)
		}
	}
}

func annotationsHaveALimit(t *testing.T, o objects) {
	const key = "test"
	object := o.named("a")
	object.SetAnnotations(map[string]string{key: strings.Repeat("x", maxAnnotations-len(key))})
	made := o.make(t, object)
	for name, do := range map[string]func() error{
		"create": func() error {
			larger := o.named("b")
			larger.SetAnnotations(map[string]string{key: object.GetAnnotations()[key] + "x"})
			_, err := o.Create(t.Context(), larger, metav1.CreateOptions{})
			return err
		},
		"update": func() error {
			larger := made.DeepCopy()
			larger.SetAnnotations(map[string]string{key: object.GetAnnotations()[key] + "x"})
			_, err := o.Update(t.Context(), larger, metav1.UpdateOptions{})
			return err
		},
		"patch": func() error {
			_, err := o.merge(t, `{"metadata": {"annotations": {"o": ""}}}`)
			return err
		},
	} {
		if err := do(); !apierrors.IsInvalid(err) || !isAbout(err, "metadata.annotations") {
			t.Errorf("%s: got %.200v", name, err)
		}
	}
	if got := o.get(t); got.GetResourceVersion() != made.GetResourceVersion() {
		t.Error("a refused change was stored")
	}
}

func deletedMayBePatched(t *testing.T, o objects) {
	held := o.finalized(t)
	got := o.merged(t, `{"metadata": {"annotations": {"test": "1"}}}`)
	if got.GetDeletionTimestamp() == nil || got.GetAnnotations()["test"] != "1" {
		t.Errorf("got %v", got)
	}
	version, uid := got.GetResourceVersion(), held.GetUID()
	o.merged(t, `{"metadata": {"resourceVersion": "`+version+`", "uid": "`+string(uid)+`", "finalizers": null}}`)
	o.wantGone(t)
}

func generationsCountChanges(t *testing.T, o objects) {
	things := objectsOf(o.cluster, Thing)
	object := things.named("a")
	object.SetGeneration(7)
	object.SetFinalizers([]string{finalizer})
	if got := things.make(t, object).GetGeneration(); got != 1 {
		t.Errorf("a new object has generation %d", got)
	}
	for _, c := range []struct {
		patch string
		want  int64
	}{
		{`{"metadata": {"labels": {"test": "1"}, "annotations": {"test": "1"}}}`, 1},
		{`{"spec": {"a": 1}}`, 2},
		{`{"spec": {"a": 1}}`, 2},
		{`{"other": {"a": 1}, "metadata": {"generation": 9}}`, 3},
	} {
		if got := things.merged(t, c.patch).GetGeneration(); got != c.want {
			t.Errorf("after %s: generation %d, want %d", c.patch, got, c.want)
		}
	}
	things.remove(t)
	things.remove(t)
	if got := things.get(t).GetGeneration(); got != 4 {
		t.Errorf("a deleted object has generation %d", got)
	}
}

func statusIsNotCounted(t *testing.T, o objects) {
	made := o.make(t, o.named("a"))
	if got := made.GetGeneration(); got != 1 {
		t.Errorf("a new pod has generation %d", got)
	}
	made.SetResourceVersion("")
	made.Object["status"] = map[string]any{"phase": "Running"}
	changed, err := o.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	if err != nil || changed.GetGeneration() != 1 {
		t.Errorf("after a change of the status: %v, %v", changed, err)
	}
	if got := o.merged(t, `{"spec": {"activeDeadlineSeconds": 9}}`).GetGeneration(); got != 2 {
		t.Errorf("after a change of the spec: generation %d", got)
	}
}

func secretsHaveNoGeneration(t *testing.T, o objects) {
	secrets := objectsOf(o.cluster, kinds[1])
	secrets.make(t, secrets.named("a"))
	if got := secrets.merged(t, `{"stringData": {"a": "1"}}`).GetGeneration(); got != 0 {
		t.Errorf("generation %d", got)
	}
}

func definitionsHaveNoNamespace(t *testing.T, o objects) {
	definitions := o.cluster.Resource(Definitions)
	found, err := definitions.Get(t.Context(), Thing.GroupResource().String(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found.GetNamespace() != "" || fieldText(found, "spec.group") != Thing.Group ||
		fieldText(found, "spec.names.kind") != Thing.Kind || fieldText(found, "spec.scope") != "Namespaced" {
		t.Errorf("got %v", found)
	}
	want(t, "in a namespace", apierrors.IsNotFound, func() error {
		_, err := definitions.Namespace("test").Get(t.Context(), found.GetName(), metav1.GetOptions{})
		return err
	})
}
