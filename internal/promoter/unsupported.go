package promoter

import (
	"fmt"

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
	for i, env := range p.Environments {
		for j, gate := range env.Gates {
			if gate.HTTP == nil {
				add(fmt.Sprintf("spec.environments[%d].gates[%d]", i, j), "only gates with http are supported yet")
			}
		}
	}
	return faults
}
