package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

// apply makes a definition the pipeline's, if it differs from what is in force: it tells what that does to the
// deployments inside, and asks first when one of them would skip or lose work.
func (a *app) apply(ctx context.Context, ops operations, project project, yes bool) error {
	p := project.proposal(a.user())
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
		writeEdit(out, edit, a.style(out))
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

// writeEdit tells what an edit changes, and what that does to each deployment inside.
func writeEdit(out io.Writer, edit server.EditView, s style) {
	words := joinWords(edit.Words)
	if edit.Version == 1 {
		words = "a new pipeline, " + edit.Pipeline
	}
	fmt.Fprintf(out, "%s: %s\n", s.bold(fmt.Sprintf("definition %d", edit.Version)), words)
	for _, effect := range edit.Effects {
		ref := server.Ref{Pipeline: edit.Pipeline, Number: effect.Deployment}.String()
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
				fmt.Fprintf(out, "  %s  %s\n", ref, text)
			} else {
				fmt.Fprintf(out, "    %s\n", text)
			}
		}
	}
}
