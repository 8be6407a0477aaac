package controller

import (
	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/obs"
)

// census counts the flows and the objects that they share, as this instance has seen them.
func (c *Controller) census() obs.FlowCensus {
	n := obs.FlowCensus{Flows: map[obs.FlowState]int{}, Informers: map[string]int{}}
	if !c.leads.Load() {
		return n
	}
	for _, f := range c.flows.list() {
		ready := flow.ConditionOf(f.Status, v1alpha1.ConditionReady)
		n.Flows[obs.FlowState{Ready: string(ready.Status), Reason: ready.Reason}]++
		if ready.Reason == v1alpha1.ReasonDeletionBlocked {
			n.DeletionBlocked++
		}
	}
	for _, f := range c.cache.followed() {
		n.Informers[f.kind.Kind]++
		for _, o := range f.informer.List() {
			if isShared(o) && claim.Managed(o) {
				n.SharedObjects++
				n.Claims += len(claim.Of(o))
			}
		}
	}
	return n
}
