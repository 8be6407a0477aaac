package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// listVariables returns the variables of a build that does not run, in the order of their names.
func (b *builder) listVariables(ctx context.Context, folder string, flags runFlags) ([]build.Variable, fault.Problems, error) {
	flags.runner, flags.maxParallel, flags.timeout, flags.dryRun = runnerAuto, 1, 1, dryClient
	if err := flags.check(); err != nil {
		return nil, nil, err
	}
	source, err := b.buildSource(ctx, folder, flags)
	if err != nil {
		return nil, nil, err
	}
	defer source.close()
	file, _, err := b.readBuildFile(source.root, flags.file, source.shown(b, flags.file), false)
	if err != nil {
		return nil, nil, err
	}
	facts, err := source.facts(ctx)
	if err != nil {
		return nil, nil, err
	}
	choice, warnings, err := b.buildChoice(source, flags, facts, flags.buildID)
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
