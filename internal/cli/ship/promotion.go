package ship

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

// planPromotion plans for a pipeline of Kubernetes.
func planPromotion(a *cmdline.App, c *cobra.Command, name string, flags planFlags) error {
	if flags.edit != "" || flags.from != "" || len(flags.whatIf) > 0 {
		return fault.New(fault.Invalid, "a plan for a pipeline of Kubernetes has the flag --revision only").
			WithHint("waybill plan %s --revision REVISION", name)
	}
	return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
		return runPlanPromotion(ctx, s, operation.PromotionInput{PipelinePath: operation.PipelinePath{Pipeline: name},
			Revision: flags.revision, Files: true}, a.Printer())
	})
}

// runPlanPromotion prints the next promotions. The error is the exit status of a plan that would do something.
func runPlanPromotion(ctx context.Context, log operation.Caller, q operation.PromotionInput, out show.Printer) error {
	plan, err := operation.PlanPromotion.Call(ctx, log, q)
	if err != nil {
		return err
	}
	if err := out.Answer(plan, show.PromotionPlan(plan, out.Style)...); err != nil || !plan.Todo {
		return err
	}
	return errPending()
}
