package cmdline

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

type ApplyOptions struct {
	Edits    operation.Caller
	Proposal service.Proposal
	Warn     func() // prints the warnings of the file, before anything else is printed about it
	Yes      bool   // apply although a deployment inside would skip or lose work
	Ask      Asker
	Out      show.Printer
}

// ApplyEdit makes a definition the pipeline's, unless it is the one in force. It prints what that does to the deployments
// inside, and asks first when one of them would skip or lose work.
func ApplyEdit(ctx context.Context, o ApplyOptions) (service.EditView, error) {
	edit, err := operation.PlanEdit(ctx, o.Edits, o.Proposal)
	if err != nil || edit.Unchanged {
		return edit, err
	}
	o.Warn()
	if edit.Version > 1 {
		for _, line := range show.Edit(edit, o.Out.Style) {
			o.Out.Note("%s", line)
		}
	}
	if edit.Loses() && !o.Yes && !o.Ask(ctx, fmt.Sprintf("apply definition %d?", edit.Version)) {
		return edit, fault.New(fault.Refused,
			"definition %d of %s is not applied: deployments inside would skip or lose work", edit.Version, edit.Pipeline).
			WithHint("--yes, to apply it all the same")
	}
	before := edit.Version - 1 // a definition that another command applied in the meantime is not overwritten
	o.Proposal.IfVersion, o.Proposal.Yes = &before, true
	_, err = operation.ApplyDefinition.Call(ctx, o.Edits, operation.DefinitionInputOf(o.Proposal))
	return edit, err
}
