package controller

import (
	"context"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

// policy opens the metrics port of the Broker's pods, if the flow wants that.
func (p *pass) policy(ctx context.Context) (*flow.Part, error) {
	if p.flow.Spec.MeshPolicy != v1alpha1.PermissiveMetrics || p.flow.Spec.Sink.Broker == nil {
		return nil, nil //nolint:nilnil // a part that was not requested
	}
	name := flow.PolicyName(p.flow)
	at, err := p.look(peerAuthentications, p.flow.Namespace, name)
	if err != nil {
		return nil, err
	}
	seen := flow.PolicySeen{Installed: at.Absence != flow.NotInstalled}
	if at.Absence == flow.NotAllowed {
		seen.Unreadable = at.Why
	}
	if seen.Installed && seen.Unreadable == "" {
		k, _ := p.cache.find(peerAuthentications)
		h, err := p.hold(ctx, wish{kind: peerAuthentications, policy: v1alpha1.WhenUnused, create: flow.DesiredPolicy(p.flow, k.GroupVersionKind)}, at)
		if err != nil {
			return nil, err
		}
		if h.state == flow.Claimed && !flow.PolicyOpens(p.flow, h.object) { // its spec was changed
			if h, err = p.patchShared(ctx, h.object, flow.PolicyPatch(p.flow, h.object)); err != nil {
				return nil, err
			}
		}
		if seen.Object = h.object; h.state == flow.Rejected {
			seen.Rejected = h.why
		}
		seen.Managed = h.object != nil && claim.Managed(h.object)
		seen.Opens = h.object != nil && flow.PolicyOpens(p.flow, h.object)
	}
	part := flow.JudgePolicy(seen)
	return &part, nil
}
