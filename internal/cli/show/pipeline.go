package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// Pipelines returns the rows of a list of pipelines.
func Pipelines(all []service.PipelineView, s Style) []string {
	t := table{Style: s}
	t.add("PIPELINE", "DEFINITION", "STAGES", "ACTIVE", "LAST")
	for _, p := range all {
		if p.Promotion != nil {
			environments, last := promotionText(*p.Promotion)
			t.add(p.Name, "-", dash(environments), fmt.Sprint(len(p.Active)), last)
			continue
		}
		t.add(p.Name, fmt.Sprint(p.Version), dash(stageNames(p)), fmt.Sprint(len(p.Active)), lastText(p))
	}
	return t.lines()
}

func stageNames(p service.PipelineView) string {
	var names []string
	for _, stage := range p.Stages {
		names = append(names, stage.Name)
	}
	return strings.Join(names, ",")
}

func lastText(p service.PipelineView) string {
	if p.Last == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s %s", RefOf(*p.Last), p.Last.Label, p.Last.Status)
}

// Pipeline returns the state of each stage of a pipeline, its active deployments, and the hosts that differ.
func Pipeline(p service.PipelineView, s Style, now time.Time) []string {
	if p.Promotion != nil {
		return Promotion(*p.Promotion, s, now)
	}
	t := table{Style: s}
	for _, stage := range p.Stages {
		t.add("  "+stage.Name, standingText(stage), insideText(stage))
	}
	lines := append([]string{fmt.Sprintf("%s  definition %d", s.bold(p.Name), p.Version)}, t.lines()...)
	lines = append(lines, stageEnvironments(p, s, now)...)
	if p.Freeze != nil {
		lines = append(lines, s.warn(p.Freeze.Text(now)))
	}
	for _, d := range p.Active {
		lines = append(lines, activeText(p.Name, d))
	}
	for _, h := range p.Hosts {
		lines = append(lines, hostRemarks(p.Name, h, s)...)
	}
	lines = append(lines, unknownServices(p, s)...)
	lines = append(lines, otherNames(p)...)
	if slices.ContainsFunc(p.Hosts, func(h service.HostView) bool { return h.Service != nil && h.Service.State == service.ServiceDown }) {
		lines = append(lines, "waybill ship --again starts the services that are down")
	}
	for _, d := range p.Drift {
		lines = append(lines, fmt.Sprintf("%s %s %s", s.warn("drift:"), strings.TrimPrefix(d.Target, p.Name+"/"), d.Reason))
	}
	lines = append(lines, CatchUp(p.Name, p.Drift)...)
	lines = append(lines, leftServices(p, s)...)
	if p.Last != nil && p.Last.Status == pipeline.StatusFailed {
		lines = append(lines, fmt.Sprintf("%s %s: waybill deployment show %s", s.bad("failed:"), RefOf(*p.Last), RefOf(*p.Last)))
	}
	return lines
}

// stageEnvironments returns the last known state of the environments of stages, each with its targets.
func stageEnvironments(p service.PipelineView, s Style, now time.Time) []string {
	t := table{Style: s}
	for _, stage := range p.Stages {
		if stage.Environment != nil {
			addEnvironment(&t, p.Name, *stage.Environment, []string{OneLine(service.EnvironmentText(*stage.Environment, now))})
		}
	}
	return t.lines()
}

// leftServices returns the services that run, or may, where the definition no longer has them.
func leftServices(p service.PipelineView, s Style) (lines []string) {
	local := false
	for _, l := range p.Left {
		if l.Ended() {
			continue
		}
		local = local || strings.HasPrefix(l.Address, "local://")
		state := ""
		if l.State != nil {
			state = ", " + l.State.String()
		}
		lines = append(lines, fmt.Sprintf("%s %s (%s of %s) runs %s of #%d%s; the definition no longer has it", s.warn("left:"),
			strings.TrimPrefix(l.Target, p.Name+"/"), l.Name, l.Address, l.Runs.Label, l.Runs.Deployment, state))
	}
	if local {
		lines = append(lines,
			fmt.Sprintf("waybill pipeline stop %s ends the services of local:// hosts, these and those of the definition", p.Name))
	}
	return lines
}

// activeText returns one active deployment, with its bound, its hold and the stages that wait for people.
func activeText(name string, d pipeline.DeploymentState) string {
	text := fmt.Sprintf("active: %s, %s", service.Ref{Pipeline: name, Number: d.Deployment}, stepsDone(&d))
	if d.Until != "" {
		text += ", until " + d.Until
	}
	if d.Held != "" {
		text += ", held " + d.Held
	}
	if len(d.Approvals) > 0 {
		text += ", " + pendingText(d.Approvals)
	}
	return text
}

// hostRemarks returns the reasons to look at a host: an untested release, or a service that is down or was restarted.
func hostRemarks(pipelineName string, h service.HostView, s Style) (remarks []string) {
	if h.Unknown() {
		return nil
	}
	name := strings.TrimPrefix(h.Target, pipelineName+"/")
	if h.Runs != nil && h.Runs.Doubt != "" && h.Found == nil {
		remarks = append(remarks, fmt.Sprintf("%s %s runs %s of #%d", s.warn(h.Runs.Doubt+":"), name, h.Runs.Label, h.Runs.Deployment))
	}
	if h.Service != nil && (h.Service.State != service.ServiceUp || h.Service.Restarts > 0) {
		remarks = append(remarks, fmt.Sprintf("%s %s is %s", s.warn("service:"), name, h.Service))
	}
	return remarks
}

// unknownServices returns the hosts whose services are not known, in a line for each reason and release of a stage.
func unknownServices(p service.PipelineView, s Style) (lines []string) {
	for _, its := range hostsAlike(p, func(h *service.HostView) string {
		switch {
		case !h.Unknown():
			return ""
		case h.Runs == nil:
			return h.Service.String()
		}
		return h.Service.String() + "; by the log " + h.Runs.String()
	}) {
		lines = append(lines, fmt.Sprintf("%s %s %s", s.warn("service:"), its.names("is", "are"), its.text))
	}
	return lines
}

// otherNames returns the releases on hosts that were deployed to them under other names or by another log, in a line
// for each release of a stage.
func otherNames(p service.PipelineView) (lines []string) {
	for _, its := range hostsAlike(p, func(h *service.HostView) string {
		switch {
		case h.Unknown():
			return ""
		case h.Found != nil && h.Found.Instead == "": // else it is drift
			return h.Found.String()
		case h.Found == nil && h.Runs != nil && h.Runs.Target != "":
			return h.Runs.String()
		}
		return ""
	}) {
		lines = append(lines, its.names("runs", "run")+" "+its.text)
	}
	return lines
}

// alike are hosts of a stage with the same description.
type alike struct {
	stage, text string
	first       string // first of the hosts
	count       int
}

// names returns the hosts as the beginning of a sentence, with a verb for one or for many.
func (a *alike) names(one, many string) string {
	if a.count == 1 {
		return a.first + " " + one
	}
	return fmt.Sprintf("%s and %d more of %s %s", a.first, a.count-1, a.stage, many)
}

// hostsAlike returns hosts with a text, those of a stage with the same text together. The former names in their
// texts may differ below the stage.
func hostsAlike(p service.PipelineView, text func(*service.HostView) string) (all []*alike) {
	type kind struct{ stage, text string }
	known := map[kind]*alike{}
	for i := range p.Hosts {
		h := &p.Hosts[i]
		its := text(h)
		if its == "" {
			continue
		}
		name := strings.TrimPrefix(h.Target, p.Name+"/")
		stage, _, _ := strings.Cut(name, "/")
		key := kind{stage, its}
		if h.Runs != nil && h.Runs.Target != "" {
			was := h.Runs.BelowPipeline()
			formerStage, _, _ := strings.Cut(was, "/")
			key.text = strings.ReplaceAll(its, was, formerStage)
		}
		if known[key] == nil {
			known[key] = &alike{stage: stage, text: its, first: name}
			all = append(all, known[key])
		}
		known[key].count++
	}
	return all
}

// standingText returns the revision that has finished a stage: 88d0e17 (#2).
func standingText(stage service.StageView) string {
	if stage.Current == nil {
		return "-"
	}
	return fmt.Sprintf("%s (#%d)", stage.Current.Label, stage.Current.Deployment)
}

// insideText returns the revisions inside a stage: <- 88d0e17 (#2), 2 of 4 hosts.
func insideText(stage service.StageView) string {
	var parts []string
	for _, in := range stage.Inside {
		text := fmt.Sprintf("<- %s (#%d)", in.Label, in.Deployment)
		if in.Hosts > 0 {
			text += fmt.Sprintf(", %d of %s", in.HostsDone, Count(in.Hosts, "host"))
		}
		if in.Status != pipeline.StatusActive {
			text += ", " + string(in.Status)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "  ")
}

// Versions returns the rows of a list of definitions.
func Versions(versions []journal.Version) []string {
	var t table
	t.add("DEFINITION", "APPLIED", "BY", "HOLDS")
	for _, v := range versions {
		t.add(fmt.Sprint(v.Version), v.At.Local().Format(time.DateTime+" MST"), dash(v.By), Summary(v.Definition))
	}
	return t.lines()
}

// Summary returns a definition in a few words.
func Summary(d pipeline.Definition) string {
	hosts := 0
	for range d.EachHost() {
		hosts++
	}
	return fmt.Sprintf("pipeline %s, %s, %s", d.Pipeline, Count(len(d.Stages), "stage"), Count(hosts, "host"))
}

// Edit returns the changes by an edit, and their effect on each deployment inside.
func Edit(edit service.EditView, s Style) []string {
	words := joinWords(edit.Words)
	if edit.Version == 1 {
		words = "a new pipeline, " + edit.Pipeline
	}
	lines := []string{fmt.Sprintf("%s: %s", s.bold(fmt.Sprintf("definition %d", edit.Version)), words)}
	for _, effect := range edit.Effects {
		ref := service.Ref{Pipeline: edit.Pipeline, Number: effect.Deployment}.String()
		if effect.Failed && !effect.Touches() {
			continue
		}
		if effect.Failed {
			ref += " (failed)"
		}
		if effect.Loses() {
			ref = s.warn(ref)
		}
		for i, text := range effectWords(effect) {
			if i == 0 {
				lines = append(lines, "  "+ref+"  "+text)
			} else {
				lines = append(lines, "    "+text)
			}
		}
	}
	return lines
}

// Revisions returns the rows of a list of revisions.
func Revisions(found []pipeline.RegisteredRevision, s Style, now time.Time) []string {
	t := table{Style: s}
	t.add("REVISION", "STATE", "BY", "REGISTERED", "SUBJECT")
	for _, r := range found {
		t.add(r.Label, service.RevisionWord(r.State), dash(r.By), Ago(now, r.CreatedAt), r.Subject)
	}
	return t.lines()
}

// Judgment returns the lines for a revision that was rejected or accepted again. active are its active deployments.
func Judgment(r pipeline.RegisteredRevision, active []journal.Deployment) []string {
	rejected := r.State == journal.RevisionRejected
	lines := []string{r.Pipeline + ": revision " + r.Label + " is accepted"}
	if rejected {
		lines[0] = r.Pipeline + ": revision " + r.Label + " is rejected"
	}
	for _, d := range active {
		if rejected {
			lines = append(lines, fmt.Sprintf("%s starts nothing new; to end it: waybill deployment cancel %s", RefOf(d), RefOf(d)))
		} else {
			lines = append(lines, fmt.Sprintf("%s continues", RefOf(d)))
		}
	}
	return lines
}

// Revision returns a revision with its artifacts and its deployments.
func Revision(r pipeline.RegisteredRevision, made []journal.Deployment) []string {
	var t table
	t.add("revision", r.Label)
	t.add("branch", dash(r.Branch))
	t.add("commit", dash(r.Commit))
	t.add("subject", dash(r.Subject))
	t.add("state", service.RevisionWord(r.State))
	t.add("registered", fmt.Sprintf("%s by %s", r.CreatedAt.Local().Format(time.DateTime+" MST"), dash(r.By)))
	for _, artifact := range r.Artifacts {
		text := fmt.Sprintf("%s  %s", artifactText(artifact.Size, artifact.Digest), artifact.Name)
		if artifact.By != "" {
			text += "  uploaded by " + artifact.By
		}
		t.add("artifact "+artifact.Label, text)
	}
	for _, d := range made {
		t.add("deployment", fmt.Sprintf("%s  %s", RefOf(d), d.Status))
	}
	return t.lines()
}
