package pipeline

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

func pipelineApplyCommand(a *cmdline.App) *cobra.Command {
	yes := false
	c := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Make a waybill.yaml the pipeline's definition, and ship nothing",
		Long: `Stores a waybill.yaml as the pipeline's next definition version, unless it equals the one in
force. Shows first what that does to the deployments inside; when one of them would skip
or lose work it asks, and without a terminal stops with status 4 unless --yes says so.`,
		Example: cmdline.Examples("waybill pipeline apply", "waybill pipeline apply staging/waybill.yaml --yes"),
		Args:    cmdline.Arguments(0, 1, "FILE"),
		RunE: func(c *cobra.Command, arguments []string) error {
			p, err := a.ProjectFrom(arguments)
			if err != nil {
				return err
			}
			if err := cmdline.CheckHostKeys(a, p, ""); err != nil {
				return err
			}
			return a.InSession(c, p.Dir, assembly.Create, func(ctx context.Context, s *assembly.Session) error {
				return runApply(
					ctx,
					cmdline.ApplyOptions{
						Edits:    s,
						Proposal: p.Proposal(a.User()),
						Warn:     func() { a.PrintProblems(p.Warnings) },
						Yes:      yes,
						Ask:      a.Confirm,
						Out:      a.Printer(),
					},
				)
			})
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "apply although a deployment inside skips or loses work")
	return c
}

// runApply applies a definition and prints which version is in force then.
func runApply(ctx context.Context, o cmdline.ApplyOptions) error {
	edit, err := cmdline.ApplyEdit(ctx, o)
	if err != nil {
		return err
	}
	edit.Applied = !edit.Unchanged
	word := "applied"
	if edit.Unchanged {
		word = "in force already"
	}
	return o.Out.Answer(edit, fmt.Sprintf("%s: definition %d %s", edit.Pipeline, edit.Version, word))
}
