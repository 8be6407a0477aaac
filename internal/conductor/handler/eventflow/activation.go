package eventflow

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

// shared returns the EventActivations, which the service instances of a service share.
func (t try) shared() claim.Objects {
	return claim.Objects{ResourceInterface: t.Cluster.Resource(flow.Activations()).Namespace(t.order.Namespace), Live: claim.Lasting}
}

// claim returns that of the service instance.
func (t try) claim() claim.Claim { return flow.InstanceClaim(t.order.Namespace, t.order.Instance) }

// activate has the ordered EventActivation exist with the claim of the service instance, if its kind is installed.
func (t try) activate(ctx context.Context) (finding, error) {
	name, mine := t.order.Activation.Service, t.claim()
	found, err := t.shared().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return t.createActivation(ctx)
	case err != nil:
		return finding{}, fmt.Errorf("read EventActivation %s/%s: %w", t.order.Namespace, name, err)
	case found.GetDeletionTimestamp() != nil:
		return t.activationWas("is being deleted"), nil
	case !claim.Managed(found) && !claim.Has(found, mine.UID), claim.Managed(found) && mine.On(found):
		return finding{}, nil
	case !t.mayWrite():
		return finding{waits: lost}, nil
	}
	added, err := t.shared().Add(ctx, name, found.GetUID(), mine)
	if err != nil {
		return finding{}, fmt.Errorf("claim EventActivation %s/%s: %w", t.order.Namespace, name, err)
	}
	switch added.Outcome {
	case claim.Stored, claim.Foreign:
	case claim.Gone, claim.Replaced:
		return t.activationWas("was replaced by another writer"), nil
	case claim.Terminating:
		return t.activationWas("is being deleted"), nil
	case claim.Rejected:
		return finding{code: string(fault.Refused), fault: fmt.Sprintf("claim EventActivation %s/%s: %s", t.order.Namespace, name, added.Text)}, nil
	}
	return finding{}, nil
}

// createActivation makes the ordered EventActivation with the claim of the service instance, if its kind is installed.
func (t try) createActivation(ctx context.Context) (finding, error) {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"displayName": t.order.Activation.DisplayName, "sourceId": t.order.Activation.Application}}}
	object.SetGroupVersionKind(flow.Activations().GroupVersion().WithKind("EventActivation"))
	object.SetName(t.order.Activation.Service)
	claim.Mark(object, t.claim())
	if !t.mayWrite() {
		return finding{waits: lost}, nil
	}
	_, err := t.shared().Create(ctx, object, metav1.CreateOptions{FieldManager: manager})
	switch {
	case apierrors.IsAlreadyExists(err):
		return t.activationWas("was created by another writer"), nil
	case isNamespaceMissing(err):
		return t.namespaceMissing(), nil
	case apierrors.IsNotFound(err): // the kind is not installed
		return finding{}, nil
	case err != nil:
		return finding{}, fmt.Errorf("create EventActivation %s/%s: %w", t.order.Namespace, object.GetName(), err)
	}
	return finding{}, nil
}

// activationWas describes the EventActivation in a state after which it has to be read again.
func (t try) activationWas(state string) finding {
	return finding{waits: fmt.Sprintf("EventActivation %s/%s %s", t.order.Namespace, t.order.Activation.Service, state)}
}

// deactivate releases the claims of the service instance on EventActivations, whichever these are by now.
func (t try) deactivate(ctx context.Context) (finding, error) {
	objects, mine := t.shared(), t.claim()
	found, err := list(ctx, objects, "")
	if err != nil {
		return finding{}, fmt.Errorf("list EventActivations in %s: %w", t.order.Namespace, err)
	}
	for _, one := range found {
		if !claim.Has(&one, mine.UID) {
			continue
		}
		if !t.mayWrite() {
			return finding{waits: lost}, nil
		}
		if _, err := objects.Release(ctx, one.GetName(), one.GetUID(), mine.UID); err != nil {
			return finding{}, fmt.Errorf("release EventActivation %s/%s: %w", t.order.Namespace, one.GetName(), err)
		}
	}
	return finding{}, nil
}
