package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// RefOf returns the name of a deployment.
func RefOf(d journal.Deployment) service.Ref {
	return service.Ref{Pipeline: d.Pipeline, Number: d.Number}
}

// Deployments returns the rows of a list of deployments.
func Deployments(found []journal.Deployment, s Style, now time.Time) []string {
	t := table{Style: s}
	t.add("DEPLOYMENT", "REVISION", "STATUS", "KIND", "BY", "CREATED", "TOOK")
	for _, d := range found {
		t.add(RefOf(d).String(), d.Label, paintStatus(s, d.Status), d.Kind, dash(d.By), Ago(now, d.CreatedAt), tookOf(d, now))
	}
	return t.lines()
}

// tookOf returns how long a deployment took, or has taken so far.
func tookOf(d journal.Deployment, now time.Time) string {
	switch {
	case !d.EndedAt.IsZero():
		return service.Took(d.EndedAt.Sub(d.CreatedAt))
	case d.Status == pipeline.StatusActive:
		return service.Took(now.Sub(d.CreatedAt))
	}
	return "-"
}

func paintStatus(s Style, status pipeline.Status) string {
	switch status {
	case pipeline.StatusFinished:
		return s.good(string(status))
	case pipeline.StatusFailed:
		return s.bad(string(status))
	case pipeline.StatusActive:
		return s.busy(string(status))
	default:
		return s.warn(string(status))
	}
}

// Deployment returns the board of a deployment, then its failures, or the reason of its wait.
func Deployment(v service.DeploymentView, s Style, now time.Time) []string {
	lines := []string{Header(v, s) + "  " + Standing(v, s, now)}
	lines = append(lines, layout{Style: s, columns: s.Columns}.render(boardLines(v))...)
	if v.Archive != "" {
		lines = append(lines, s.warn("archived:")+" waybill log "+RefOf(v.Deployment).String()+" prints what each host did")
	}
	for _, f := range v.Failures {
		lines = append(lines, failureLines(f, s)...)
	}
	for _, stage := range v.Stages {
		for host := range Hosts(stage) {
			if host.Runs != nil {
				lines = append(lines, fmt.Sprintf("%s %s%s", s.warn("still runs:"),
					strings.TrimPrefix(host.Target, v.Pipeline+"/"), doubtText(host.Runs)))
			}
		}
	}
	if reason, who := waitingFor(v); reason != "" {
		lines = append(lines, s.warn("waiting:")+" "+waitingText(reason, who))
	}
	if v.State.Status == pipeline.StatusFailed && len(v.Failures) == 0 && v.State.RolledBackBy == 0 {
		lines = append(lines,
			fmt.Sprintf("no step is failed any more: waybill deployment retry %s continues with what is left", RefOf(v.Deployment)))
	}
	return lines
}

// failureLines returns one failure: the step, the cause, and the remedy.
func failureLines(f service.Failure, s Style) []string {
	lines := []string{fmt.Sprintf("%s %s of %s", s.bad("failed:"), service.StepName(f.Event), f.Target)}
	why, more, _ := strings.Cut(strings.TrimSpace(f.Why), "\n")
	lines = append(lines, "  why: "+why)
	if more != "" {
		for line := range strings.SplitSeq(more, "\n") {
			lines = append(lines, "       "+line)
		}
	}
	lines = append(lines, "  do:  "+f.Todo)
	if !f.Action.IsZero() {
		lines = append(lines, "  all attempts: waybill action show "+f.Action.String())
	}
	return lines
}

// doubtText returns why the release that runs cannot be trusted: ", untested".
func doubtText(r *service.Running) string {
	if r.Doubt == "" {
		return ""
	}
	return ", " + r.Doubt
}

// Standing returns a deployment's status in words, with times.
func Standing(v service.DeploymentView, s Style, now time.Time) string {
	text := paintStatus(s, v.State.Status)
	if v.State.Status == pipeline.StatusSuperseded && v.State.By != 0 {
		text += " by " + service.Ref{Pipeline: v.Pipeline, Number: v.State.By}.String()
	}
	switch {
	case v.State.Status == pipeline.StatusActive:
		text += ", " + stepsDone(&v.State)
	case !v.State.EndedAt.IsZero():
		text += fmt.Sprintf(" %s, after %s", Ago(now, v.State.EndedAt), service.Took(v.State.EndedAt.Sub(v.CreatedAt)))
	}
	if v.State.Status == pipeline.StatusActive && v.State.Until != "" {
		text += ", until " + v.State.Until
	}
	switch {
	case v.State.RolledBackBy != 0: // shorter than the rejection, which repeats the failure
		text += ", " + s.warn("rolled back by "+service.Ref{Pipeline: v.Pipeline, Number: v.State.RolledBackBy}.String())
	case v.State.Held != "":
		text += ", " + s.warn("held "+OneLine(v.State.Held))
	}
	if len(v.State.Approvals) > 0 {
		text += ", " + s.warn(pendingText(v.State.Approvals))
	}
	return text
}

// Recorded returns the line for an intent that was recorded.
func Recorded(v service.DeploymentView, intent service.Command, s Style, now time.Time) string {
	ref := RefOf(v.Deployment)
	name := intent.Kind
	if target := strings.TrimPrefix(intent.Target, ref.Pipeline+"/"); target != "" {
		name += " of " + target
	}
	if intent.Event != "" {
		name += " " + intent.Event
	}
	return fmt.Sprintf("%s: %s recorded; %s", ref, name, Standing(v, s, now))
}

// OpenSteps returns open steps with their reasons. Steps that wait for the same thing are counted.
func OpenSteps(open []pipeline.StepState) []string {
	var t table
	for _, group := range byReason(open) {
		_, below, _ := strings.Cut(group.first.Target, "/")
		text := whyText(group.first) + expectedText(group.first)
		if group.more > 0 {
			text += fmt.Sprintf("; the same holds for %s", Count(group.more, "other step"))
		}
		t.add(FirstOf(below, group.first.Target), group.first.Event, text)
	}
	return t.lines()
}

// reasonGroup is the steps that do not run for the same reason.
type reasonGroup struct {
	first pipeline.StepState
	more  int // the number of steps besides the first
}

// byReason groups waiting steps by their reason, in the order of each group's first step.
func byReason(open []pipeline.StepState) []reasonGroup {
	var groups []reasonGroup
	places := map[string]int{}
	for _, step := range open {
		text := whyText(step)
		if at, known := places[text]; known && step.State == pipeline.StateWaiting {
			groups[at].more++
			continue
		}
		places[text] = len(groups)
		groups = append(groups, reasonGroup{first: step})
	}
	return groups
}

// whyText returns a step's state with its reason and who can change it.
func whyText(step pipeline.StepState) string {
	text, reason := string(step.State), OneLine(step.Reason)
	switch {
	case reason != "" && (step.State == pipeline.StateWaiting || strings.HasPrefix(reason, text+": ")):
		text = reason
	case reason != "":
		text += ": " + reason
	}
	if step.Who != "" {
		text += " (" + step.Who + ")"
	}
	return text
}

// expectedText returns when a step is expected to begin, such as "; expected 14:03 UTC", like the times of reasons.
// Work that waits for a batch begins when that is free.
func expectedText(step pipeline.StepState) string {
	if step.Expected.IsZero() {
		return ""
	}
	at, format, word := step.Expected.UTC(), "15:04 UTC", ""
	if at.Format(time.DateOnly) != time.Now().UTC().Format(time.DateOnly) {
		format = "Mon 2 Jan 15:04 UTC"
	}
	if strings.HasPrefix(step.Reason, "batch ") {
		word = "free "
	}
	return "; expected " + word + at.Format(format)
}

// stepsDone returns how far a deployment is, such as "4 of 13 steps done".
func stepsDone(s *pipeline.DeploymentState) string {
	done, total := s.Steps()
	return fmt.Sprintf("%d of %s done", done, Count(total, "step"))
}
