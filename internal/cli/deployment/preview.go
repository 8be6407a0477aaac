package deployment

import (
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
)

// addDryRun adds the flag that has a command print its effect.
func addDryRun(c *cobra.Command, dryRun *bool) {
	c.Flags().BoolVar(dryRun, "dry-run", false, "print what it would do, and change nothing")
}

// printPreview prints the effect that a dry run has answered with, or returns the error with which the command would be
// refused.
func printPreview[T any](out show.Printer, effect *T, err error, lines func(T) []string) error {
	if err != nil {
		return err
	}
	if effect == nil {
		return fault.New(fault.Unavailable, "the answer to the dry run has no effect").WithHint("is it a Waybill of the same version?")
	}
	return out.Answer(*effect, lines(*effect)...)
}

// returning returns the printer of the preview of a rollback or a catch-up of a pipeline.
func returning(name string) func(service.RollbackPreview) []string {
	return func(preview service.RollbackPreview) []string { return show.RollbackPreview(name, preview) }
}
