package eventflow

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
)

// deprovision releases EventActivations and deletes the flows of the service instance. It has ended when an attempt finds no flow.
func (t try) deprovision(ctx context.Context) (finding, error) {
	if f, err := t.deactivate(ctx); err != nil || f != (finding{}) {
		return f, err
	}
	found, err := list(ctx, t.flows(), flow.InstanceSelector(t.order.Instance))
	if err != nil {
		return finding{}, fmt.Errorf("list EventFlows in %s: %w", t.order.Namespace, err)
	}
	if len(found) == 0 {
		return finding{made: output{Description: "the flow " + t.name() + " is deleted"}}, nil
	}
	for _, one := range found {
		if one.GetDeletionTimestamp() != nil {
			continue
		}
		if !t.mayWrite() {
			return finding{waits: lost}, nil
		}
		uid := one.GetUID()
		err := t.flows().Delete(ctx, one.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // in both cases it is gone
			return finding{}, fmt.Errorf("delete EventFlow %s/%s: %w", one.GetNamespace(), one.GetName(), err)
		}
	}
	return finding{waits: deleting(&found[0])}, nil
}

// list returns the objects that a selector of labels selects; none if their kind is not installed.
func list(ctx context.Context, objects dynamic.ResourceInterface, selector string) (found []unstructured.Unstructured, err error) {
	for one, err := range kube.List(ctx, objects, metav1.ListOptions{LabelSelector: selector}) {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		found = append(found, *one)
	}
	return found, nil
}
