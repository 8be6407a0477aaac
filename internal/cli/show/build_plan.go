package show

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
)

// BuildPlan returns the steps that `waybill run` would run, their order and settings.
func BuildPlan(p *build.Plan) []string {
	head := fmt.Sprintf("%s: %s in %s", p.File, Count(len(p.Steps), "step"), Count(len(p.Stages), "stage"))
	if p.Environment != "" {
		head += ", environment " + p.Environment
	}
	var t table
	for _, s := range p.Steps {
		summary := s.Spec.Summary
		if summary == "" {
			summary = s.Spec.Image
		}
		cells := []string{fmt.Sprintf(" %d", s.ID), s.Path(), s.Type, summary, "waits for " + waitsFor(s.After),
			strings.Join(planRemarks(p, s), "   ")}
		t.add(cells...)
	}
	lines := append([]string{head}, t.lines()...)
	for _, s := range p.Steps {
		lines = append(lines, "")
		lines = append(lines, commandLines(s)...)
	}
	return lines
}

// commandLines returns the command of a step, a shell's commands on lines of their own, and its services.
func commandLines(s build.PlanStep) []string {
	argv := s.Spec.Argv
	var lines []string
	switch {
	case s.Type == "helm-package" || s.Type == "nuget-package": // whose script is always the same
		lines = append(lines, strings.Join(append([]string{s.Path() + "  ", argv[0], argv[1], "…"}, quoteAll(argv[3:])...), " "))
	case len(argv) > 2 && strings.HasPrefix(argv[1], "-") && strings.HasSuffix(strings.ToLower(argv[1]), "c"):
		lines = append(lines, strings.Join(append([]string{s.Path() + "  ", argv[0], argv[1]}, quoteAll(argv[3:])...), " "))
		for line := range strings.SplitSeq(argv[2], "\n") {
			lines = append(lines, "    "+line)
		}
	default:
		lines = append(lines, s.Path()+"   "+strings.Join(quoteAll(argv), " "))
	}
	for _, service := range s.Spec.Services {
		lines = append(lines, fmt.Sprintf("    beside it: %s, %s", service.Name, service.Image))
	}
	return lines
}

// quoteAll quotes words as a shell reads them.
func quoteAll(words []string) []string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fault.Quote(word)
	}
	return quoted
}

// waitsFor names steps by their numbers, which rise: 1 2 5-1999.
func waitsFor(ids []int) string {
	if len(ids) == 0 {
		return "nothing"
	}
	var ranges []string
	for first := 0; first < len(ids); {
		last := first
		for last+1 < len(ids) && ids[last+1] == ids[last]+1 {
			last++
		}
		switch last - first {
		case 0:
			ranges = append(ranges, strconv.Itoa(ids[first]))
		case 1:
			ranges = append(ranges, fmt.Sprintf("%d %d", ids[first], ids[last]))
		default:
			ranges = append(ranges, fmt.Sprintf("%d-%d", ids[first], ids[last]))
		}
		first = last + 1
	}
	return strings.Join(ranges, " ")
}

// planRemarks returns the condition, the attempts, the timeout, the artifacts and the test results of a step.
func planRemarks(p *build.Plan, s build.PlanStep) []string {
	var remarks []string
	for _, stage := range p.Stages {
		if stage.Name == s.Stage && stage.RunsIf != build.Success {
			remarks = append(remarks, "runs if "+string(stage.RunsIf))
		}
	}
	if s.Retry != nil {
		remarks = append(remarks, Count(s.Retry.Attempts, "attempt"))
	}
	if s.Timeout > 0 {
		remarks = append(remarks, "timeout "+service.ShortDuration(s.Timeout))
	}
	for _, rule := range s.Artifacts {
		remarks = append(remarks, "keeps "+rule.Path)
	}
	if globs := s.Tests.Globs(); len(globs) > 0 {
		remarks = append(remarks, "tests "+strings.Join(globs, " "))
	}
	for _, r := range s.Replaces {
		remarks = append(remarks, fmt.Sprintf("replaces %s in %s", Count(r.Variables, "variable"), r.Path))
	}
	return remarks
}
