package cli

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

// apply makes a definition the pipeline's, if it differs from what is in force: it tells what that does to the
// deployments inside, and asks first when one of them would skip or lose work.
func (a *app) apply(ctx context.Context, ops assembly.Operations, project project, yes bool) error {
	p := project.proposal(a.User())
	edit, err := ops.PlanEdit(ctx, p)
	if err != nil || edit.Unchanged {
		return err
	}
	a.printProblems(project.warnings)
	out := a.out
	if a.json() {
		out = a.err
	}
	if edit.Version > 1 {
		for _, line := range show.Edit(edit, a.printer().Style) {
			fmt.Fprintln(out, line)
		}
	}
	if edit.Loses() && !yes && !a.ask(ctx, fmt.Sprintf("apply definition %d?", edit.Version)) {
		return fault.New(fault.Refused, "definition %d of %s is not applied: deployments inside would skip or lose work", edit.Version, edit.Pipeline).
			WithHint("--yes, to apply it all the same")
	}
	before := edit.Version - 1
	p.IfVersion, p.Yes = &before, true
	_, err = ops.Apply(ctx, p)
	return err
}
