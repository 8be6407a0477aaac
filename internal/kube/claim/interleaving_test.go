package claim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

var (
	a    = user("a", v1alpha1.WhenUnused)
	b    = user("b", v1alpha1.WhenUnused)
	keep = user("keep", v1alpha1.Retain)
)

// shared has the object with claims.
func (w *world) shared(claims ...claim.Claim) {
	w.t.Helper()
	for i, c := range claims {
		if i == 0 {
			w.create(c)
		} else {
			w.add(c, w.uid())
		}
	}
	w.log = nil
}

func TestTwoUsersCreateOrClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before("b", "create", func() { w.create(a) })
	w.create(b)
	w.want("a create", "a: created", "b create", "b: exists", "= managed a")
	uid := w.uid()
	w.before("b", "patch", func() { w.add(keep, uid) })
	w.add(b, uid)
	w.want("keep patch", "keep: stored", "b patch", "b: stored", "= managed a b keep")
}

func TestAClaimArrivesBeforeTheDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a)
	uid := w.uid()
	w.before("a", "delete", func() { w.add(b, uid) })
	w.release(a, uid)
	w.want("a get", "b patch", "b: stored", "a delete", "a get", "a patch", "a: done", "= managed b")
}

func TestAClaimArrivesAfterTheDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a)
	uid := w.uid()
	w.before("b", "patch", func() { w.release(a, uid) })
	if added := w.add(b, uid); added.Object != nil {
		t.Errorf("got %v of an absent object", added.Object)
	}
	w.create(b)
	w.want("a get", "a delete", "a: deleting", "b patch", "b: gone", "b create", "b: created", "= managed b")
	w.release(a, uid)
	w.want("a get", "a: done", "= managed b")
}

func TestAClaimArrivesAtATerminatingObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a)
	w.hold()
	uid := w.uid()
	w.release(a, uid)
	w.want("a get", "a delete", "a: deleting", "= managed terminating a")
	w.release(a, uid)
	w.want("a get", "a: deleting", "= managed terminating a")
	if added := w.add(b, uid); added.Object.GetDeletionTimestamp() == nil {
		t.Errorf("got %v", added.Object)
	}
	w.want("b patch", "b: terminating", "= managed terminating a b")
	w.note("its end", w.unhold)
	w.release(a, uid)
	w.create(b)
	w.want("(its end)", "a get", "a: done", "b create", "b: created", "= managed b")
}

func TestAUserLeavesATerminatingObjectToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b)
	w.hold()
	w.remove()
	w.release(a, w.uid())
	w.want("a get", "a patch", "a: done", "= managed terminating b")
	w.release(b, w.uid())
	w.want("b get", "b: deleting", "= managed terminating b")
}

func TestTwoUsersRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b)
	uid := w.uid()
	w.before("a", "patch", func() { w.release(b, uid) })
	w.release(a, uid)
	w.want("a get", "b get", "b patch", "b: done", "a patch", "a get", "a delete", "a: deleting", "= absent")
}

func TestACrashLosesNoClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lost = "create"
	w.create(a)
	w.create(a)
	w.want("a create", "a: error", "a create", "a: exists", "= managed a")
	w.lost = "patch"
	w.add(b, w.uid())
	if !b.On(w.found()) {
		t.Error("a claim whose answer was lost is not on the object")
	}
	w.add(b, w.uid())
	w.want("b patch", "b: error", "b patch", "b: stored", "= managed a b")
	w.lost = "patch"
	w.release(b, w.uid())
	w.release(b, w.uid())
	w.want("b get", "b patch", "b: error", "b get", "b: done", "= managed a")
	uid := w.uid()
	w.lost = "delete"
	w.release(a, uid)
	w.release(a, uid)
	w.want("a get", "a delete", "a: error", "a get", "a: done", "= absent")
}

func TestTheStatusIsWrittenDuringARelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a)
	w.before("a", "delete", func() { w.note("status", func() { w.setStatus(1) }) })
	w.release(a, w.uid())
	w.want("a get", "(status)", "a delete", "a get", "a delete", "a: deleting", "= absent")
}

func TestAReleaseGivesUpAfterSixReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a)
	var want []string
	for i := range int64(6) {
		w.before("a", "delete", func() { w.setStatus(i) })
		want = append(want, "a get", "a delete")
	}
	w.release(a, w.uid())
	w.want(append(want, "a: error", "= managed a")...)
}

func TestTheObjectOrAClaimIsRemovedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b)
	uid := w.uid()
	w.note("delete", w.remove)
	w.add(a, uid)
	w.create(a)
	w.add(b, uid)
	w.add(b, w.uid())
	w.want("(delete)", "a patch", "a: gone", "a create", "a: created", "b patch", "b: replaced", "b patch", "b: stored",
		"= managed a b")
	w.note("edit", func() {
		w.edit(func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.MadeForAnnotation: "a"})
		})
	})
	w.sweep()
	w.want("(edit)", "sweeper get", "sweeper delete", "sweeper: deleting", "= absent") // a managed object without claims is garbage
}

func TestAForeignObjectTakesTheName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b)
	uid := w.uid()
	w.remove()
	made, err := w.raw().Create(t.Context(), broker(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.add(b, uid)
	w.release(a, uid)
	w.release(a, "")
	w.sweep()
	w.want("b patch", "b: replaced", "a get", "a: done", "a get", "a: done", "sweeper get", "sweeper: done", "= foreign")
	if diff := cmp.Diff(made, w.found()); diff != "" {
		t.Error(diff)
	}
}

func TestACacheShowsAnObjectThatWasReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a)
	old := w.uid()
	w.remove()
	w.create(b)
	w.add(a, old)
	w.release(a, old)
	w.add(a, w.uid())
	w.want("b create", "b: created", "a patch", "a: replaced", "a get", "a: done", "a patch", "a: stored", "= managed a b")
	w.release(b, old) // whose claim is on the new object
	w.want("b get", "b: done", "= managed a b")
	w.release(b, "")
	w.want("b get", "b patch", "b: done", "= managed a")
}

func TestStaleClaimsAreSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b)
	w.sweep()
	w.want("sweeper get", "sweeper: kept", "= managed a b") // at rest nothing is written
	w.gone["a"] = true
	w.sweep()
	w.want("sweeper get", "sweeper patch", "sweeper: done", "= managed b")
	w.release(b, w.uid())
	w.create(b)
	w.note("b is removed by force", func() { w.gone["b"] = true })
	w.sweep()
	w.want("b get", "b delete", "b: deleting", "b create", "b: created", "(b is removed by force)",
		"sweeper get", "sweeper delete", "sweeper: deleting", "= absent")
}

func TestAReleaseRemovesStaleClaimsToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b, keep)
	w.gone["b"] = true
	w.edit(func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		annotations[v1alpha1.ClaimPrefix+"broken"] = "WhenUnused"
		o.SetAnnotations(annotations)
	})
	w.release(a, w.uid())
	w.want("a get", "a patch", "a: done", "= managed keep")
}

func TestAMalformedClaimDoesNotKeepTheObject(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]string{
		"nonsense": {"sweeper get", "sweeper delete", "sweeper: deleting", "= absent"},
		"Retain":   {"sweeper get", "sweeper patch", "sweeper: retained", "= foreign"},
	} {
		w := newWorld(t)
		w.shared(a)
		w.edit(func(o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			annotations[v1alpha1.ClaimPrefix+"a"] = value
			o.SetAnnotations(annotations)
		})
		w.sweep()
		w.want(want...)
	}
}

func TestASweepMeetsAClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a)
	w.gone["a"] = true
	uid := w.uid()
	w.before("sweeper", "delete", func() { w.add(b, uid) })
	w.sweep()
	w.want("sweeper get", "b patch", "b: stored", "sweeper delete", "sweeper get", "sweeper patch", "sweeper: done", "= managed b")
}

func TestALateClaimOfADeletedUserIsSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b)
	uid := w.uid()
	w.before("b", "patch", func() { w.add(a, uid) })
	w.release(a, uid)
	w.gone["a"] = true
	w.add(b, uid)
	w.sweep()
	w.want("a get", "a patch", "a: done", "a patch", "a: stored", "b patch", "b: stored",
		"sweeper get", "sweeper patch", "sweeper: done", "= managed b")
}

func TestTheNamespaceIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b)
	uid := w.uid()
	w.before("a", "patch", func() { w.note("namespace deleted", w.remove) })
	w.release(a, uid)
	w.release(b, uid)
	w.want("a get", "(namespace deleted)", "a patch", "a: done", "b get", "b: done", "= absent")
}

func TestTheLastUserRetainsTheObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(keep)
	uid := w.uid()
	w.before("b", "patch", func() { w.release(keep, uid) })
	added := w.add(b, uid)
	w.want("keep get", "keep patch", "keep: retained", "b patch", "b get", "b patch", "b: foreign", "= foreign")
	if diff := cmp.Diff(added.Object, w.found()); diff != "" {
		t.Errorf("the object that was returned differs: %s", diff)
	}
	if found := w.found(); found.GetLabels() != nil || found.GetAnnotations() != nil {
		t.Errorf("something is left: %v", found)
	}
}

func TestRetainCountsOnlyForTheLastUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(keep, a)
	w.release(keep, w.uid())
	w.release(a, w.uid())
	w.want("keep get", "keep patch", "keep: done", "a get", "a delete", "a: deleting", "= absent")
	w.shared(keep)
	w.gone["keep"] = true
	w.sweep()
	w.want("sweeper get", "sweeper patch", "sweeper: retained", "= foreign")
}

func TestAClaimIsWithdrawnFromAnObjectThatChanges(t *testing.T) {
	t.Parallel()
	unmark := func(o *unstructured.Unstructured) { o.SetLabels(nil) }
	for what, c := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"its status": {
			func(w *world) { w.setStatus(1) },
			[]string{"b get", "b patch", "b get", "b patch", "b: foreign", "= foreign a"},
		},
		"it is marked again": {
			func(w *world) {
				w.edit(func(o *unstructured.Unstructured) {
					o.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy})
				})
			},
			[]string{"b get", "b patch", "b get", "b: replaced", "= managed a b"},
		},
		"it is removed": {
			func(w *world) { w.remove() },
			[]string{"b get", "b patch", "b: gone", "= absent"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.shared(a)
			w.edit(unmark)
			w.before("b", "get", func() { w.before("b", "patch", func() { c.change(w) }) })
			w.add(b, w.uid())
			w.want(append([]string{"b patch"}, c.want...)...)
		})
	}
}

func TestAClaimOnAForeignObjectIsReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b)
	w.edit(func(o *unstructured.Unstructured) { o.SetLabels(nil) })
	w.release(a, w.uid())
	w.want("a get", "a patch", "a: done", "= foreign b")
	w.release(a, w.uid())
	w.want("a get", "a: done", "= foreign b")
	w.release(b, w.uid()) // the last one, which deletes nothing
	w.want("b get", "b patch", "b: done", "= foreign")
}
