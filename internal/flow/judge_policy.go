package flow

import (
	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// JudgePolicy decides PolicyReady, of a flow with a mesh policy.
func JudgePolicy(seen PolicySeen) Part {
	part := Part{Type: v1alpha1.ConditionPolicy}
	switch {
	case !seen.Installed:
		return part.no(v1alpha1.ReasonPolicyKindNotInstalled,
			"the kind PeerAuthentication of security.istio.io is not installed; without a mesh nothing needs opening")
	case seen.Unreadable != "":
		return part.no(v1alpha1.ReasonReferenceNotAllowed, "PeerAuthentications may not be read: "+Clean(seen.Unreadable))
	case seen.Rejected != "":
		return part.no(v1alpha1.ReasonPolicyRejected, Clean(seen.Rejected))
	case seen.Object == nil:
		return part.unknown(v1alpha1.ReasonPending, "the PeerAuthentication is being created")
	case seen.Object.deleting():
		return part.unknown(v1alpha1.ReasonPending, seen.Object.Ref().String()+" is being deleted")
	case seen.Opens:
		return part.yes(v1alpha1.ReasonPolicyApplied)
	case seen.Managed:
		return part.unknown(v1alpha1.ReasonPending, seen.Object.Ref().String()+" does not open port 9090 yet")
	}
	return part.no(v1alpha1.ReasonPolicyConflict, seen.Object.Ref().String()+
		" was not made for flows and does not open port 9090: change or delete it")
}
