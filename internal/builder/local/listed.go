package local

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// ListVariables returns the variables of a build that does not run, in the order of their names.
func (b *Builder) ListVariables(ctx context.Context, folder string, flags Options) ([]build.Variable, fault.Problems, error) {
	flags.Runner, flags.MaxParallel, flags.Timeout, flags.DryRun = RunnerAuto, 1, 1, DryClient
	if err := flags.check(); err != nil {
		return nil, nil, err
	}
	source, err := b.buildSource(ctx, folder, flags)
	if err != nil {
		return nil, nil, err
	}
	defer source.close()
	file, _, err := b.ReadFile(source.root, flags.File, source.shown(b, flags.File), false)
	if err != nil {
		return nil, nil, err
	}
	facts, err := source.facts(ctx)
	if err != nil {
		return nil, nil, err
	}
	choice, warnings, err := b.buildChoice(source, flags, facts, flags.BuildID)
	if err != nil {
		return nil, nil, err
	}
	variables, problems := file.Variables(choice)
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	all, problems := variables.List()
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	if _, known := variables.Lookup("BUILD_REF"); !known {
		all = append(all, build.Variable{Name: "BUILD_REF", Source: "the start of a build"})
		slices.SortFunc(all, func(a, b build.Variable) int { return strings.Compare(a.Name, b.Name) })
	}
	return all, warnings, nil
}
