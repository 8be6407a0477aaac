package flow

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/service/flowview"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// combinedTone returns the tone of a combined status.
func combinedTone(status string) page.Tone {
	switch status {
	case flowview.Running:
		return page.Finished
	case string(flow.StatusFailed):
		return page.Failed
	case string(flow.StatusProvisioning), string(flow.StatusDeprovisioning):
		return page.Running
	case string(flow.StatusNotFound):
		return page.Ended
	}
	return page.Waiting
}

// conditionTone returns the tone of a condition. Reconciling and Stalled are good news when they are False.
func conditionTone(c flowview.Condition) page.Tone {
	working, stuck := c.Type == v1alpha1.ConditionReconciling, c.Type == v1alpha1.ConditionStalled
	switch status := metav1.ConditionStatus(c.Status); {
	case working && status == metav1.ConditionTrue:
		return page.Running
	case stuck && status == metav1.ConditionTrue, status == metav1.ConditionFalse && !working && !stuck:
		return page.Failed
	case status == metav1.ConditionUnknown:
		return page.Waiting
	}
	return page.Finished
}

// stateTone returns the tone of a service instance's state.
func stateTone(state string) page.Tone {
	switch state {
	case osb.Ready.String():
		return page.Finished
	case osb.UpdateFailed.String():
		return page.Backoff
	case osb.ProvisionFailed.String(), osb.DeprovisionFailed.String():
		return page.Failed
	case osb.Gone.String():
		return page.Ended
	}
	return page.Running
}

// splitFlow returns the address of the page of the flow with a namespace/name; "" for another text.
func splitFlow(of string) string {
	namespace, name, isPair := strings.Cut(of, "/")
	if !isPair {
		return ""
	}
	return flowPath(namespace, name)
}
