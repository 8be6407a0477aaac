package pipeline

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

func pipelineCheckCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check PIPELINE",
		Short: "Check that a pipeline of Kubernetes can work; change nothing",
		Long: `Checks a pipeline of Kubernetes: whether every target can be read, whether the repositories have
its markers, and what the credentials may do on the Git hosts. It lists what the original
controller did otherwise, too. The process that answers reads the repositories, with the access of
the role promoter.

Exit status 2 if something is wrong, 0 else.`,
		Example:           cmdline.Examples("waybill pipeline check apps:podinfo", "waybill pipeline check apps:podinfo --server https://waybill.example.com"),
		Args:              cmdline.Arguments(1, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: cmdline.WithPipeline(a, func(ctx context.Context, s *assembly.Session, name string) error {
			return runCheck(ctx, s, name, a.Printer())
		}),
	}
}

// runCheck prints the findings of a check. The error is the exit status of a pipeline with faults.
func runCheck(ctx context.Context, log operation.Caller, name string, out show.Printer) error {
	found, err := operation.CheckPipeline.Call(ctx, log, operation.PipelinePath{Pipeline: name})
	if err != nil {
		return err
	}
	if err := out.Answer(found, show.PipelineCheck(found, out.Style)...); err != nil || found.OK {
		return err
	}
	return cmdline.Printed(fault.New(fault.Invalid, "something is wrong with %s", name))
}
