package buildview

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// FindStep returns the step that a person names: as stage/step, by its number, or by what no other step has: its name alone, with the
// values of a matrix alone as in unit (1.26, pg), or the beginning of any of these. 0 is the build itself.
func FindStep(p *build.Plan, name string) (*build.PlanStep, error) {
	if name == "0" {
		return &build.PlanStep{}, nil
	}
	fits := []func(*build.PlanStep) bool{
		func(s *build.PlanStep) bool { return s.Path() == name || strconv.Itoa(s.ID) == name },
		func(s *build.PlanStep) bool { return slices.Contains(stepNames(s), name) },
		func(s *build.PlanStep) bool {
			return slices.ContainsFunc(stepNames(s), func(its string) bool { return strings.HasPrefix(its, name) })
		},
	}
	for _, fit := range fits {
		var found []*build.PlanStep
		for i := range p.Steps {
			if name != "" && fit(&p.Steps[i]) {
				found = append(found, &p.Steps[i])
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], nil
		}
		return nil, fault.New(fault.Invalid, "%d steps fit %q: %s", len(found), name, numbered(found)).WithHint("name one by its number")
	}
	return nil, unknownStep(p, name)
}

// axis is the name of an axis of a matrix in the name of a step.
var axis = regexp.MustCompile(`([(,] ?)[^=,()]*=`)

// stepNames returns what a step may be called.
func stepNames(s *build.PlanStep) []string {
	values := axis.ReplaceAllString(s.Name, "$1")
	return []string{s.Path(), s.Name, s.Stage + "/" + values, values}
}

func unknownStep(p *build.Plan, name string) error {
	if len(p.Steps) == 0 {
		return fault.New(fault.NotFound, "the build has no step %q: it has none, or has not begun", name)
	}
	known, all := make([]string, len(p.Steps)), make([]*build.PlanStep, len(p.Steps))
	for i := range p.Steps {
		known[i], all[i] = p.Steps[i].Path(), &p.Steps[i]
	}
	return fault.New(fault.NotFound, "the build has no step %q; it has %s", name, numbered(all)).WithNearest(name, known)
}

// mostNamedSteps bounds the steps that an error lists.
const mostNamedSteps = 20

// numbered lists steps with their numbers: 1 test/unit, 2 test/vet.
func numbered(steps []*build.PlanStep) string {
	var listed []string
	for _, s := range steps[:min(len(steps), mostNamedSteps)] {
		listed = append(listed, fmt.Sprintf("%d %s", s.ID, s.Path()))
	}
	if more := len(steps) - len(listed); more > 0 {
		listed = append(listed, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(listed, ", ")
}
