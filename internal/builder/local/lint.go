package local

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// LintVariables returns the variables without a value as faults: of the environment that the flags name, else those that are faults in
// each environment of the file.
func (b *Builder) LintVariables(ctx context.Context, root string, file *build.File, flags Options) error {
	flags.DryRun, flags.ProjectID = DryClient, "0"
	source, err := b.buildSource(ctx, root, flags)
	if err != nil {
		return err
	}
	defer source.close()
	environments := []string{flags.Environment}
	if flags.Environment == "" && len(file.Environments) > 0 {
		environments = nil
		for _, e := range file.Environments {
			environments = append(environments, e.Name)
		}
	}
	facts, err := source.facts(ctx)
	if err != nil {
		return err
	}
	var common fault.Problems
	for i, environment := range environments {
		flags.Environment = environment
		choice, _, err := b.buildChoice(source, flags, facts, "0")
		if err != nil {
			return err
		}
		missing, err := source.missingVariables(ctx, file, choice, flags.Strict)
		switch {
		case err != nil:
			return err
		case i == 0, slices.ContainsFunc(common, isMore): // only the first of very many are known
			common = missing
		case !slices.ContainsFunc(missing, isMore):
			common = slices.DeleteFunc(common, func(p fault.Problem) bool { return !slices.Contains(missing, p) })
		}
	}
	return common.Err()
}

// isMore reports whether a problem stands for further ones of its kind.
func isMore(p fault.Problem) bool { return p.More > 0 }

// missingVariables returns the variables without a value, also those in files of the workspace. Other faults are errors.
func (s *buildSource) missingVariables(ctx context.Context, file *build.File, choice build.Choice,
	strict bool) (fault.Problems, error) {
	_, _, err := s.makePlan(ctx, file, choice, strict)
	problems, ok := errors.AsType[fault.Problems](err)
	if !ok {
		return nil, err
	}
	var missing, other fault.Problems
	for _, p := range problems {
		switch {
		case p.Code == "variable-undefined", isMore(p):
			missing = append(missing, p)
		case p.Code == "builtin-missing": // only a build needs a registry
		default:
			other = append(other, p)
		}
	}
	return missing, other.Err()
}
