package promoter

import (
	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
)

// unsupported returns faults for valid fields that have no effect yet: without them a pipeline would promote past a gate
// that nothing checks.
func unsupported(p resource.Pipeline) (faults resource.Faults) {
	add := func(field, text string) {
		faults = append(faults, resource.Fault{Reason: v1alpha1.ReasonInvalidSpec, Field: field, Text: text})
	}
	if len(p.Notify) > 0 {
		add("spec.notify", "notifications are not supported yet")
	}
	return faults
}
