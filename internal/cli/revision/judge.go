package revision

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func revisionRejectCommand(a *cmdline.App) *cobra.Command {
	c := judgmentCommand(a, "reject", operation.RejectRevision)
	c.Short = "Deploy a revision only when it is accepted again"
	c.Long = `Rejects a revision: it is not deployed or retried until it is accepted again. A deployment
of it that is under way starts nothing new; "waybill deployment cancel" ends it. Hosts that run
the revision keep it. Of a pipeline of Kubernetes it is promoted into no environment.`
	c.Example = cmdline.Examples(`waybill revision reject greeter 3f2c9a1 --reason "loses sessions"`,
		"waybill revision reject apps:podinfo 6.6.0")
	return c
}

func revisionAcceptCommand(a *cmdline.App) *cobra.Command {
	c := judgmentCommand(a, "accept", operation.AcceptRevision)
	c.Short = "Accept a rejected revision again"
	c.Example = cmdline.Examples("waybill revision accept greeter 3f2c9a1")
	return c
}

// judgment rejects or accepts a revision.
type judgment = operation.Operation[operation.JudgmentInput, pipeline.RegisteredRevision]

// judgmentCommand returns a command that records a person's judgement of a revision.
func judgmentCommand(a *cmdline.App, name string, judge judgment) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use:               name + " PIPELINE LABEL",
		Args:              cmdline.Arguments(2, 2, "PIPELINE", "LABEL"),
		ValidArgsFunction: cmdline.InTurn(cmdline.CompletePipelines(a), cmdline.CompleteRevisions(a)),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, given []string) error {
			return runJudge(ctx, judgeOptions{Revisions: s, Judge: judge, Pipeline: given[0], Label: given[1], Reason: reason, Out: a.Printer()})
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "the reason, kept in the log and shown")
	return c
}

type judgeOptions struct {
	Revisions               operation.Caller
	Judge                   judgment
	Pipeline, Label, Reason string
	Out                     show.Printer
}

// runJudge records a judgment, and prints the revision's state with the active deployments that it concerns.
func runJudge(ctx context.Context, o judgeOptions) error {
	r, err := o.Judge.Call(ctx, o.Revisions, operation.JudgmentInput{Body: &operation.JudgmentBody{Reason: o.Reason},
		LabelPath: operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: o.Pipeline}, Label: o.Label}})
	if err != nil {
		return err
	}
	if service.OfKubernetes(o.Pipeline) {
		return o.Out.Answer(r, show.Judgment(r, nil)...)
	}
	active, err := operation.AllDeployments(
		ctx,
		o.Revisions,
		operation.DeploymentsInput{Pipeline: o.Pipeline, Revision: r.Seq, Status: string(pipeline.StatusActive)},
	)
	if err != nil {
		return err
	}
	return o.Out.Answer(r, show.Judgment(r, active)...)
}
