package claim

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube"
)

// Adoption describes an existing object that a person hands over to its users.
type Adoption struct {
	Name   string
	UID    types.UID         // UID of the object that the person has decided about
	Claim  Claim             // claim of a user
	Labels map[string]string // labels that the object gets with the marks
}

// Adopt makes an existing object managed, in one write with its first claim. An object that is managed already gets the claim only.
// The outcomes are those of Add, except Foreign.
func (o Objects) Adopt(ctx context.Context, a Adoption) (Added, error) {
	added := Added{Outcome: Gone}
	found, err := o.settle(ctx, a.Name, func(object *unstructured.Unstructured) (step, error) {
		switch {
		case object.GetUID() != a.UID:
			added.Outcome = Replaced
			return step{}, nil
		case object.GetDeletionTimestamp() != nil:
			added.Outcome = Terminating
			return step{}, nil
		}
		added.Outcome = Stored
		return a.step(object), nil
	})
	switch {
	case kube.Refuses(err):
		return Added{Outcome: Rejected, Text: err.Error()}, nil
	case err != nil:
		return Added{}, fmt.Errorf("adopt %s: %w", a.Name, err)
	case found.object == nil:
		return Added{Outcome: Gone}, nil
	case added.Outcome != Replaced:
		added.Object = found.object
	}
	return added, nil
}

// step returns the write that adopts an object.
func (a Adoption) step(object metav1.Object) step {
	if Managed(object) && a.Claim.On(object) {
		return step{}
	}
	s := step{set: metadata{a.Claim.key(): a.Claim.value()}}
	if Managed(object) {
		return s
	}
	s.set[v1alpha1.MadeForAnnotation] = string(a.Claim.UID)
	s.labels = metadata{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy}
	for name, value := range a.Labels {
		s.labels[name] = value
	}
	return s
}

// Return undoes Adopt for one user: it removes the claim from the object with a UID, and the marks and the labels if no live claim
// remains. Unlike Release it deletes nothing. Stale claims are removed too.
func (o Objects) Return(ctx context.Context, a Adoption) error {
	_, err := o.settle(ctx, a.Name, func(object *unstructured.Unstructured) (step, error) {
		keys := keysOf(object, a.Claim.UID)
		if object.GetUID() != a.UID || len(keys) == 0 {
			return step{}, nil
		}
		if !Managed(object) {
			return step{remove: keys}, nil
		}
		var leaving, staying []Claim
		for _, c := range Of(object) {
			if c.UID == a.Claim.UID {
				leaving = append(leaving, c)
			} else {
				staying = append(staying, c)
			}
		}
		stale, live, err := o.split(ctx, staying)
		if err != nil {
			return step{}, err
		}
		s := leave(object, append(leaving, stale...), rest{live: live, retain: true})
		if s.unmark {
			s.labels = metadata{}
			for name := range a.Labels {
				s.labels[name] = nil
			}
		}
		return s, nil
	})
	if err != nil {
		return fmt.Errorf("return %s: %w", a.Name, err)
	}
	return nil
}
