package flow

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// Found holds the objects of a flow.
type Found struct {
	Source       SourcePart
	Sink         SinkPart
	Subscription *Object // nil: none, or the claim on it is not stored
	Managed      bool    // the Broker is
}

// Status returns the status of a flow that is neither suspended nor being deleted, but for conditions and generation.
func Status(found Found) v1alpha1.EventFlowStatus {
	status := v1alpha1.EventFlowStatus{Source: sourceStatus(found.Source)}
	if channel := found.Source.Channel; channel != nil {
		status.Channel = &v1alpha1.ObjectStatus{Namespace: channel.Namespace, Name: channel.Name}
	}
	if broker := found.Sink.Object; broker != nil && isBroker(broker.Kind) {
		status.Broker = &v1alpha1.BrokerStatus{Namespace: broker.Namespace, Name: broker.Name, UID: string(broker.UID),
			Managed: found.Managed}
	}
	if found.Sink.Address != nil && len(found.Sink.Address.URL) <= mostURI {
		status.SinkURI = withoutQuery(found.Sink.Address.URL)
	}
	if o := found.Subscription; o != nil {
		status.Subscription = &v1alpha1.ObjectStatus{Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
	}
	return status
}

// sourceStatus names the source as the flow does, if its object is not known.
func sourceStatus(source SourcePart) *v1alpha1.ObjectStatus {
	ref, uid := source.Ref, ""
	if source.Object != nil {
		ref, uid = source.Object.Ref(), string(source.Object.UID)
	}
	if ref.Name == "" {
		return nil
	}
	return &v1alpha1.ObjectStatus{APIVersion: ref.GroupVersion().String(), Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name,
		UID: uid}
}

// ConditionOf returns the condition of a type; a zero one if there is none.
func ConditionOf(status v1alpha1.EventFlowStatus, kind string) metav1.Condition {
	for _, condition := range status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return metav1.Condition{}
}

// CurrentCondition returns the condition of a type that is about the current generation of a flow; Unknown if there is none.
func CurrentCondition(f *v1alpha1.EventFlow, kind string) metav1.Condition {
	if found := ConditionOf(f.Status, kind); found.Type != "" && found.ObservedGeneration == f.Generation {
		return found
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending,
		Message: "the role flow has not handled it yet"}
}

// SameStatus reports whether two statuses differ in nothing but times.
func SameStatus(a, b v1alpha1.EventFlowStatus) bool {
	a.Conditions, b.Conditions = withoutTimes(a.Conditions), withoutTimes(b.Conditions)
	return reflect.DeepEqual(a, b)
}

func withoutTimes(conditions []metav1.Condition) []metav1.Condition {
	bare := slices.Clone(conditions)
	for i := range bare {
		bare[i].LastTransitionTime = metav1.Time{}
	}
	if len(bare) == 0 {
		return nil
	}
	return bare
}

// StatusPatch returns the merge patch that turns a status into another.
func StatusPatch(from, to v1alpha1.EventFlowStatus) (map[string]any, error) {
	var trees [2]map[string]any
	for i, status := range []v1alpha1.EventFlowStatus{from, to} {
		text, err := json.Marshal(status)
		if err == nil {
			err = json.Unmarshal(text, &trees[i])
		}
		if err != nil {
			return nil, fmt.Errorf("write a status: %w", err)
		}
	}
	return MergePatch(trees[0], trees[1]), nil
}

// MergePatch returns the merge patch (RFC 7396) that turns an object into another.
func MergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name, value := range to {
		was, wasNode := from[name].(map[string]any)
		is, isNode := value.(map[string]any)
		switch {
		case reflect.DeepEqual(from[name], value):
		case wasNode && isNode:
			patch[name] = MergePatch(was, is)
		default:
			patch[name] = value
		}
	}
	for name := range from {
		if _, ok := to[name]; !ok {
			patch[name] = nil
		}
	}
	return patch
}
