package claim

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// Claim is a user's claim on an object.
type Claim struct {
	UID    types.UID
	Policy v1alpha1.DeletionPolicy // the fate of the object, if this claim is the last; "": malformed

	// Namespace and Name of the user. Both are empty if the claim is malformed: no user can be looked up, so it is stale.
	Namespace, Name string
}

// Of returns the claims on an object by UID, malformed ones included.
func Of(object metav1.Object) (claims []Claim) {
	for key, value := range object.GetAnnotations() {
		if uid, is := strings.CutPrefix(key, v1alpha1.ClaimPrefix); is {
			claims = append(claims, parse(types.UID(uid), value))
		}
	}
	slices.SortFunc(claims, func(a, b Claim) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return claims
}

// parse reads a claim. The policy of a claim that is otherwise malformed is kept, so that Retain is honored.
func parse(uid types.UID, value string) Claim {
	policy, user, _ := strings.Cut(value, " ")
	c := Claim{UID: uid}
	if p := v1alpha1.DeletionPolicy(policy); p == v1alpha1.WhenUnused || p == v1alpha1.Retain {
		c.Policy = p
	}
	namespace, name, _ := strings.Cut(user, "/")
	if uid != "" && c.Policy != "" && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0 {
		c.Namespace, c.Name = namespace, name
	}
	return c
}

// On reports whether an object has exactly this claim, so that Add has nothing to change.
func (c Claim) On(object metav1.Object) bool {
	value, is := object.GetAnnotations()[c.key()]
	return is && value == c.value()
}

// Has reports whether an object has a claim of a user, whatever its value.
func Has(object metav1.Object, user types.UID) bool { return keysOf(object, user) != nil }

func (c Claim) key() string { return v1alpha1.ClaimPrefix + string(c.UID) }

func (c Claim) value() string { return string(c.Policy) + " " + c.Namespace + "/" + c.Name }

// isMalformed reports whether no user can be looked up.
func (c Claim) isMalformed() bool { return c.Name == "" }

// Managed reports whether an object has both marks. Any other object is foreign.
func Managed(object metav1.Object) bool {
	return object.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedBy && object.GetAnnotations()[v1alpha1.MadeForAnnotation] != ""
}

// Mark gives an object that will be created the marks and its first claim.
func Mark(object *unstructured.Unstructured, first Claim) {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[v1alpha1.ManagedByLabel] = v1alpha1.ManagedBy
	annotations[v1alpha1.MadeForAnnotation] = string(first.UID)
	annotations[first.key()] = first.value()
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
}
