package claim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

const prefix = "claim.flow.waybill.dev/"

func annotated(annotations map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAnnotations(annotations)
	return object
}

func TestClaimsAreReadByUID(t *testing.T) {
	t.Parallel()
	got := claim.Of(annotated(map[string]string{
		prefix + "b": "Retain shop/orders", prefix + "a": "WhenUnused shop/mail.v2", "other.dev/c": "WhenUnused shop/c",
	}))
	want := []claim.Claim{
		{UID: "a", Policy: v1alpha1.WhenUnused, Namespace: "shop", Name: "mail.v2"},
		{UID: "b", Policy: v1alpha1.Retain, Namespace: "shop", Name: "orders"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := claim.Of(annotated(nil)); len(got) > 0 {
		t.Errorf("got %v without annotations", got)
	}
}

// A user that cannot be looked up must not keep an object, and a lookup must not be able to fail for good.
func TestMalformedClaimsHaveNoUser(t *testing.T) {
	t.Parallel()
	for value, policy := range map[string]v1alpha1.DeletionPolicy{
		"":                          "",
		"Retain":                    v1alpha1.Retain,
		"Retain shop":               v1alpha1.Retain,
		"WhenUnused /orders":        v1alpha1.WhenUnused,
		"WhenUnused shop/":          v1alpha1.WhenUnused,
		"WhenUnused shop/..":        v1alpha1.WhenUnused,
		"WhenUnused shop/a/b":       v1alpha1.WhenUnused,
		"WhenUnused sh op/orders":   v1alpha1.WhenUnused,
		"WhenUnused shop/orders x":  v1alpha1.WhenUnused,
		"WhenUnused Shop/orders":    v1alpha1.WhenUnused,
		"Never shop/orders":         "",
		"whenunused shop/orders":    "",
		" WhenUnused shop/orders":   "",
		"shop/orders":               "",
		"WhenUnused\x00shop/orders": "",
	} {
		got := claim.Of(annotated(map[string]string{prefix + "a": value}))
		if diff := cmp.Diff([]claim.Claim{{UID: "a", Policy: policy}}, got); diff != "" {
			t.Errorf("%q: %s", value, diff)
		}
	}
	if got := claim.Of(annotated(map[string]string{prefix: "Retain shop/orders"})); len(got) != 1 || got[0].Name != "" {
		t.Errorf("got %v of a key without a UID", got)
	}
}

func FuzzOf(f *testing.F) {
	f.Add("a", "WhenUnused shop/orders")
	f.Add("", "Retain ")
	f.Fuzz(func(t *testing.T, uid, value string) {
		object := annotated(map[string]string{prefix + uid: value})
		for _, c := range claim.Of(object) {
			if c.Name != "" && !c.On(object) {
				t.Errorf("%+v is not written as %q", c, value)
			}
		}
	})
}

func TestMarkMakesAManagedObject(t *testing.T) {
	t.Parallel()
	c := claim.Claim{UID: "a", Policy: v1alpha1.Retain, Namespace: "shop", Name: "orders"}
	for name, object := range map[string]*unstructured.Unstructured{
		"bare":      {Object: map[string]any{}},
		"annotated": annotated(map[string]string{"own": "kept"}),
	} {
		before := object.GetAnnotations()["own"]
		if claim.Managed(object) || c.On(object) {
			t.Errorf("%s: managed before", name)
		}
		claim.Mark(object, c)
		if !claim.Managed(object) || !c.On(object) || object.GetAnnotations()["own"] != before {
			t.Errorf("%s: got %v", name, object)
		}
		other := c
		if other.Policy = v1alpha1.WhenUnused; other.On(object) {
			t.Errorf("%s: a claim with another policy is on %v", name, object)
		}
	}
}

func TestOneMarkIsNotEnough(t *testing.T) {
	t.Parallel()
	object := annotated(map[string]string{v1alpha1.MadeForAnnotation: "a"})
	if claim.Managed(object) {
		t.Error("an annotation suffices")
	}
	object.SetLabels(map[string]string{v1alpha1.ManagedByLabel: "Helm"})
	if claim.Managed(object) {
		t.Error("the label of another program suffices")
	}
	object.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy})
	if !claim.Managed(object) {
		t.Error("both marks do not suffice")
	}
	object.SetAnnotations(nil)
	if claim.Managed(object) {
		t.Error("a label suffices")
	}
}
