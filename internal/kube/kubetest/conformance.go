package kubetest

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/kube"
)

// Thing is a kind of custom resources for the suite.
var Thing = Kind{
	GroupVersionResource: schema.GroupVersionResource{Group: "test.waybill.dev", Version: "v1", Resource: "things"},
	Kind:                 "Thing",
}

// ThingDefinition defines Thing for an API server.
const ThingDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.test.waybill.dev}
spec:
  group: test.waybill.dev
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// Run checks that a cluster behaves as API servers do. open returns a client for an empty namespace
// of a cluster that serves Thing.
func Run(t *testing.T, open func(t *testing.T) *kube.Cluster) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, objects){
		"CreateGivesAnIdentity":          createGivesAnIdentity,
		"GeneratedNamesDiffer":           generatedNamesDiffer,
		"ADryRunChangesNothing":          dryRunChangesNothing,
		"WhatIsMissingIsNotFound":        missingIsNotFound,
		"AStaleUpdateIsAConflict":        staleUpdateIsAConflict,
		"AnotherUIDIsAConflict":          anotherUIDIsAConflict,
		"AnUpdateWithoutChangeIsNone":    updateWithoutChange,
		"DeletionsHavePreconditions":     deletionsHavePreconditions,
		"ANewObjectOfANameHasAnotherUID": newObjectHasAnotherUID,
		"FinalizersHoldADeletedObject":   finalizersHold,
		"APatchRemovesTheLastFinalizer":  patchRemovesFinalizer,
		"APatchMayTest":                  patchMayTest,
		"AMergePatchMayBeStale":          mergePatchMayBeStale,
		"AMergePatchMayNameTheUID":       mergePatchMayNameTheUID,
		"APatchWithoutChangeIsNone":      patchWithoutChange,
		"EmptyMetadataIsAbsent":          emptyMetadataIsAbsent,
		"AnnotationsHaveALimit":          annotationsHaveALimit,
		"ADeletedObjectMayBePatched":     deletedMayBePatched,
		"ListsAreSelected":               listsAreSelected,
		"UnknownFieldsAreNotSelected":    unknownFields,
		"WatchesContinueLists":           watchesContinueLists,
		"WatchesBeginWithWhatIsThere":    watchesBeginWithWhatIsThere,
		"InitialEventsHaveAnEnd":         initialEventsHaveAnEnd,
		"WatchesSeeObjectsComeAndGo":     watchesSeeObjectsComeAndGo,
		"WatchesSeeOneNamespace":         watchesSeeOneNamespace,
		"AWatchEndsAtItsTime":            watchEndsAtItsTime,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range []Kind{Thing, kinds[1]} {
				t.Run(kind.Kind, func(t *testing.T) {
					t.Parallel()
					cluster := open(t)
					check(t, objectsOf(cluster, kind))
				})
			}
		})
	}
	for name, check := range map[string]func(*testing.T, objects){
		"CustomResourcesNeedAVersion":   customNeedsAVersion,
		"AnOldVersionIsExpired":         oldVersionIsExpired,
		"OthersDoNot":                   othersNeedNoVersion,
		"GenerationsCountChanges":       generationsCountChanges,
		"TheStatusIsNotCounted":         statusIsNotCounted,
		"SecretsHaveNoGeneration":       secretsHaveNoGeneration,
		"DefinitionsHaveNoNamespace":    definitionsHaveNoNamespace,
		"TheStatusOfAPodIsASubresource": statusIsASubresource,
		"ANodeHoldsItsPods":             nodeHoldsItsPods,
		"PodsWithoutANodeGoAtOnce":      podsWithoutANode,
		"EndedPodsGoAtOnce":             endedPodsGoAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := open(t)
			check(t, objectsOf(cluster, kinds[0]))
		})
	}
}

// objects are those of one kind in a namespace of its own.
type objects struct {
	dynamic.ResourceInterface
	kind    Kind
	cluster *kube.Cluster
}

func objectsOf(cluster *kube.Cluster, kind Kind) objects {
	return objects{cluster.Resource(kind.GroupVersionResource).Namespace(cluster.Namespace), kind, cluster}
}

// named returns a small object that was not made yet. Most properties have one, named a.
func (o objects) named(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	object.SetGroupVersionKind(o.kind.GroupVersion().WithKind(o.kind.Kind))
	if o.kind.GroupVersionResource == Pods {
		object.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "a", "image": "a"}}}
	}
	return object
}

func (o objects) make(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	made, err := o.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s: %v", object.GetName(), err)
	}
	return made
}

func (o objects) get(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	found, err := o.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get a: %v", err)
	}
	return found
}

func (o objects) change(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	changed, err := o.Update(t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update %s: %v", object.GetName(), err)
	}
	return changed
}

func (o objects) remove(t *testing.T) {
	t.Helper()
	if err := o.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete a: %v", err)
	}
}

// labeled returns a copy with a label, which is a change of any kind of object.
func labeled(object *unstructured.Unstructured, value string) *unstructured.Unstructured {
	other := object.DeepCopy()
	other.SetLabels(map[string]string{"test": value})
	return other
}

func (o objects) wantGone(t *testing.T) {
	t.Helper()
	want(t, "get after the deletion", apierrors.IsNotFound, func() error {
		_, err := o.Get(t.Context(), "a", metav1.GetOptions{})
		return err
	})
}

// want checks the kind of an error.
func want(t *testing.T, what string, kind func(error) bool, do func() error) {
	t.Helper()
	if err := do(); !kind(err) {
		t.Errorf("%s: got %v", what, err)
	}
}

func createGivesAnIdentity(t *testing.T, o objects) {
	made := o.make(t, o.named("a"))
	created := made.GetCreationTimestamp()
	if created.IsZero() || made.GetUID() == "" || made.GetResourceVersion() == "" || made.GetNamespace() == "" {
		t.Errorf("made %v", made)
	}
	if got := o.get(t); got.GetUID() != made.GetUID() || got.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("got %v, want %v", got, made)
	}
	want(t, "create twice", apierrors.IsAlreadyExists, func() error {
		_, err := o.Create(t.Context(), o.named("a"), metav1.CreateOptions{})
		return err
	})
	own := o.named("b")
	own.SetUID("own")
	if made := o.make(t, own); made.GetUID() == "own" {
		t.Error("the creator chose the UID")
	}
}

func generatedNamesDiffer(t *testing.T, o objects) {
	object := o.named("")
	object.SetGenerateName("a-")
	first, second := o.make(t, object), o.make(t, object)
	if first.GetName() == second.GetName() || len(first.GetName()) < 4 || first.GetName()[:2] != "a-" {
		t.Errorf("got %q and %q", first.GetName(), second.GetName())
	}
	want(t, "create without a name", apierrors.IsInvalid, func() error {
		_, err := o.Create(t.Context(), o.named(""), metav1.CreateOptions{})
		return err
	})
}

func dryRunChangesNothing(t *testing.T, o objects) {
	made, err := o.Create(t.Context(), o.named("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || made.GetUID() == "" {
		t.Errorf("made %v, %v", made, err)
	}
	o.wantGone(t)
}

func missingIsNotFound(t *testing.T, o objects) {
	o.wantGone(t)
	want(t, "delete", apierrors.IsNotFound, func() error { return o.Delete(t.Context(), "a", metav1.DeleteOptions{}) })
	want(t, "patch", apierrors.IsNotFound, func() error {
		_, err := o.Patch(t.Context(), "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		return err
	})
	there := o.make(t, o.named("b"))
	there.SetName("a")
	want(t, "update", apierrors.IsNotFound, func() error {
		_, err := o.Update(t.Context(), there, metav1.UpdateOptions{})
		return err
	})
}

func staleUpdateIsAConflict(t *testing.T, o objects) {
	stale := o.make(t, o.named("a"))
	changed := o.change(t, labeled(stale, "1"))
	if changed.GetResourceVersion() == stale.GetResourceVersion() || changed.GetUID() != stale.GetUID() ||
		changed.GetLabels()["test"] != "1" {
		t.Errorf("got %v after %v", changed, stale)
	}
	want(t, "stale update", apierrors.IsConflict, func() error {
		_, err := o.Update(t.Context(), labeled(stale, "2"), metav1.UpdateOptions{})
		return err
	})
	if got := o.get(t); got.GetLabels()["test"] != "1" {
		t.Errorf("got %v", got)
	}
}

func anotherUIDIsAConflict(t *testing.T, o objects) {
	made := o.make(t, o.named("a"))
	other := labeled(made, "1")
	other.SetUID("another")
	want(t, "update", apierrors.IsConflict, func() error {
		_, err := o.Update(t.Context(), other, metav1.UpdateOptions{})
		return err
	})
}

func updateWithoutChange(t *testing.T, o objects) {
	made := o.make(t, o.named("a"))
	if again := o.change(t, made); again.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("version %s after %s", again.GetResourceVersion(), made.GetResourceVersion())
	}
}

func customNeedsAVersion(t *testing.T, o objects) {
	things := objectsOf(o.cluster, Thing)
	made := labeled(things.make(t, things.named("a")), "1")
	made.SetResourceVersion("")
	want(t, "update", apierrors.IsInvalid, func() error {
		_, err := things.Update(t.Context(), made, metav1.UpdateOptions{})
		return err
	})
}

func othersNeedNoVersion(t *testing.T, o objects) {
	secrets := objectsOf(o.cluster, kinds[1])
	made := labeled(secrets.make(t, secrets.named("a")), "1")
	made.SetResourceVersion("")
	if got := secrets.change(t, made); got.GetLabels()["test"] != "1" {
		t.Errorf("got %v", got)
	}
}

func deletionsHavePreconditions(t *testing.T, o objects) {
	made := o.make(t, o.named("a"))
	version, uid, other := made.GetResourceVersion(), made.GetUID(), types.UID("another")
	o.change(t, labeled(made, "1"))
	for name, p := range map[string]metav1.Preconditions{"UID": {UID: &other}, "version": {UID: &uid, ResourceVersion: &version}} {
		want(t, name, apierrors.IsConflict, func() error {
			return o.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &p})
		})
	}
	if err := o.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Error(err)
	}
	o.wantGone(t)
}

func newObjectHasAnotherUID(t *testing.T, o objects) {
	first := o.make(t, o.named("a"))
	o.remove(t)
	if second := o.make(t, o.named("a")); second.GetUID() == first.GetUID() {
		t.Error("two objects have one UID")
	}
}

const finalizer = "waybill.dev/test"

// finalized makes an object with a finalizer, and deletes it.
func (o objects) finalized(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	object := o.named("a")
	object.SetFinalizers([]string{finalizer})
	o.make(t, object)
	o.remove(t)
	return o.get(t)
}

func finalizersHold(t *testing.T, o objects) {
	held := o.finalized(t)
	if held.GetDeletionTimestamp() == nil {
		t.Fatalf("got %v", held)
	}
	o.remove(t)
	if again := o.get(t); again.GetResourceVersion() != held.GetResourceVersion() {
		t.Errorf("a second deletion changed it: %v", again)
	}
	more := held.DeepCopy()
	more.SetFinalizers([]string{finalizer, finalizer + "-2"})
	want(t, "add a finalizer", apierrors.IsInvalid, func() error {
		_, err := o.Update(t.Context(), more, metav1.UpdateOptions{})
		return err
	})
	changed := o.change(t, labeled(held, "1"))
	changed.SetFinalizers(nil)
	o.change(t, changed)
	o.wantGone(t)
}

func patchRemovesFinalizer(t *testing.T, o objects) {
	uid := o.finalized(t).GetUID()
	patch := []byte(
		`[{"op": "test", "path": "/metadata/uid", "value": "` + string(
			uid,
		) + `"}, {"op": "test", "path": "/metadata/finalizers/0", "value": "` + finalizer +
			`"}, {"op": "remove", "path": "/metadata/finalizers/0"}]`,
	)
	if _, err := o.Patch(t.Context(), "a", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	o.wantGone(t)
}

func patchMayTest(t *testing.T, o objects) {
	made := o.make(t, o.named("a"))
	patch := []byte(
		`[{"op": "test", "path": "/metadata/uid", "value": "another"}, {"op": "add", "path": "/metadata/labels", "value": {"test": "1"}}]`,
	)
	want(t, "patch of another UID", apierrors.IsInvalid, func() error {
		_, err := o.Patch(t.Context(), "a", types.JSONPatchType, patch, metav1.PatchOptions{})
		return err
	})
	if got := o.get(t); got.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("got %v", got)
	}
}

func mergePatchMayBeStale(t *testing.T, o objects) {
	made := o.make(t, labeled(o.named("a"), "1"))
	changed, err := o.Patch(
		t.Context(),
		"a",
		types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"test": null, "other": "2"}}}`),
		metav1.PatchOptions{},
	)
	if err != nil || len(changed.GetLabels()) != 1 || changed.GetLabels()["other"] != "2" ||
		changed.GetResourceVersion() == made.GetResourceVersion() {
		t.Errorf("got %v, %v", changed, err)
	}
	want(t, "stale patch", apierrors.IsConflict, func() error {
		stale := []byte(
			`{"metadata": {"resourceVersion": "` + made.GetResourceVersion() + `", "labels": {"test": "3"}}}`,
		)
		_, err := o.Patch(t.Context(), "a", types.MergePatchType, stale, metav1.PatchOptions{})
		return err
	})
}

func statusIsASubresource(t *testing.T, o objects) {
	object := labeled(o.named("a"), "1")
	object.Object["status"] = map[string]any{"phase": "Running"}
	made := o.make(t, object)
	if got := fieldText(made, "status.phase"); got != "Pending" {
		t.Errorf("a new pod is %s", got)
	}
	next := made.DeepCopy()
	next.Object["status"] = map[string]any{"phase": "Running"}
	if got := o.change(t, labeled(next, "2")); fieldText(got, "status.phase") != "Pending" ||
		got.GetLabels()["test"] != "2" {
		t.Errorf("got %v", got)
	}
	next.SetResourceVersion("")
	next.Object["spec"].(map[string]any)["activeDeadlineSeconds"] = int64(1)
	got, err := o.UpdateStatus(t.Context(), labeled(next, "3"), metav1.UpdateOptions{})
	if err != nil || fieldText(got, "status.phase") != "Running" || got.GetLabels()["test"] != "3" ||
		fieldText(got, "spec.activeDeadlineSeconds") != "" {
		t.Errorf("got %v, %v", got, err)
	}
	got, err = o.Patch(
		t.Context(),
		"a",
		types.MergePatchType,
		[]byte(`{"status": {"message": "text"}}`),
		metav1.PatchOptions{},
		"status",
	)
	if err != nil || fieldText(got, "status.message") != "text" || fieldText(got, "status.phase") != "Running" {
		t.Errorf("got %v, %v", got, err)
	}
}

// bound makes a pod that a node has.
func (o objects) bound(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	object := o.named("a")
	object.Object["spec"].(map[string]any)["nodeName"] = "node"
	return o.make(t, object)
}

func nodeHoldsItsPods(t *testing.T, o objects) {
	uid := o.bound(t).GetUID()
	for _, grace := range []int64{20, 5} { // the second one makes it shorter
		if err := o.Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			t.Fatal(err)
		}
		if got := o.get(t); got.GetDeletionTimestamp() == nil || *got.GetDeletionGracePeriodSeconds() != grace {
			t.Errorf("with a grace of %d s: %v", grace, got)
		}
	}
	now := int64(0)
	if err := o.Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: &now,
		Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Fatal(err)
	}
	o.wantGone(t)
}

func podsWithoutANode(t *testing.T, o objects) {
	o.make(t, o.named("a"))
	o.remove(t)
	o.wantGone(t)
}

func endedPodsGoAtOnce(t *testing.T, o objects) {
	ended := o.bound(t)
	ended.Object["status"] = map[string]any{"phase": "Failed"}
	if _, err := o.UpdateStatus(t.Context(), ended, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.remove(t)
	o.wantGone(t)
}

func listsAreSelected(t *testing.T, o objects) {
	o.make(t, labeled(o.named("a"), "1"))
	o.make(t, labeled(o.named("b"), "2"))
	for name, c := range map[string]struct {
		options metav1.ListOptions
		want    int
	}{
		"all": {metav1.ListOptions{}, 2}, "label": {metav1.ListOptions{LabelSelector: "test=1"}, 1},
		"no label":       {metav1.ListOptions{LabelSelector: "!test"}, 0},
		"another label":  {metav1.ListOptions{LabelSelector: "test!=1"}, 1},
		"name":           {metav1.ListOptions{FieldSelector: "metadata.name=b"}, 1},
		"name and label": {metav1.ListOptions{FieldSelector: "metadata.name=b", LabelSelector: "test=1"}, 0},
	} {
		list, err := o.List(t.Context(), c.options)
		if err != nil || len(list.Items) != c.want || list.GetResourceVersion() == "" {
			t.Errorf("%s: %d objects, %v", name, len(list.Items), err)
		}
	}
}

func unknownFields(t *testing.T, o objects) {
	want(t, "list", apierrors.IsBadRequest, func() error {
		_, err := o.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.unknown=1"})
		return err
	})
}
