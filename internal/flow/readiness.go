package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readiness returns the state of an object. The first rule that applies decides: deletion, a status of an earlier generation, a
// condition Ready, the table of kinds.
func readiness(object *Object, all tree) Readiness {
	status := all.node("status")
	ready := readyConditions(status)
	observed := observations(status, ready)
	found := Readiness{Status: metav1.ConditionUnknown}
	for _, generation := range observed {
		found.Stale = found.Stale || generation < object.Generation
		found.Current = found.Current || generation == object.Generation
	}
	found.Current = found.Current && !found.Stale
	switch {
	case object.DeletionTimestamp != nil:
		found = Readiness{Status: metav1.ConditionFalse, Current: found.Current}
		if status, reason, message := worst(ready); status != metav1.ConditionTrue {
			found.Reason, found.Message = reason, message // they may report why the deletion does not end
		}
	case found.Stale:
		found.Message = "its status is of an earlier generation"
	case len(ready) > 0:
		found.Status, found.Reason, found.Message = worst(ready)
	default:
		if judge, ok := kinds[object.Kind.GroupKind()]; ok {
			verdict := judge(all)
			found.Status, found.Message = verdict.status, Clean(verdict.why)
		} else {
			found.Message = "it has no condition Ready"
		}
	}
	return found
}

// readyConditions returns the conditions Ready; there should be at most one.
func readyConditions(status tree) []tree {
	var found []tree
	for _, condition := range status.nodes("conditions") {
		if condition.text("type") == "Ready" {
			found = append(found, condition)
		}
	}
	return found
}

// observations returns the observed generations of an object and of its conditions Ready.
func observations(status tree, ready []tree) []int64 {
	var found []int64
	for _, node := range append([]tree{status}, ready...) {
		if generation, ok := node.number("observedGeneration"); ok {
			found = append(found, generation)
		}
	}
	return found
}

// worst returns the worst of some conditions; a malformed status is Unknown.
func worst(conditions []tree) (status metav1.ConditionStatus, reason, message string) {
	for i, condition := range conditions {
		value := metav1.ConditionStatus(condition.text("status"))
		if value != metav1.ConditionTrue && value != metav1.ConditionFalse {
			value = metav1.ConditionUnknown
		}
		if i == 0 || rank(value) < rank(status) {
			status, reason, message = value, Clean(condition.text("reason")), Clean(condition.text("message"))
		}
	}
	return status, reason, message
}

// rank orders states, the worst first.
func rank(status metav1.ConditionStatus) int {
	switch status {
	case metav1.ConditionFalse:
		return 0
	case metav1.ConditionTrue:
		return 2
	}
	return 1
}
