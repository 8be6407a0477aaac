package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) deploymentCreateCommand() *cobra.Command {
	revision, until := "", ""
	c := &cobra.Command{
		Use:   "create PIPELINE --revision LABEL",
		Short: "Deploy a registered revision once more",
		Long: `Makes one more deployment of a registered revision, also of an older one: this is the way
back. The process that holds the log does its work (waybill up, waybill serve); without one,
waybill ship does.`,
		Example:           examples("waybill deployment create greeter --revision 3f2c9a1"),
		Args:              arguments(1, 1, "PIPELINE"),
		ValidArgsFunction: a.completePipelines,
		RunE: func(c *cobra.Command, arguments []string) error {
			if revision == "" {
				return fault.New(fault.Invalid, "which revision?").WithHint("--revision LABEL; waybill revision list %s", arguments[0])
			}
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				d, err := s.Deploy(ctx, server.NewDeployment{Pipeline: arguments[0], Revision: revision, Until: until, By: a.User()})
				if err != nil {
					return err
				}
				if a.json() {
					return a.printer().Document(d)
				}
				fmt.Fprintf(a.out, "%s  revision %s\n", show.RefOf(d), d.Label)
				a.warnIfIdle(ctx, s)
				return nil
			})
		},
	}
	c.Flags().StringVar(&revision, "revision", "", "label of the revision (required)")
	c.Flags().StringVar(&until, "until", "", "go no further than this `STAGE`; waybill deployment resume lifts it")
	_ = c.RegisterFlagCompletionFunc("revision", a.completeRevisions)
	return c
}
