package eventflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/services"
)

// manager is the name of this program among the owners of fields.
const manager = "waybill"

// provision has the EventActivation and the flow be as ordered, and judges the flow.
func (t try) provision(ctx context.Context) (finding, error) {
	if t.order.Activation != nil {
		if f, err := t.activate(ctx); err != nil || f != (finding{}) {
			return f, err
		}
	}
	found, err := t.flows().Get(ctx, flow.InstanceFlow(t.order.Instance), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return t.create(ctx)
	case err != nil:
		return finding{}, fmt.Errorf("read EventFlow %s: %w", t.name(), err)
	case found.GetLabels()[flow.LabelInstance] != flow.InstanceHash(t.order.Instance):
		return finding{code: string(fault.Conflict), fault: fmt.Sprintf(
			"EventFlow %s exists and is not of this service instance: delete it, and provision again", t.name())}, nil
	case found.GetDeletionTimestamp() != nil:
		return finding{waits: deleting(found)}, nil
	}
	return t.change(ctx, found)
}

func (t try) flows() dynamic.ResourceInterface {
	return t.Cluster.Resource(v1alpha1.Resource()).Namespace(t.order.Namespace)
}

// create makes the flow.
func (t try) create(ctx context.Context) (finding, error) {
	spec, err := t.spec()
	if err != nil {
		return finding{}, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "spec": spec}}
	object.SetName(flow.InstanceFlow(t.order.Instance))
	object.SetLabels(map[string]string{flow.LabelInstance: flow.InstanceHash(t.order.Instance)})
	object.SetAnnotations(t.annotations())
	if !t.mayWrite() {
		return finding{waits: lost}, nil
	}
	made, err := t.flows().Create(ctx, object, metav1.CreateOptions{FieldManager: manager})
	switch {
	case apierrors.IsAlreadyExists(err):
		return finding{waits: "EventFlow " + t.name() + " was created by another writer"}, nil
	case isNamespaceMissing(err):
		return t.namespaceMissing(), nil
	case apierrors.IsNotFound(err):
		return finding{waits: "EventFlows are not installed in the cluster: apply config/flow/crd.yaml"}, nil
	case err != nil:
		return finding{}, fmt.Errorf("create EventFlow %s: %w", t.name(), err)
	}
	return t.judge(made)
}

// isNamespaceMissing reports whether an object cannot be created since its namespace does not exist.
func isNamespaceMissing(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

func (t try) namespaceMissing() finding {
	return finding{waits: "namespace " + t.order.Namespace + " does not exist"}
}

// change has a flow of the service instance be as ordered, unless it is.
func (t try) change(ctx context.Context, found *unstructured.Unstructured) (finding, error) {
	patch, err := t.patch(found)
	if err != nil {
		return finding{}, err
	}
	if patch == nil {
		return t.judge(found)
	}
	if !t.mayWrite() {
		return finding{waits: lost}, nil
	}
	changed, err := t.flows().Patch(ctx, found.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return finding{waits: "EventFlow " + t.name() + " was changed by another writer"}, nil
	case err != nil:
		return finding{}, fmt.Errorf("change EventFlow %s: %w", t.name(), err)
	}
	return t.judge(changed)
}

// annotations returns those of the flow.
func (t try) annotations() map[string]string {
	return flow.InstanceAnnotations(t.order.Instance, t.Log, t.Action.ID)
}

// judge decides whether the operation has ended, by the flow that it has written.
func (t try) judge(found *unstructured.Unstructured) (finding, error) {
	var now v1alpha1.EventFlow
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &now); err != nil {
		return finding{}, fmt.Errorf("read EventFlow %s: %w", t.name(), err)
	}
	made := output{Description: "the flow " + t.name() + " exists", SinkURI: now.Status.SinkURI, Source: now.Spec.Source.Application}
	ready, stalled := flow.CurrentCondition(&now, v1alpha1.ConditionReady), flow.CurrentCondition(&now, v1alpha1.ConditionStalled)
	switch {
	case ready.Status == metav1.ConditionTrue:
		made.Description = "the flow " + t.name() + " is Ready"
	case t.order.Verb == services.Repair, !t.order.WaitForReady:
	case stalled.Status == metav1.ConditionTrue:
		return finding{code: stalled.Reason, fault: t.about(stalled)}, nil
	default:
		return finding{waits: t.about(ready)}, nil
	}
	return finding{made: made}, nil
}

// about describes the flow by a condition.
func (t try) about(c metav1.Condition) string {
	return fmt.Sprintf("EventFlow %s is not Ready: %s", t.name(), cmp.Or(c.Message, c.Reason))
}

// deleting describes a flow that is being deleted.
func deleting(found *unstructured.Unstructured) string {
	text := fmt.Sprintf("EventFlow %s/%s is being deleted", found.GetNamespace(), found.GetName())
	var now v1alpha1.EventFlow
	if runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &now) != nil {
		return text
	}
	ready := flow.ConditionOf(now.Status, v1alpha1.ConditionReady)
	if ready.Reason == v1alpha1.ReasonDeleting || ready.Reason == v1alpha1.ReasonDeletionBlocked {
		text += ": " + ready.Message
	}
	return text
}
