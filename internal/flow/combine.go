package flow

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// CombinedStatus is the joint status of a service instance and its flow.
type CombinedStatus string

// The combined statuses.
const (
	StatusNotFound       CombinedStatus = "NotFound"
	StatusPending        CombinedStatus = "Pending"
	StatusProvisioning   CombinedStatus = "Provisioning"
	StatusRunning        CombinedStatus = "Running"
	StatusFailed         CombinedStatus = "Failed"
	StatusDeprovisioning CombinedStatus = "Deprovisioning"
)

// The reasons of a combined status that neither object has.
const (
	ReasonFlowMissing  = "FlowMissing"
	ReasonFlowDeleting = "FlowDeleting"
)

// missingAfter is the time for which the flow of a ready service instance may be absent without being a failure.
const missingAfter = 2 * time.Minute

// Combined is a combined status with the reason and text of the object that decided.
type Combined struct {
	Status  CombinedStatus
	Reason  string
	Message string
}

// Combine returns the combined status of a service instance, of Service Catalog or SAP BTP, and its flow; either may be nil.
// expected reports whether the store has a live row for the service instance. The first rule that applies decides.
func Combine(instance *unstructured.Unstructured, f *v1alpha1.EventFlow, expected bool, now time.Time) Combined {
	if instance == nil {
		return combineFlow(f)
	}
	i := readInstance(instance)
	if combined, ok := i.unfinished(); ok {
		return combined
	}
	switch {
	case f == nil && !expected:
		return i.ready.combined(StatusRunning)
	case f == nil:
		return i.missing(now)
	case f.DeletionTimestamp != nil:
		return Combined{StatusFailed, ReasonFlowDeleting, CurrentCondition(f, v1alpha1.ConditionReady).Message}
	}
	combined := combineLiveFlow(f)
	if combined.Status == StatusRunning {
		return i.ready.combined(StatusRunning)
	}
	return combined
}

// combineFlow judges a flow without a service instance.
func combineFlow(f *v1alpha1.EventFlow) Combined {
	switch {
	case f == nil:
		return Combined{Status: StatusNotFound}
	case f.DeletionTimestamp != nil:
		ready := CurrentCondition(f, v1alpha1.ConditionReady)
		return Combined{StatusDeprovisioning, ready.Reason, ready.Message}
	}
	return combineLiveFlow(f)
}

// combineLiveFlow judges a flow that is not being deleted.
func combineLiveFlow(f *v1alpha1.EventFlow) Combined {
	ready := CurrentCondition(f, v1alpha1.ConditionReady)
	with := func(status CombinedStatus) Combined { return Combined{status, ready.Reason, ready.Message} }
	switch {
	case f.Spec.Suspend && ready.Reason != v1alpha1.ReasonSuspended:
		return Combined{StatusPending, v1alpha1.ReasonSuspended, "the flow is suspended"}
	case f.Spec.Suspend:
		return with(StatusPending)
	case ready.Status == metav1.ConditionTrue:
		return with(StatusRunning)
	case ready.Status == metav1.ConditionFalse:
		return with(StatusFailed)
	}
	return with(StatusProvisioning)
}

// cause is a condition of a service instance.
type cause struct {
	status          string
	reason, message string
	since           string
}

func (c cause) combined(status CombinedStatus) Combined {
	return Combined{status, c.reason, c.message}
}

func (c cause) isTrue() bool { return c.status == "True" }

// has reports whether the reason contains one of some words.
func (c cause) has(words ...string) bool {
	for _, word := range words {
		if strings.Contains(c.reason, word) {
			return true
		}
	}
	return false
}

// serviceInstance is the part of a service instance that decides.
type serviceInstance struct {
	deleting  bool
	btp       bool   // an instance of SAP BTP, else of Service Catalog
	operation string // current one: Provision, Update, Deprovision; "": none
	broken    bool   // the operation on SAP BTP has failed
	empty     bool   // without conditions
	mitigates bool   // orphan mitigation is in progress

	ready, failed, succeeded cause
}

func readInstance(object *unstructured.Unstructured) serviceInstance {
	status := tree(object.Object).node("status")
	conditions := status.nodes("conditions")
	i := serviceInstance{
		deleting: object.GetDeletionTimestamp() != nil,
		btp:      object.GroupVersionKind().Group == GroupOperator,
		empty:    len(conditions) == 0,
		ready:    causeOf(conditions, "Ready"),
		failed:   causeOf(conditions, "Failed"),
	}
	if !i.btp {
		i.operation = status.text("currentOperation")
		i.mitigates = status["orphanMitigationInProgress"] == true || causeOf(conditions, "OrphanMitigation").isTrue()
		return i
	}
	i.succeeded = causeOf(conditions, "Succeeded")
	if i.succeeded.isTrue() {
		return i
	}
	switch i.succeeded.reason {
	case "CreateInProgress":
		i.operation = "Provision"
	case "UpdateInProgress":
		i.operation = "Update"
	case "DeleteInProgress":
		i.operation = "Deprovision"
	case "CreateFailed", "UpdateFailed", "DeleteFailed", "Blocked":
		i.broken = true
	}
	return i
}

func causeOf(conditions []tree, kind string) cause {
	for _, c := range conditions {
		if c.text("type") == kind {
			return cause{c.text("status"), Clean(c.text("reason")), Clean(c.text("message")), c.text("lastTransitionTime")}
		}
	}
	return cause{}
}

// unfinished returns the combined status of a service instance that is not ready, which decides alone.
func (i serviceInstance) unfinished() (Combined, bool) {
	current := i.ready
	if i.btp {
		current = i.succeeded
	}
	var status CombinedStatus
	decides := i.ready
	switch {
	case i.operation == "Deprovision", i.deleting:
		status, decides = StatusDeprovisioning, current
	case i.operation == "Provision", i.operation == "Update":
		status, decides = StatusProvisioning, current
	case i.empty:
		status, decides = StatusPending, cause{}
	case i.failed.isTrue():
		status, decides = StatusFailed, i.failed
	case i.broken:
		status, decides = StatusFailed, i.succeeded
	case i.mitigates, !i.ready.isTrue() && i.ready.has("Error", "Nonexistent", "Failed", "Deleted", "Invalid"):
		status = StatusFailed
	case i.ready.isTrue():
		return Combined{}, false
	case i.ready.has("Provision", "Updat"):
		status = StatusProvisioning
	case i.ready.has("Deprovision"):
		status = StatusDeprovisioning
	default:
		status = StatusPending
	}
	return decides.combined(status), true
}

// missing judges a service instance that is ready and whose flow is expected and absent.
func (i serviceInstance) missing(now time.Time) Combined {
	since, err := time.Parse(time.RFC3339, i.ready.since)
	if err == nil && now.Sub(since) < missingAfter {
		return Combined{StatusProvisioning, ReasonFlowMissing, "the flow is not there yet"}
	}
	return Combined{StatusFailed, ReasonFlowMissing, "the flow of this service instance does not exist"}
}
