package build

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Advice returns the proposed changes of a valid file. It never blocks.
func (f *File) Advice() fault.Problems {
	var advice fault.Problems
	for _, stage := range f.Stages {
		for _, step := range stage.Steps {
			if len(step.Container.Commands) > 1 && !stopsAtFailure(step.Container) {
				advice = append(advice, fault.Problem{Position: step.At, Code: "set-e", Scope: stage.Name + "/" + step.Name, Warning: true,
					Text: "a command that fails in the middle does not fail the step; put set -e first"})
			}
			if files := step.Spec.Files; step.Type == "helm" && len(files) > 1 {
				advice = append(advice, fault.Problem{Position: step.At, Code: "helm-files", Scope: stage.Name + "/" + step.Name, Warning: true,
					Text: "of a value in several files the last one wins; where the first one did, turn the list around"})
			}
			advice = append(advice, testAdvice(step, stage.Name+"/"+step.Name)...)
		}
	}
	advice.Sort()
	return advice
}

// stopsAtFailure reports whether the step's shell ends at the first command that fails.
func stopsAtFailure(c Container) bool {
	first := strings.TrimSpace(c.Commands[0])
	return strings.HasPrefix(first, "set -e") || strings.HasPrefix(first, "set -x -e") || c.OS == "windows"
}
