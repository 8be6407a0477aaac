package deployment

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func ApproveCommand(a *cmdline.App) *cobra.Command {
	var want operation.ApprovalInput
	reject := false
	c := &cobra.Command{
		Use:   "approve PIPELINE[#N] STAGE",
		Short: "Approve or reject a stage that waits for it",
		Long: `Records that you approve a stage, or with --reject that you reject it. It is for one deployment: the
one that waits, or the one that is named, such as greeter#7, or with --revision that of a revision.
Only a stage whose turn has come waits; "waybill pipeline show" lists what does. Each person counts
once. A rejected stage waits until somebody approves it; "waybill deployment cancel" ends the
deployment.

Of a pipeline of Kubernetes, such as apps:podinfo, a STAGE is an environment, and the approval is
for the revision that waits there. Without --revision the command shows that, and asks. A rejected
revision stays out of the environment until a newer one comes, or a retry.

With --server the token needs the scope approve, and its name is recorded. Of a pipeline of
Kubernetes it may be a token of the management cluster, whose user has the verb approve of
pipelines/STAGE there; name the revision then. Programs can sign approvals: docs/promotion.md.`,
		Example: cmdline.Examples("waybill approve greeter prod --revision 3f2c9a1", "waybill approve greeter#7 prod",
			`waybill approve greeter prod --reject --reason "error rate in beta"`,
			"waybill approve apps:podinfo prod --revision 6.6.0"),
		Args:              cmdline.Arguments(2, 2, "PIPELINE", "STAGE"),
		ValidArgsFunction: cmdline.CompleteStages(a),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, given []string) error {
			want.Pipeline, want.Stage = given[0], given[1]
			if strings.Contains(given[0], "#") {
				ref, err := service.ParseRef(given[0])
				if err != nil {
					return err
				}
				want.Pipeline, want.Body.Deployment = ref.Pipeline, ref.Number
			}
			want.Body.Decision = "approve"
			if reject {
				want.Body.Decision = "reject"
			}
			if service.OfKubernetes(want.Pipeline) && want.Body.Revision == "" {
				revision, err := waitingRevision(ctx, s, want, a.Confirm)
				if err != nil {
					return err
				}
				want.Body.Revision = revision
			}
			return runApprove(ctx, approveOptions{Approvals: s, Approval: want, Idle: s.IsIdle, Out: a.Printer()})
		}),
	}
	c.Flags().StringVar(&want.Body.Revision, "revision", "", "the revision to approve; needed when several wait")
	c.Flags().BoolVar(&reject, "reject", false, "reject the stage instead")
	c.Flags().StringVar(&want.Body.Reason, "reason", "", "the reason, kept in the log")
	cmdline.OfferFrom(c, cmdline.CompleteRevisions(a), "revision")
	return c
}

// waitingRevision returns the revision for whose approval an environment waits, once the person has agreed to it.
func waitingRevision(ctx context.Context, s operation.Caller, want operation.ApprovalInput, ask cmdline.Asker) (string, error) {
	p, err := operation.GetPipeline.Call(ctx, s, want.PipelinePath)
	if fault.Is(err, fault.Unauthorized) {
		return "", fault.New(fault.Unauthorized, "%w", err).
			WithHint("name the revision with --revision: a token of Kubernetes approves, and reads nothing")
	}
	if err != nil {
		return "", err
	}
	if p.Promotion == nil {
		return "", nil
	}
	for _, env := range p.Promotion.Environments {
		if env.Name != want.Stage || env.Approval == nil {
			continue
		}
		waits := show.WaitingApproval(env)
		if !ask(ctx, fmt.Sprintf("%s: %s: %s it?", want.Pipeline, waits, want.Body.Decision)) {
			return "", fault.New(fault.Invalid, "which revision? %s", waits).WithHint("--revision %s", env.Approval.Revision)
		}
		return env.Approval.Revision, nil
	}
	return "", nil // the answer to the approval names the environments that wait
}

type approveOptions struct {
	Approvals operation.Caller
	Approval  operation.ApprovalInput
	Idle      func(context.Context) bool
	Out       show.Printer
}

// runApprove records an approval or a rejection, and prints the remaining needs of the stage.
func runApprove(ctx context.Context, o approveOptions) error {
	view, err := operation.ApproveStage.Call(ctx, o.Approvals, o.Approval)
	if err != nil {
		return err
	}
	if err := o.Out.Answer(view, show.Approval(view)); err != nil {
		return err
	}
	if view.Pending == nil && !o.Out.JSON && !service.OfKubernetes(view.Pipeline) {
		cmdline.WarnIfIdle(ctx, o.Out, o.Idle)
	}
	return nil
}
