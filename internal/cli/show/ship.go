package show

import (
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// Header returns the line that names the deployment shown below it.
func Header(v service.DeploymentView, s Style) string {
	text := fmt.Sprintf("%s  revision %s", s.bold(RefOf(v.Deployment).String()), v.Label)
	if service.OfKubernetes(v.Pipeline) {
		return text
	}
	return fmt.Sprintf("%s  definition %d", text, v.State.Version)
}

// InProgress returns the line for a deployment that an earlier command left active.
func InProgress(v service.DeploymentView) string {
	next := "resuming it"
	if v.State.Held != "" {
		next = "held " + v.State.Held + "; waiting for: " + v.State.Resume
	}
	return fmt.Sprintf("%s is in progress: %s; %s", RefOf(v.Deployment), stepsDone(&v.State), next)
}

// Stopped returns the error for a deployment that is superseded or canceled.
func Stopped(v service.DeploymentView) error {
	how := "was canceled"
	switch {
	case v.State.Status == pipeline.StatusSuperseded && v.State.By != 0:
		how = "was superseded by " + service.Ref{Pipeline: v.Pipeline, Number: v.State.By}.String()
	case v.State.Status == pipeline.StatusSuperseded:
		how = "was superseded"
	}
	switch {
	case v.State.Reason == "":
	case v.State.Status == pipeline.StatusCanceled:
		how += " " + v.State.Reason // requester of the cancel, and the reason: by ana: wrong branch
	default:
		how += ": " + v.State.Reason
	}
	return fault.New(fault.Canceled, "%s (%s) %s", RefOf(v.Deployment), v.Label, how).
		WithHint("%s", againHint(v))
}

// Replaced returns the error for a deployment that has finished, and by whose targets newer has another revision since.
func Replaced(v service.DeploymentView, newer journal.Deployment) error {
	return fault.New(fault.Canceled, "%s finished as %s; %s has replaced it by %s since", v.Label, RefOf(v.Deployment),
		RefOf(newer), newer.Label).
		WithHint("%s", againHint(v))
}

// againHint returns the commands that deploy the revision of an ended deployment once more. One that was rolled back is rejected.
func againHint(v service.DeploymentView) string {
	if v.State.RolledBackBy != 0 {
		return fmt.Sprintf("waybill revision accept %s %s, then waybill ship --again, to deploy it all the same", v.Pipeline, v.Label)
	}
	return fmt.Sprintf("waybill ship --again, to deploy %s all the same", v.Label)
}

// Failed returns the error for a deployment that failed: the failed step, the reason, and the remedy.
func Failed(v service.DeploymentView) error {
	ref := RefOf(v.Deployment)
	return fault.New(fault.Failed, "%s failed: %s", ref, failureText(v)).
		WithHint("fix it and ship again, or: waybill deployment retry %s", ref)
}

// RolledBack returns the error for a deployment that a rollback undoes.
func RolledBack(v service.DeploymentView) error {
	how, why := "failed", failureText(v)
	if v.State.Status != pipeline.StatusFailed {
		how, why = "was canceled", v.State.Reason
	}
	by := service.Ref{Pipeline: v.Pipeline, Number: v.State.RolledBackBy}
	return fault.New(fault.Failed, "%s %s, and %s brings the revision before back: %s", RefOf(v.Deployment), how, by, why).
		WithHint("fix it and ship again; if the cause was elsewhere: waybill revision accept %s %s, waybill ship --again", v.Pipeline, v.Label)
}

// Late returns the error for a deployment that is still active when a time limit has passed: the reason of its wait,
// and how to continue.
func Late(v service.DeploymentView, limit error, resume string) error {
	text, hint := "it stays active", resume
	if reason, who := waitingFor(v); reason != "" {
		text += ", waiting: " + reason
		if who != "" {
			hint = who + ", then " + resume
		}
	}
	return fault.New(fault.TimedOut, "%s has not finished: %w; %s", RefOf(v.Deployment), limit, text).WithHint("%s", hint)
}

// failureText returns one failure, or a list of several.
func failureText(v service.DeploymentView) string {
	if len(v.Failures) == 0 {
		return FirstOf(v.State.Reason, "no reason is recorded")
	}
	var lines []string
	for _, f := range v.Failures {
		lines = append(lines, fmt.Sprintf("%s of %s: %s", service.StepName(f.Event), f.Target,
			strings.ReplaceAll(strings.TrimSpace(f.Why), "\n", "\n    ")))
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return "\n  " + strings.Join(lines, "\n  ")
}

// Finished returns the last line of a deployment that finished, with the number of hosts that it reached.
func Finished(v service.DeploymentView, s Style, columns int) string {
	ran, stages, total := 0, 0, 0
	for _, stage := range v.Stages {
		before := ran
		for host := range Hosts(stage) {
			total++
			if host.State == service.RunFinished {
				ran++
			}
		}
		if ran > before {
			stages++
		}
	}
	hosts := Count(ran, "host")
	if ran < total {
		hosts = fmt.Sprintf("%d of %s", ran, Count(total, "host"))
	}
	text := fmt.Sprintf("finished: %s runs on %s in %s", v.Label, hosts, Count(stages, "stage"))
	if ran == 0 {
		text = "finished: " + v.Label
	}
	l := layout{Style: s, columns: columns}
	return l.withDuration(strings.Replace(text, "finished", l.good("finished"), 1), v.State.EndedAt.Sub(v.CreatedAt))
}

// Halfway returns the last line of a deployment that has reached its bound.
func Halfway(v service.DeploymentView, s Style) string {
	return fmt.Sprintf("%s %s in %s; it goes no further until it is resumed: waybill deployment resume %s",
		s.good("finished:"), v.Label, v.State.Until, RefOf(v.Deployment))
}
