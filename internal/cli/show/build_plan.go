package show

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/server"
)

// BuildPlan returns what `waybill run` would run, after what, and how.
func BuildPlan(p *build.Plan) []string {
	head := fmt.Sprintf("%s: %s in %s", p.File, Count(len(p.Steps), "step"), Count(len(p.Stages), "stage"))
	if p.Environment != "" {
		head += ", environment " + p.Environment
	}
	var t table
	for _, s := range p.Steps {
		cells := []string{fmt.Sprintf(" %d", s.ID), s.Path(), s.Type, s.Spec.Image, "waits for " + waitsFor(s.After), strings.Join(planRemarks(p, s), "   ")}
		t.add(cells...)
	}
	lines := append([]string{head}, t.lines()...)
	for _, s := range p.Steps {
		lines = append(lines, "", fmt.Sprintf("%s   %s %s", s.Path(), s.Spec.Argv[0], s.Spec.Argv[1]))
		for line := range strings.SplitSeq(s.Spec.Argv[2], "\n") {
			lines = append(lines, "    "+line)
		}
	}
	return lines
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
		remarks = append(remarks, "timeout "+server.ShortDuration(s.Timeout))
	}
	for _, rule := range s.Artifacts {
		remarks = append(remarks, "keeps "+rule.Path)
	}
	if globs := s.Tests.Globs(); len(globs) > 0 {
		remarks = append(remarks, "tests "+strings.Join(globs, " "))
	}
	return remarks
}
