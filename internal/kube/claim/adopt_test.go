package claim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

// adoption describes the broker's adoption by a user.
func (w *world) adoption(uid string, of *unstructured.Unstructured) claim.Adoption {
	return claim.Adoption{Name: name, UID: of.GetUID(), Claim: user(uid, v1alpha1.WhenUnused), Labels: map[string]string{"link": "1"}}
}

// foreign stores a broker without marks.
func (w *world) foreign(object *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	made, err := w.raw().Create(w.t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// metadata returns the labels and annotations of the broker.
func (w *world) metadata() [2]map[string]string {
	w.t.Helper()
	found, err := w.raw().Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return [2]map[string]string{found.GetLabels(), found.GetAnnotations()}
}

// TestAdoptedObjectsAreReturnedAsTheyWere once the last of their users has returned them.
func TestAdoptedObjectsAreReturnedAsTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	object := broker()
	object.SetLabels(map[string]string{"own": "1"})
	object.SetAnnotations(map[string]string{"own": "2"})
	made := w.foreign(object)
	before := w.metadata()
	for _, uid := range []string{"a", "b", "a"} {
		added, err := w.objects.Adopt(t.Context(), w.adoption(uid, made))
		if err != nil || added.Outcome != claim.Stored || !claim.Managed(added.Object) || !user(uid, v1alpha1.WhenUnused).On(added.Object) {
			t.Fatalf("%s: got %v, %v", uid, added, err)
		}
	}
	adopted := [2]map[string]string{
		{"own": "1", "link": "1", v1alpha1.ManagedByLabel: v1alpha1.ManagedBy},
		{"own": "2", v1alpha1.MadeForAnnotation: "a", v1alpha1.ClaimPrefix + "a": "WhenUnused shop/a",
			v1alpha1.ClaimPrefix + "b": "WhenUnused shop/b"},
	}
	if diff := cmp.Diff(adopted, w.metadata()); diff != "" {
		t.Errorf("after the adoption (-want +got):\n%s", diff)
	}
	for _, uid := range []string{"a", "a"} {
		if err := w.objects.Return(t.Context(), w.adoption(uid, made)); err != nil {
			t.Fatal(err)
		}
	}
	delete(adopted[1], v1alpha1.ClaimPrefix+"a")
	if diff := cmp.Diff(adopted, w.metadata()); diff != "" {
		t.Errorf("after the first return (-want +got):\n%s", diff)
	}
	if err := w.objects.Return(t.Context(), w.adoption("b", made)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.metadata()); diff != "" {
		t.Errorf("after the last return (-want +got):\n%s", diff)
	}
}

// TestAReturnRemovesStaleClaims so that they do not keep the marks.
func TestAReturnRemovesStaleClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.foreign(broker())
	for _, uid := range []string{"a", "b"} {
		if _, err := w.objects.Adopt(t.Context(), w.adoption(uid, made)); err != nil {
			t.Fatal(err)
		}
	}
	w.gone[types.UID("b")] = true
	if err := w.objects.Return(t.Context(), w.adoption("a", made)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([2]map[string]string{}, w.metadata()); diff != "" {
		t.Errorf("got (-want +got):\n%s", diff)
	}
}

// TestWhatIsNotThereAnyMoreIsNotAdopted nor returned.
func TestWhatIsNotThereAnyMoreIsNotAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	object := broker()
	object.SetFinalizers([]string{finalizer})
	made := w.foreign(object)
	other := made.DeepCopy()
	other.SetUID("other")
	want := func(outcome claim.Outcome, of *unstructured.Unstructured) {
		t.Helper()
		before := w.found()
		added, err := w.objects.Adopt(t.Context(), w.adoption("a", of))
		if err != nil || added.Outcome != outcome {
			t.Errorf("got %v, %v, want %s", added, err, outcome)
		}
		if err := w.objects.Return(t.Context(), w.adoption("a", of)); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(before, w.found()); diff != "" {
			t.Errorf("it was changed (-was +is):\n%s", diff)
		}
	}
	want(claim.Replaced, other)
	if err := w.raw().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want(claim.Terminating, made)
	if _, err := w.raw().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	want(claim.Gone, made)
}

// TestAnAdoptionFollowsAChange of the object between its read and its write.
func TestAnAdoptionFollowsAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.foreign(broker())
	w.before("a", "patch", func() {
		w.edit(func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"new": "1"}) })
	})
	w.as("a", func() (string, error) {
		added, err := w.objects.Adopt(t.Context(), w.adoption("a", made))
		return string(added.Outcome), err
	})
	if diff := cmp.Diff([]string{"a get", "a patch", "a get", "a patch", "a: stored"}, w.log); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if labels := w.metadata()[0]; labels["new"] != "1" || labels["link"] != "1" {
		t.Errorf("labels: %v", labels)
	}
}
