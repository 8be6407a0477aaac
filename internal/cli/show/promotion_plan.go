package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/service"
)

// PromotionPlan returns the next steps for a pipeline of Kubernetes, a line for each step and each reason, and the changes of files.
func PromotionPlan(p service.PromotionPlan, s Style) []string {
	head := s.bold(p.Pipeline)
	switch {
	case p.Run != nil && p.Run.Environment != "":
		head += fmt.Sprintf("   run %d of %s for %s alone would start", p.Run.Number, p.Run.Revision, p.Run.Environment)
	case p.Run != nil:
		head += fmt.Sprintf("   run %d of %s would start", p.Run.Number, p.Run.Revision)
	case p.Todo:
		head += "   something would be done"
	default:
		head += "   nothing would be done"
	}
	lines := []string{head}
	for _, fault := range p.Faults {
		lines = append(lines, s.bad("InvalidSpec:")+" "+OneLine(fault))
	}
	t := table{Style: s}
	t.add("ENVIRONMENT", "REVISION", "STATE", "STEP OR REASON")
	for _, env := range p.Environments {
		texts := plannedTexts(env, p.Now)
		t.add(env.Name, dash(env.Want), string(env.Phase), texts[0])
		for _, text := range texts[1:] {
			t.add("", "", "", text)
		}
	}
	lines = append(lines, t.lines()...)
	for _, env := range p.Environments {
		if env.Files != nil {
			lines = append(lines, plannedFiles(env, s)...)
		}
	}
	return lines
}

// plannedTexts returns the steps and the reasons of an environment; one empty text without any.
func plannedTexts(env service.PlannedEnvironment, now time.Time) (texts []string) {
	for _, step := range env.Steps {
		text := "would " + string(step.Op)
		if step.Cancel {
			text = "would cancel " + string(step.Op)
		}
		if step.Gate != "" {
			text += " " + step.Gate
		}
		text += " " + step.Revision
		if step.Proposal != 0 {
			text += fmt.Sprintf(", pull request %d", step.Proposal)
		}
		texts = append(texts, text)
	}
	for _, reason := range env.Reasons {
		text := string(reason.Code)
		if reason.Message != "" {
			text += ": " + OneLine(reason.Message)
		}
		if !reason.Until.IsZero() {
			text += ", until " + minuteClock(now, reason.Until)
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return []string{""}
	}
	return texts
}

// plannedFiles returns the changes of files in an environment.
func plannedFiles(env service.PlannedEnvironment, s Style) []string {
	f := env.Files
	head := fmt.Sprintf("%s: %s of %s", env.Name, f.Branch, f.Repository)
	switch {
	case f.Error != "":
		return []string{"", s.bold(head), s.warn("not read: ") + OneLine(f.Error)}
	case f.Diff == "":
		return []string{"", s.bold(head), "has " + env.Want + " already"}
	}
	lines := []string{"", s.bold(head)}
	for line := range strings.Lines(f.Diff) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "+"):
			line = s.good(line)
		case strings.HasPrefix(line, "-"):
			line = s.bad(line)
		case strings.HasPrefix(line, "@"):
			line = s.faint(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// PipelineCheck returns the findings of a check, one a line.
func PipelineCheck(c service.PipelineCheck, s Style) []string {
	t := table{Style: s}
	t.add("", "SUBJECT", "CODE", "")
	for _, f := range c.Findings {
		level := string(f.Level)
		switch f.Level {
		case service.FindingWrong:
			level = s.bad(level)
		case service.FindingNote:
			level = s.warn(level)
		case service.FindingOK:
			level = s.good(level)
		}
		t.add(level, f.Subject, f.Code, OneLine(f.Message))
	}
	return t.lines()
}
