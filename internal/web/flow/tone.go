package flow

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/service/flowview"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// combinedTone returns the tone of a combined status.
func combinedTone(status string) page.Tone {
	switch status {
	case flowview.Running:
		return page.Finished
	case "Failed":
		return page.Failed
	case "Provisioning", "Deprovisioning":
		return page.Running
	case "NotFound":
		return page.Ended
	}
	return page.Waiting
}

// conditionTone returns the tone of a condition. Reconciling and Stalled are good news when they are False.
func conditionTone(c flowview.Condition) page.Tone {
	switch {
	case c.Type == "Reconciling" && c.Status == "True":
		return page.Running
	case c.Type == "Stalled" && c.Status == "True", c.Status == "False" && c.Type != "Reconciling" && c.Type != "Stalled":
		return page.Failed
	case c.Status == "Unknown":
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
