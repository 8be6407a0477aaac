package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/service"
)

// Approval returns the line for an approval that was recorded.
func Approval(v service.ApprovalView) string {
	verb, next := "approved", "it starts as soon as its turn comes"
	if v.Rejected {
		verb, next = "rejected", "it waits until somebody approves"
		if service.OfKubernetes(v.Pipeline) {
			next = "it stays out until a newer one comes, or a retry"
		}
	}
	if v.Pending != nil && !v.Rejected {
		next = v.Pending.String()
	}
	return fmt.Sprintf("%s: %s of %s %s; %s", service.Ref{Pipeline: v.Pipeline, Number: v.Deployment}, v.Stage, v.Revision, verb, next)
}

// Freeze returns whether a pipeline is frozen.
func Freeze(v service.FreezeView, now time.Time) string {
	if v.Pipeline == "" {
		return freezeOfAll(v, now)
	}
	if v.Freeze == nil {
		return v.Pipeline + " is no longer frozen"
	}
	return v.Pipeline + " is " + v.Freeze.Text(now) + "; to end that: waybill pipeline thaw " + v.Pipeline
}

// freezeOfAll returns whether all pipelines of Kubernetes are frozen.
func freezeOfAll(v service.FreezeView, now time.Time) string {
	if v.Freeze == nil {
		return "the freeze of all pipelines of Kubernetes has ended"
	}
	return "all pipelines of Kubernetes are " + v.Freeze.Text(now) + "; to end that: waybill pipeline thaw --all"
}

// pendingText returns the stages of a deployment that wait for people, such as "prod: approval 0 of 1".
func pendingText(list []admission.ApprovalState) string {
	var parts []string
	for _, a := range list {
		text := a.Stage + ": " + a.String()
		if len(a.By) > 0 {
			text += " (" + strings.Join(a.By, ", ") + " may approve)"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
