package resource

import (
	"bytes"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
)

// FieldManager is the name under which Waybill applies the fields that it owns.
const FieldManager = "waybill"

// StatusOf returns the status that an object has. Parts of it that cannot be read are left out.
func StatusOf(obj *unstructured.Unstructured) (s v1alpha1.PipelineStatus) {
	if obj != nil {
		_ = decode(obj.Object["status"], &s) // a status that is wrong is replaced
	}
	return s
}

// Settle returns a status with the times of its conditions' transitions, and whether its meaning differs from that of
// the last one. Only then is it written. The caller compares with the status that it wrote last: comparing with the
// object would fight another controller that writes the status as well.
func Settle(last, next v1alpha1.PipelineStatus, now time.Time) (v1alpha1.PipelineStatus, bool) {
	before := map[string]metav1.Condition{}
	for _, c := range last.Conditions {
		before[c.Type] = c
	}
	conditions := make([]metav1.Condition, len(next.Conditions))
	for i, c := range next.Conditions {
		c.LastTransitionTime = *timeOf(now)
		if old, ok := before[c.Type]; ok && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
		conditions[i] = c
	}
	next.Conditions = conditions
	return next, !bytes.Equal(meaning(last), meaning(next))
}

// meaning returns the JSON of a status. Two statuses that mean the same have the same times of transition here, because
// Settle keeps them.
func meaning(s v1alpha1.PipelineStatus) []byte {
	data, _ := json.Marshal(s) // a status has nothing that does not marshal
	return data
}

// Apply returns the object whose server-side apply, on the subresource status, writes a status. It names no UID, which
// the server ignores there: another object that has got the name since is reconciled anyway.
func Apply(p Pipeline, s v1alpha1.PipelineStatus) *unstructured.Unstructured {
	var status map[string]any
	_ = json.Unmarshal(meaning(s), &status) // it is JSON
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "status": status,
		"metadata": map[string]any{"namespace": p.Namespace, "name": p.Name},
	}}
}
