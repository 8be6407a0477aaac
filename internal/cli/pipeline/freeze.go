package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func pipelineFreezeCommand(a *cmdline.App) *cobra.Command {
	var freeze operation.FreezeBody
	until, all := "", false
	c := &cobra.Command{
		Use:   "freeze [PIPELINE]",
		Short: "Start nothing in a pipeline until it is thawed",
		Long: `Keeps back every stage, group and host of a pipeline that has not started, in all of its
deployments. What has started on a host runs to its end. With --until the freeze ends by itself.
Without a name: this folder's pipeline. --all freezes each pipeline that there is and is not frozen;
one that is applied for the first time later is not. Pipelines of Kubernetes, such as apps:podinfo,
are then frozen together, with those that come later; rollbacks into their environments stop too.`,
		Example: cmdline.Examples("waybill pipeline freeze greeter --until 12h --reason holidays",
			"waybill pipeline freeze --all --until 2026-12-27T09:00:00+01:00"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: func(c *cobra.Command, given []string) (err error) {
			if freeze.Until, err = cmdline.ReadAt("--until", until, time.Now()); err != nil {
				return err
			}
			return changeFreezes(a, c, given, all, func(ctx context.Context, s operation.Caller, name string) (service.FreezeView, error) {
				if name == "" {
					return operation.FreezeAll.Call(ctx, s, operation.FreezeAllInput{Body: &freeze})
				}
				return operation.FreezePipeline.Call(
					ctx,
					s,
					operation.FreezeInput{PipelinePath: operation.PipelinePath{Pipeline: name}, Body: &freeze},
				)
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every pipeline")
	c.Flags().StringVar(&until, "until", "", "when it ends by itself: a time, or a duration from now")
	c.Flags().StringVar(&freeze.Reason, "reason", "", "the reason, kept in the log and shown")
	return c
}

func pipelineThawCommand(a *cmdline.App) *cobra.Command {
	reason, all := "", false
	c := &cobra.Command{
		Use:   "thaw [PIPELINE]",
		Short: "End the freeze of a pipeline",
		Long: `What was kept back starts at once, unless a window or a hold keeps it back too. Without a name: this
folder's pipeline. --all thaws each pipeline that is frozen, and ends the freeze that all pipelines
of Kubernetes share; freezes of single ones end, too.`,
		Example:           cmdline.Examples("waybill pipeline thaw greeter", "waybill pipeline thaw --all"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: func(c *cobra.Command, given []string) error {
			return changeFreezes(a, c, given, all, func(ctx context.Context, s operation.Caller, name string) (service.FreezeView, error) {
				if name == "" {
					return operation.ThawAll.Call(ctx, s, operation.ThawAllInput{Body: &operation.ThawBody{Reason: reason}})
				}
				return operation.ThawPipeline.Call(
					ctx,
					s,
					operation.ThawInput{PipelinePath: operation.PipelinePath{Pipeline: name}, Body: &operation.ThawBody{Reason: reason}},
				)
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every pipeline that is frozen")
	c.Flags().StringVar(&reason, "reason", "", "the reason, kept in the log")
	return c
}

// freezeChange freezes or thaws one pipeline, or all pipelines of Kubernetes with the name "".
type freezeChange func(ctx context.Context, s operation.Caller, name string) (service.FreezeView, error)

// changeFreezes changes whether a pipeline is frozen, or each one, and prints the result.
func changeFreezes(a *cmdline.App, c *cobra.Command, given []string, all bool, change freezeChange) error {
	if all && len(given) > 0 {
		return fault.New(fault.Invalid, "--all and the pipeline %s exclude each other", given[0])
	}
	return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
		if all {
			names, err := frozenTogether(ctx, s, c.Name() == "thaw")
			if err != nil {
				return err
			}
			return changeEach(ctx, s, names, freezeOptions{change, a.Printer()})
		}
		name, err := a.PipelineName(given)
		if err != nil {
			return err
		}
		view, err := change(ctx, s, name)
		if err != nil {
			return err
		}
		return a.Printer().Answer(view, show.Freeze(view, time.Now()))
	})
}

// frozenTogether returns the names to freeze or thaw one by one. A freeze has "" instead of the pipelines of Kubernetes, and a thaw
// has it too, since they may be frozen before there is one.
func frozenTogether(ctx context.Context, s operation.Caller, thaw bool) ([]string, error) {
	all, err := cmdline.PipelineNames(ctx, s)
	if thaw {
		return append(all, ""), err
	}
	names := slices.DeleteFunc(slices.Clone(all), service.OfKubernetes)
	if len(names) < len(all) {
		names = append(names, "")
	}
	return names, err
}

type freezeOptions struct {
	change freezeChange
	out    show.Printer
}

// changeEach freezes or thaws each pipeline, and prints those that changed. A pipeline that refuses, because it is so
// already, is left out. After another error the rest stays as it is.
func changeEach(ctx context.Context, s operation.Caller, names []string, o freezeOptions) error {
	var changed []service.FreezeView
	for _, name := range names {
		view, err := o.change(ctx, s, name)
		switch {
		case fault.Is(err, fault.Refused):
			continue
		case err != nil:
			return fmt.Errorf("%s: %w (%s changed before it)", name, err, show.Count(len(changed), "pipeline"))
		}
		changed = append(changed, view)
	}
	return show.List(o.out, changed, "nothing to change", func(changed []service.FreezeView) (lines []string) {
		for _, view := range changed {
			lines = append(lines, show.Freeze(view, time.Now()))
		}
		return lines
	})
}
