package deployment

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func deploymentWhyCommand(a *cmdline.App) *cobra.Command {
	input := false
	c := &cobra.Command{
		Use:   "why [DEPLOYMENT [TARGET]]",
		Short: "List a deployment's open steps, with the reason why each does not run",
		Long: `Lists the steps that are not complete, with the reason and who can change it. Steps that wait for
the same are counted, not listed; -o json lists each. Where earlier runs show how long the work
before a step takes, the text says when the step is expected to begin, in UTC. Steps are named by
their events, as in waybill log: host-artifact-replicated is the end of replicate, host-deployed of
deploy, host-deployment-tested of test, host-NAME of an own step NAME; the rest mark how far stages,
groups and hosts are. Without a name: the newest deployment of this folder's pipeline.

Of a pipeline of Kubernetes it lists everything that is in the way of each environment. With
--json-input it prints everything that the decision is made from, and the decision, as JSON.`,
		Example: cmdline.Examples("waybill deployment why", "waybill deployment why greeter#7",
			"waybill deployment why greeter#7 prod/east", "waybill deployment why apps:podinfo prod",
			"waybill deployment why apps:podinfo --json-input > input.json"),
		Args:              cmdline.Arguments(0, 2, "DEPLOYMENT", "TARGET"),
		ValidArgsFunction: cmdline.CompleteDeployments(a),
		RunE: cmdline.WithDeployment(a, func(ctx context.Context, s *assembly.Session, ref service.Ref, rest []string) error {
			if input {
				return runInput(ctx, s, ref.Pipeline, a.Printer())
			}
			_, err := RunWhy(ctx, WhyOptions{Deployments: s, Ref: ref, Target: cmdline.Optional(rest, 0), Idle: s.IsIdle, Out: a.Printer()})
			return err
		}),
	}
	c.Flags().BoolVar(&input, "json-input", false, "print the exact input of the decision and its result, of a pipeline of Kubernetes")
	return c
}

// runInput prints the input of the decision about a pipeline of Kubernetes, and the decision.
func runInput(ctx context.Context, log operation.Caller, name string, out show.Printer) error {
	if !service.OfKubernetes(name) {
		return fault.New(fault.Refused, "%s is not a pipeline of Kubernetes: waybill log shows all that its decisions are made from", name)
	}
	plan, err := operation.PlanPromotion.Call(ctx, log, operation.PromotionInput{PipelinePath: operation.PipelinePath{Pipeline: name}, Input: true})
	if err != nil {
		return err
	}
	return out.Document(struct {
		Input json.RawMessage `json:"input"`
		Plan  json.RawMessage `json:"plan"`
	}{plan.Input, plan.Plan})
}

type WhyOptions struct {
	Deployments operation.Caller
	Ref         service.Ref
	Target      string                     // "": every target
	Idle        func(context.Context) bool // nil: no warning
	Out         show.Printer
}

// RunWhy prints the open steps of a deployment, and returns how many there are.
func RunWhy(ctx context.Context, o WhyOptions) (open int, err error) {
	steps, err := operation.ExplainDeployment.Call(ctx, o.Deployments,
		operation.WhyInput{DeploymentPath: operation.PathOf(o.Ref), Target: o.Target})
	if err != nil {
		return 0, err
	}
	if service.OfKubernetes(o.Ref.Pipeline) {
		return len(steps), show.List(o.Out, steps, "nothing is in the way of "+o.Ref.String(), func(steps []pipeline.StepState) []string {
			return show.OpenEnvironments(steps, time.Now())
		})
	}
	if o.Idle != nil {
		v, err := operation.GetDeployment.Call(ctx, o.Deployments, operation.PathOf(o.Ref))
		if err != nil {
			return 0, err
		}
		if v.State.Status == pipeline.StatusActive {
			cmdline.WarnIfIdle(ctx, o.Out, o.Idle)
		}
	}
	return len(steps), show.List(o.Out, steps, o.Ref.String()+" has no open step", show.OpenSteps)
}
