// Package broker has the commands of the service broker: waybill broker.
package broker

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// Command returns `waybill broker` with every command below it.
func Command(a *cmdline.App) *cobra.Command {
	return cmdline.Group("broker", "Look at service instances that platforms have provisioned",
		`The role broker serves the Open Service Broker API to platforms, such as Cloud Foundry. Each
operation on a service instance is an action: waybill action show has its attempts.`,
		listCommand(a), showCommand(a))
}

func listCommand(a *cmdline.App) *cobra.Command {
	var query operation.ServiceInstancesInput
	c := &cobra.Command{
		Use:   "list",
		Short: "List service instances, in the order of their ids",
		Long: `Lists service instances in the order of their ids, each with the action of its newest operation. One
that was deleted is listed for 30 days.`,
		Example: cmdline.Examples("waybill broker list", "waybill broker list --after demo-7 --limit 100 -o json"),
		Args:    cmdline.Arguments(0, 0),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, _ []string) error {
			return runList(ctx, listOptions{Log: s, Query: query, Out: a.Printer(), Now: time.Now})
		}),
	}
	c.Flags().StringVar(&query.After, "after", "", "only those whose id comes after this one: the next page")
	c.Flags().IntVar(&query.Limit, "limit", cmdline.ListLimit, "at most this many, up to 100")
	cmdline.OfferFrom(c, completeIDs(a), "after")
	return c
}

type listOptions struct {
	Log   operation.Caller
	Query operation.ServiceInstancesInput
	Out   show.Printer
	Now   func() time.Time
}

// runList prints a page of service instances.
func runList(ctx context.Context, o listOptions) error {
	found, err := operation.ListServiceInstances.Call(ctx, o.Log, o.Query)
	if err != nil {
		return err
	}
	err = show.List(o.Out, found,
		"no service instances; platforms provision them at the role broker, which server.yaml describes under broker",
		func(found []service.ServiceInstanceView) []string { return show.ServiceInstances(found, o.Now()) })
	if n := len(found); err == nil && n > 0 {
		o.Out.NextPage(n, o.Query.Limit, found[n-1].ID)
	}
	return err
}

func showCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show a service instance with its operation and its parameters",
		Example:           cmdline.Examples("waybill broker show demo-1"),
		Args:              cmdline.Arguments(1, 1, "ID"),
		ValidArgsFunction: cmdline.First(completeIDs(a)),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, arguments []string) error {
			return runShow(ctx, showOptions{Log: s, ID: arguments[0], Out: a.Printer(), Now: time.Now})
		}),
	}
}

type showOptions struct {
	Log operation.Caller
	ID  string
	Out show.Printer
	Now func() time.Time
}

// runShow prints one service instance.
func runShow(ctx context.Context, o showOptions) error {
	found, err := operation.GetServiceInstance.Call(ctx, o.Log, operation.ServiceInstancePath{ID: o.ID})
	if err != nil {
		return err
	}
	return o.Out.Answer(found, show.ServiceInstance(found, o.Now())...)
}

// completeIDs offers service instances.
func completeIDs(a *cmdline.App) cmdline.Completer {
	return cmdline.FromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
		return ids(ctx, s)
	})
}

func ids(ctx context.Context, log operation.Caller) (words []string, err error) {
	page := operation.ServiceInstancesInput{Limit: service.MostServiceInstances}
	found, err := operation.ListServiceInstances.Call(ctx, log, page)
	for _, x := range found {
		words = append(words, x.ID+"\t"+x.State)
	}
	return words, err
}
