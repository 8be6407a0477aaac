package resource

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Event is an Event of Kubernetes about a pipeline.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// Object returns the Event about a pipeline at a time, without a name.
func (e Event) Object(p Pipeline, at time.Time) *unstructured.Unstructured {
	kind, now := "Normal", at.UTC().Format(time.RFC3339)
	if e.Warning {
		kind = "Warning"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"namespace": p.Namespace},
		"type": kind, "reason": e.Reason, "message": e.Message, "count": int64(1), "firstTimestamp": now, "lastTimestamp": now,
		"involvedObject": map[string]any{"apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
			"namespace": p.Namespace, "name": p.Name, "uid": p.UID},
		"source": map[string]any{"component": "waybill"}, "reportingComponent": "waybill", "reportingInstance": "waybill",
	}}
}

// The reasons of Events about targets, as the original controller has them.
const (
	eventCluster = "GetClusterError"
	eventApp     = "GetAppError"
)

// Events returns the Events of the change from the last status to that of o: one for each condition that begins or has
// another reason, and one for each target that can no longer be read.
func Events(o Observed, last v1alpha1.PipelineStatus) (list []Event) {
	before := map[string]string{}
	for _, c := range last.Conditions {
		before[c.Type] = c.Reason
	}
	for _, c := range o.conditions() {
		if before[c.Type] != c.Reason {
			warns := c.Type != v1alpha1.ConditionPromotionPending && c.Reason != v1alpha1.ReasonSucceeded
			list = append(list, Event{warns, c.Reason, c.Message})
		}
	}
	for _, e := range o.Pipeline.Environments {
		known := last.Environments[string(e.Name)].Targets
		for i, t := range e.Targets {
			s := o.seen(t)
			reason := eventOf(s)
			if reason == "" || i < len(known) && known[i].Error == describe(s) {
				continue
			}
			list = append(list, Event{true, reason, fmt.Sprintf("%s: %s", t.Field, describe(s))})
		}
	}
	return list
}

// eventOf returns the reason of the Event about a target that cannot be read; "": it gets none. One that is not synced
// yet will be within seconds, or gets an Event then.
func eventOf(s promotion.Seen) string {
	if !isUnreadable(s) {
		return ""
	}
	switch s.Why {
	case promotion.ClusterNotFound, promotion.ClusterNotReady, promotion.ClusterUnreachable:
		return eventCluster
	case promotion.Forbidden, promotion.TargetNotFound:
		return eventApp
	}
	return ""
}
