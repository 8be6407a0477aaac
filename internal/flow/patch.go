package flow

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// SubscriptionPatch returns the merge patch that gives a Subscription the fields that a flow wants, with its UID as a precondition;
// nil if none differ. Fields that flows have never set do not count, because webhooks and others may add them. conflict reports that
// the Subscription has another channel, which cannot be changed.
func SubscriptionPatch(have *Object, want Connection) (patch map[string]any, conflict bool) {
	if want.Object == nil {
		return nil, false
	}
	spec, wanted := tree(have.Spec), tree(want.Object.Object).node("spec")
	if channel := wanted.node("channel"); !sameRef(spec.node("channel"), channel) {
		return nil, true
	}
	changed := map[string]any{}
	if d := destinationPatch(spec["subscriber"], wanted.node("subscriber")); d != nil {
		changed["subscriber"] = d
	}
	delivery := wanted.node("delivery")
	if d := deliveryPatch(spec.node("delivery"), delivery, have.Annotations[v1alpha1.DeliveryAnnotation]); d != nil {
		changed["delivery"] = d
	}
	if len(changed) == 0 {
		return nil, false
	}
	return map[string]any{
		"metadata": map[string]any{
			"uid":         string(have.UID),
			"annotations": map[string]any{v1alpha1.DeliveryAnnotation: fieldsOf(delivery)},
		},
		"spec": changed,
	}, false
}

// ChangesDelivery reports whether a patch of SubscriptionPatch changes the delivery. Flows that share a Subscription can differ in
// nothing else for long: the rest follows from shared objects.
func ChangesDelivery(patch map[string]any) bool {
	return tree(patch).node("spec").node("delivery") != nil
}

// sameRef reports whether two references name the same object, whatever the version of its kind. A namespace counts only if both
// have one.
func sameRef(a, b tree) bool {
	first, errA := schema.ParseGroupVersion(a.text("apiVersion"))
	second, errB := schema.ParseGroupVersion(b.text("apiVersion"))
	return errA == nil && errB == nil && first.Group == second.Group && a.text("kind") == b.text("kind") &&
		a.text("name") == b.text("name") &&
		(a.text("namespace") == b.text("namespace") || a.text("namespace") == "" || b.text("namespace") == "")
}

// destinationPatch returns the patch of a destination; nil if it does not differ. Each of its fields counts, because one that is
// there leads elsewhere.
func destinationPatch(have any, want tree) map[string]any {
	if fields, ok := have.(map[string]any); !ok || fields == nil {
		return maps.Clone(want)
	}
	patch, was := map[string]any{}, tree(have.(map[string]any))
	for _, name := range []string{"uri", "CACerts", "audience"} {
		switch wanted, ok := want[name]; {
		case ok && wanted != was[name]:
			patch[name] = wanted
		case !ok && was[name] != nil:
			patch[name] = nil
		}
	}
	switch ref := want.node("ref"); {
	case ref == nil && was["ref"] != nil:
		patch["ref"] = nil
	case ref != nil && !sameRef(was.node("ref"), ref):
		patch["ref"] = map[string]any(ref)
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// deliveryPatch returns the patch of a delivery; nil if it does not differ. set names the fields that flows have set before.
func deliveryPatch(have, want tree, set string) map[string]any {
	patch := map[string]any{}
	for name, wanted := range want {
		if name == "deadLetterSink" {
			if d := destinationPatch(have[name], want.node(name)); d != nil {
				patch[name] = d
			}
		} else if !sameValue(have[name], wanted) {
			patch[name] = wanted
		}
	}
	for name := range strings.SplitSeq(set, ",") {
		if _, ok := want[name]; !ok && have[name] != nil && slices.Contains(deliveryNames[:], name) {
			patch[name] = nil
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// deliveryNames are the fields of a delivery that flows may set.
var deliveryNames = [...]string{"backoffDelay", "backoffPolicy", "deadLetterSink", "retry", "timeout"}

// sameValue compares values of JSON; a number is the same whatever its type.
func sameValue(a, b any) bool {
	x, isX := whole(a)
	y, isY := whole(b)
	if isX && isY {
		return x == y
	}
	return reflect.DeepEqual(a, b)
}
