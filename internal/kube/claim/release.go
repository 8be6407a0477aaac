package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube"
)

// Released is the state of an object after Release or Sweep. It is empty if there was an error.
type Released string

// The results of Release and Sweep.
const (
	Done     Released = "done"     // the claim is gone, or the object is absent, replaced or foreign
	Deleting Released = "deleting" // the object was or is being deleted: wait for its end
	Retained Released = "retained" // the last claim had Retain: the object is foreign now
	Kept     Released = "kept"     // every claim is live, so Sweep wrote nothing
)

// Release removes a user's claim from the object with a UID; "" means the object of that name, whatever its UID. If no live claim
// remains, it deletes the object, or makes it foreign if the policy of the user's claim is Retain. Stale claims are removed too.
func (o Objects) Release(ctx context.Context, name string, uid, mine types.UID) (Released, error) {
	result, err := o.settle(ctx, name, func(object *unstructured.Unstructured) (step, error) {
		claims := Of(object)
		at := slices.IndexFunc(claims, func(c Claim) bool { return c.UID == mine })
		switch {
		case at < 0, isOther(object, uid):
			return step{outcome: Done}, nil
		case !Managed(object):
			return step{outcome: Done, remove: keysOf(object, mine)}, nil
		}
		own := claims[at]
		stale, live, err := o.split(ctx, slices.Delete(claims, at, at+1))
		if err != nil {
			return step{}, err
		}
		return leave(object, append(stale, own), rest{live: live, retain: own.Policy == v1alpha1.Retain}), nil
	})
	if err != nil {
		return "", fmt.Errorf("release %s: %w", name, err)
	}
	return result.outcome, nil
}

// Sweep removes stale claims from the object with a UID, as in Release. If no live claim remains, it deletes the object, or makes
// it foreign if the policy of a stale claim is Retain.
func (o Objects) Sweep(ctx context.Context, name string, uid types.UID) (Released, error) {
	result, err := o.settle(ctx, name, func(object *unstructured.Unstructured) (step, error) {
		if isOther(object, uid) || !Managed(object) {
			return step{outcome: Done}, nil
		}
		stale, live, err := o.split(ctx, Of(object))
		if err != nil {
			return step{}, err
		}
		if live && len(stale) == 0 {
			return step{outcome: Kept}, nil
		}
		retain := slices.ContainsFunc(stale, func(c Claim) bool { return c.Policy == v1alpha1.Retain })
		return leave(object, stale, rest{live: live, retain: retain}), nil
	})
	if err != nil {
		return "", fmt.Errorf("sweep %s: %w", name, err)
	}
	return result.outcome, nil
}

// isOther reports whether an object is not the one with a UID.
func isOther(object *unstructured.Unstructured, uid types.UID) bool {
	return uid != "" && object.GetUID() != uid
}

// split returns the stale claims, and whether there are live ones.
func (o Objects) split(ctx context.Context, claims []Claim) (stale []Claim, live bool, err error) {
	for _, c := range claims {
		exists := false
		if !c.isMalformed() {
			if exists, err = o.Live(ctx, c); err != nil {
				return nil, false, fmt.Errorf("look up %s/%s: %w", c.Namespace, c.Name, err)
			}
		}
		if exists {
			live = true
		} else {
			stale = append(stale, c)
		}
	}
	return stale, live, nil
}

// rest describes an object without the claims that leave it.
type rest struct {
	live   bool // it has live claims
	retain bool // without live claims it stays, as a foreign object
}

// leave decides about a managed object that claims leave.
func leave(object *unstructured.Unstructured, leaving []Claim, r rest) step {
	var uids []types.UID
	for _, c := range leaving {
		uids = append(uids, c.UID)
	}
	switch {
	case r.live:
		return step{outcome: Done, remove: keysOf(object, uids...)}
	case object.GetDeletionTimestamp() != nil:
		return step{outcome: Deleting}
	case r.retain:
		return step{outcome: Retained, remove: keysOf(object, uids...), unmark: true}
	}
	return step{outcome: Deleting, delete: true}
}

// step is a write to an object as it was read. The zero value writes nothing.
type step struct {
	outcome Released // result once it is written
	remove  []string // annotations to remove
	unmark  bool     // remove the marks too
	labels  metadata // labels to set, or to remove with the marks
	set     metadata // annotations to set
	delete  bool     // delete the object instead
}

// keysOf returns the annotations of an object that are the claims with the UIDs.
func keysOf(object metav1.Object, uids ...types.UID) (keys []string) {
	for _, uid := range uids {
		key := Claim{UID: uid}.key()
		if _, is := object.GetAnnotations()[key]; is {
			keys = append(keys, key)
		}
	}
	return keys
}

// attempts is the number of times that settle reads an object before it gives up.
const attempts = 6

// settled is an object after a step.
type settled struct {
	outcome Released
	object  *unstructured.Unstructured // nil: it does not exist
}

// settle reads an object and writes the step that decide returns, again if the object was changed since it was read.
func (o Objects) settle(
	ctx context.Context,
	name string,
	decide func(*unstructured.Unstructured) (step, error),
) (settled, error) {
	var conflict error
	for range attempts {
		object, err := o.Get(ctx, name, metav1.GetOptions{})
		if kube.IsAbsent(err) {
			return settled{outcome: Done}, nil
		}
		if err != nil {
			return settled{}, err
		}
		next, err := decide(object)
		if err != nil {
			return settled{}, err
		}
		object, err = o.write(ctx, object, next)
		switch {
		case err == nil:
			return settled{next.outcome, object}, nil
		case kube.IsAbsent(err):
			return settled{outcome: Done}, nil
		case !apierrors.IsConflict(err):
			return settled{}, err
		}
		conflict = err
	}
	return settled{}, fmt.Errorf("changed by others %d times: %w", attempts, conflict)
}

// write writes a step, unless the object has another version by now, and returns the object.
func (o Objects) write(ctx context.Context, object *unstructured.Unstructured, s step) (*unstructured.Unstructured, error) {
	uid, version := object.GetUID(), object.GetResourceVersion()
	if s.delete {
		conditions := &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
		return object, o.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: conditions})
	}
	if len(s.remove) == 0 && !s.unmark && s.set == nil {
		return object, nil
	}
	annotations, labels := metadata{}, metadata{}
	maps.Copy(annotations, s.set)
	maps.Copy(labels, s.labels)
	for _, key := range s.remove {
		annotations[key] = nil
	}
	if s.unmark {
		annotations[v1alpha1.MadeForAnnotation], labels[v1alpha1.ManagedByLabel] = nil, nil
	}
	change := metadata{"resourceVersion": version, "annotations": annotations}
	if len(labels) > 0 {
		change["labels"] = labels
	}
	return o.patch(ctx, object.GetName(), change)
}

// metadata is a part of a merge patch.
type metadata map[string]any

// patch changes the metadata of an object.
func (o Objects) patch(ctx context.Context, name string, change metadata) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(map[string]any{"metadata": change})
	if err != nil {
		return nil, fmt.Errorf("write a patch: %w", err)
	}
	return o.Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{})
}
