package deployment

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// A target in these commands is a path such as prod, prod/east or prod/east/elm, with or without the pipeline's name.

func retryCommand(a *cmdline.App) *cobra.Command {
	intent := service.Command{Kind: "retry"}
	c := intentCommand(a, &intent, "retry DEPLOYMENT [TARGET]", "Try failed steps again")
	c.Long = `Opens the failed steps of a deployment again: all of them, or those of a stage, group or
host. Fix the cause first. A deployment that a newer one has replaced cannot be retried.`
	c.Long += kubernetesRetry
	c.Example = cmdline.Examples("waybill deployment retry greeter#7", "waybill deployment retry greeter#7 prod/east/elm",
		"waybill deployment retry apps:podinfo prod")
	c.Flags().StringVar(&intent.Event, "event", "", "only this step: its name in waybill.yaml, such as test, or its event in the log")
	cmdline.OfferFrom(c, completeSteps(a), "event")
	return c
}

const kubernetesRetry = `

Of a pipeline of Kubernetes, such as apps:podinfo, it promotes the wanted revision into an
environment again: after its pull request was closed, a gate failed, its rollout timed out, or an
attempt failed for good. When a target has failed, a retry changes nothing: repair the target, or
roll back.`

func cancelCommand(a *cmdline.App) *cobra.Command {
	intent := service.Command{Kind: "cancel"}
	c := intentCommand(a, &intent, "cancel DEPLOYMENT", "End a deployment: nothing new is started")
	c.Args = cmdline.Arguments(1, 1, "DEPLOYMENT")
	c.Long = `Starts nothing new in a deployment, ends its tests, and lets other running attempts end.
With --now builds and copies are interrupted too; a switch of a host's release never is.
"waybill deployment show" lists the hosts that run the deployment's release afterwards.`
	c.Example = cmdline.Examples(`waybill deployment cancel greeter#7 --reason "wrong branch"`)
	c.Flags().BoolVar(&intent.Now, "now", false, "interrupt builds and copies")
	return c
}

func holdCommand(a *cmdline.App) *cobra.Command {
	intent := service.Command{Kind: "hold"}
	c := intentCommand(a, &intent, "hold DEPLOYMENT [STAGE]", "Start nothing new until resumed")
	c.Long = `Holds a deployment, or one stage of it: running attempts end, nothing new begins, and it
keeps its place.

Of a pipeline of Kubernetes, such as apps:podinfo, it holds the pipeline or one environment: nothing
is promoted there, but for a person's rollback. With --until the hold ends by itself.`
	c.Example = cmdline.Examples(`waybill deployment hold greeter#7 --reason "checking dashboards"`, "waybill deployment hold greeter#7 prod",
		"waybill deployment hold apps:podinfo prod --until 2h")
	until := ""
	c.Flags().StringVar(&until, "until", "", "pipelines of Kubernetes: when it ends by itself, a time or a duration from now")
	c.PreRunE = func(*cobra.Command, []string) (err error) {
		intent.Until, err = cmdline.ReadAt("--until", until, time.Now())
		return err
	}
	return c
}

func resumeCommand(a *cmdline.App) *cobra.Command {
	intent := service.Command{Kind: "resume"}
	c := intentCommand(a, &intent, "resume DEPLOYMENT [STAGE]", "Resume a deployment or a stage that is held")
	c.Long = `Resumes a deployment or a stage that is held.

Of a pipeline of Kubernetes it ends the holds that people have put on the pipeline, or on one
environment. With --now it skips the window and the soak of an environment once, for the revision
that it waits for.`
	c.Example = cmdline.Examples("waybill deployment resume greeter#7", "waybill deployment resume apps:podinfo prod",
		`waybill deployment resume apps:podinfo prod --now --reason "fix for the outage"`)
	c.Flags().BoolVar(&intent.Now, "now", false, "environments of Kubernetes: skip the window and the soak once")
	return c
}

func skipCommand(a *cmdline.App) *cobra.Command {
	intent := service.Command{Kind: "skip"}
	c := intentCommand(a, &intent, "skip DEPLOYMENT TARGET", "Leave a step, host or stage out of a deployment")
	c.Args = func(c *cobra.Command, given []string) error {
		if intent.Reason == "" {
			return fault.New(fault.Invalid, "skip wants a reason").WithHint(`--reason "disk is being replaced"`)
		}
		return cmdline.Arguments(2, 2, "DEPLOYMENT", "TARGET")(c, given)
	}
	c.Long = `Leaves a host, group or stage, or one step of it (--event), out of this deployment. It is not
done and not recorded as done. What is running cannot be skipped; a reason is required. A deployment
that has failed stays so: "waybill deployment retry" then continues with what is left.`
	c.Example = cmdline.Examples(`waybill deployment skip greeter#7 prod/east/elm --reason "disk is being replaced"`,
		`waybill deployment skip greeter#7 beta --event test --reason "the test database is down"`)
	c.Flags().StringVar(&intent.Event, "event", "", "only this step: its name in waybill.yaml, such as test, or its event in the log")
	cmdline.OfferFrom(c, completeSteps(a), "event")
	return c
}

func alarmCommand(a *cmdline.App) *cobra.Command {
	intent := service.Command{Kind: "alarm"}
	c := intentCommand(a, &intent, "alarm DEPLOYMENT [TARGET]", "Fail what bakes")
	c.Long = `Fails the bakes of a deployment that are under way: all of them, or those of a stage, group or
wave. What monitors the service may call it, or POST /api/v1/deployments/{id}/alarms.`
	c.Example = cmdline.Examples(`waybill deployment alarm greeter#7 prod --reason "p99 above 2s"`)
	return c
}

// intentCommand returns a command that records a person's wish for a deployment, or for a target in it.
func intentCommand(a *cmdline.App, intent *service.Command, use, short string) *cobra.Command {
	dryRun := false
	c := &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              cmdline.Arguments(1, 2, "DEPLOYMENT", "TARGET"),
		ValidArgsFunction: cmdline.CompleteDeployments(a),
		RunE: cmdline.WithDeployment(a, func(ctx context.Context, s *assembly.Session, ref service.Ref, rest []string) error {
			intent.Target = strings.TrimSuffix(cmdline.Optional(rest, 0), "/")
			if dryRun {
				want := intentInput(ref, *intent)
				want.DryRun = true
				answer, err := operation.CommandDeployment(intent.Kind).Call(ctx, s, want)
				return printPreview(a.Printer(), answer.Effect().Command, err, func(preview service.CommandPreview) []string {
					return show.CommandPreview(ref, preview)
				})
			}
			return runIntent(ctx, intentOptions{Deployments: s, Ref: ref, Intent: *intent, Idle: s.IsIdle, Out: a.Printer(), Now: time.Now})
		}),
	}
	c.Flags().StringVar(&intent.Reason, "reason", "", "the reason, kept in the log")
	addDryRun(c, &dryRun)
	return c
}

// intentInput returns the input of an intent's operation.
func intentInput(ref service.Ref, intent service.Command) operation.CommandInput {
	return operation.CommandInput{DeploymentPath: operation.PathOf(ref),
		Body: &operation.CommandBody{Target: intent.Target, Event: intent.Event, Reason: intent.Reason, Now: intent.Now,
			Until: intent.Until}}
}

type intentOptions struct {
	Deployments operation.Caller
	Ref         service.Ref
	Intent      service.Command
	Idle        func(context.Context) bool
	Out         show.Printer
	Now         func() time.Time
}

// runIntent records the intent and prints the deployment's status then.
func runIntent(ctx context.Context, o intentOptions) error {
	answer, err := operation.CommandDeployment(o.Intent.Kind).Call(ctx, o.Deployments, intentInput(o.Ref, o.Intent))
	if err != nil {
		return err
	}
	if service.OfKubernetes(o.Ref.Pipeline) {
		return o.Out.Answer(answer.Deployment, show.RecordedEnvironment(o.Ref.Pipeline, o.Intent))
	}
	v, err := operation.GetDeployment.Call(ctx, o.Deployments, operation.PathOf(o.Ref))
	if err != nil {
		return err
	}
	if err := o.Out.Answer(v, show.Recorded(v, o.Intent, o.Out.Style, o.Now())); err != nil {
		return err
	}
	if o.Intent.Kind != "hold" && !o.Out.JSON { // a hold needs no process to be obeyed
		cmdline.WarnIfIdle(ctx, o.Out, o.Idle)
	}
	return nil
}

// completeSteps offers the names of the steps of the deployment that the first argument names.
func completeSteps(a *cmdline.App) cmdline.Completer {
	return cmdline.FromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
		if len(given) == 0 {
			return nil, nil
		}
		return deploymentSteps(ctx, s, given[0])
	})
}

func deploymentSteps(ctx context.Context, log operation.Caller, deployment string) ([]string, error) {
	ref, err := cmdline.Resolve(ctx, log, deployment)
	if err != nil {
		return nil, err
	}
	v, err := operation.GetDeployment.Call(ctx, log, operation.PathOf(ref))
	var names []string
	add := func(steps []service.StepRun) {
		for _, step := range steps {
			if !slices.Contains(names, step.Name) {
				names = append(names, step.Name)
			}
		}
	}
	for _, stage := range v.Stages {
		add(stage.Steps)
		for host := range show.Hosts(stage) {
			add(host.Steps)
		}
	}
	return names, err
}
