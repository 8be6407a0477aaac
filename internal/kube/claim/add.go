package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/kube"
)

// Objects are the shared objects of one kind in one namespace.
type Objects struct {
	dynamic.ResourceInterface

	// Live reports whether the user of a claim that is not malformed exists, with this UID; one that is being deleted does. Only
	// a live read may deny it.
	Live func(context.Context, Claim) (bool, error)
}

// Lasting reports that the user of a claim exists: such a claim lasts until it is released. It is for Objects.Live.
func Lasting(context.Context, Claim) (bool, error) { return true, nil }

// Outcome is the state of an object after Add.
type Outcome string

// The outcomes of Add.
const (
	Stored      Outcome = "stored"      // the claim is on the object
	Gone        Outcome = "gone"        // the object, or its kind, does not exist: create it
	Replaced    Outcome = "replaced"    // the object of this name is not the one that was read: read it again
	Terminating Outcome = "terminating" // the object is being deleted: wait for its end, then create it
	Foreign     Outcome = "foreign"     // the object has no marks any more: use it as it is
	Rejected    Outcome = "rejected"    // the API server refuses the claim for good
)

// Added is the result of Add.
type Added struct {
	Outcome
	Object *unstructured.Unstructured // as the API server returned it; nil if Gone, Replaced or Rejected
	Text   string                     // if Rejected: the reason
}

// Add claims the object that was read with a UID, or changes the claim's value. The caller looks with Claim.On whether there is
// anything to change.
func (o Objects) Add(ctx context.Context, name string, uid types.UID, c Claim) (Added, error) {
	object, err := o.patch(ctx, name, metadata{"uid": uid, "annotations": metadata{c.key(): c.value()}})
	switch {
	case apierrors.IsNotFound(err):
		return Added{Outcome: Gone}, nil
	case IsOutdated(err):
		return Added{Outcome: Replaced}, nil
	case kube.Refuses(err):
		return Added{Outcome: Rejected, Text: err.Error()}, nil
	case err != nil:
		return Added{}, fmt.Errorf("claim %s: %w", name, err)
	case !Managed(object):
		return o.withdraw(ctx, object, c)
	case object.GetDeletionTimestamp() != nil:
		return Added{Outcome: Terminating, Object: object}, nil
	}
	return Added{Outcome: Stored, Object: object}, nil
}

// withdraw removes a claim from an object that has become foreign.
func (o Objects) withdraw(ctx context.Context, foreign *unstructured.Unstructured, c Claim) (Added, error) {
	same := false
	found, err := o.settle(ctx, foreign.GetName(), func(object *unstructured.Unstructured) (step, error) {
		if same = object.GetUID() == foreign.GetUID() && !Managed(object); !same {
			return step{}, nil
		}
		return step{remove: keysOf(object, c.UID)}, nil
	})
	switch {
	case err != nil:
		return Added{}, fmt.Errorf("withdraw the claim on %s: %w", foreign.GetName(), err)
	case found.object == nil:
		return Added{Outcome: Gone}, nil
	case !same:
		return Added{Outcome: Replaced}, nil
	}
	return Added{Outcome: Foreign, Object: found.object}, nil
}

// IsOutdated reports whether a write failed because the object is not the one that was read, or not in that version: read it again.
func IsOutdated(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || isAbout(err, "metadata.uid")
}

// isAbout reports whether an error of the API server is about a field.
func isAbout(err error, field string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field })
}
