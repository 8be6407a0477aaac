// Package flow has the commands of EventFlows: waybill flow.
package flow

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/flowview"
)

// Command returns `waybill flow` with every command below it.
func Command(a *cmdline.App) *cobra.Command {
	return cmdline.Group("flow", "Show EventFlows of a Kubernetes cluster, and migrate to them",
		`An EventFlow states that the events of a source reach a sink; the role flow keeps it ready. list
and show read the flows of the cluster that server.yaml names under flow. With --kubeconfig or
--context they ask a cluster themselves, with your rights, and need no log. migrate changes the
cluster, and the log, which it opens itself.`,
		listCommand(a), showCommand(a), migrateCommand(a))
}

// reader reads flows for these commands: from the log, or from a cluster.
type reader interface {
	list(ctx context.Context, q operation.FlowsInput) ([]flowview.Flow, error)
	get(ctx context.Context, at operation.FlowPath) (service.FlowView, error)
}

// logReader has a log or a server read the cluster of its server.yaml.
type logReader struct{ log operation.Caller }

func (r logReader) list(ctx context.Context, q operation.FlowsInput) ([]flowview.Flow, error) {
	return operation.ListFlows.Call(ctx, r.log, q)
}

func (r logReader) get(ctx context.Context, at operation.FlowPath) (service.FlowView, error) {
	return operation.GetFlow.Call(ctx, r.log, at)
}

// clusterReader reads a cluster.
type clusterReader struct{ cluster *kube.Cluster }

func (r clusterReader) list(ctx context.Context, q operation.FlowsInput) ([]flowview.Flow, error) {
	all, err := flowview.List(ctx, r.cluster, q.Namespace)
	if err != nil {
		return nil, err
	}
	return service.FlowQuery(q).Select(all)
}

func (r clusterReader) get(ctx context.Context, at operation.FlowPath) (service.FlowView, error) {
	found, err := flowview.Get(ctx, r.cluster, at.Namespace, at.Name)
	return service.FlowView{Flow: found}, err
}

// clusterFlags name a cluster to read.
type clusterFlags struct{ kubeconfig, context string }

func (f *clusterFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "ask the cluster of this file (default with --context: as kubectl finds it)")
	c.Flags().StringVar(&f.context, "context", "", "ask the cluster of this context of the kubeconfig")
}

// named reports whether the flags name a cluster.
func (f *clusterFlags) named() bool { return f.kubeconfig != "" || f.context != "" }

// config returns the named cluster.
func (f *clusterFlags) config(a *cmdline.App) kube.Config {
	named := kube.Config{Context: f.context, Search: true}
	if f.kubeconfig != "" {
		named.Kubeconfig = a.Path(f.kubeconfig)
	}
	return named
}

// run calls do with the cluster that the flags name, else with the log.
func (f *clusterFlags) run(a *cmdline.App, do func(ctx context.Context, r reader, arguments []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, arguments []string) error {
		if !f.named() {
			return cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, arguments []string) error {
				return do(ctx, logReader{s}, arguments)
			})(c, arguments)
		}
		if a.Flags.Server != "" {
			return fault.New(fault.Invalid, "--server and --kubeconfig or --context exclude each other: the server reads its own cluster")
		}
		cluster, err := kube.Open(f.config(a))
		if err != nil {
			return err
		}
		return do(c.Context(), clusterReader{cluster}, arguments)
	}
}

func listCommand(a *cmdline.App) *cobra.Command {
	var query operation.FlowsInput
	var from clusterFlags
	c := &cobra.Command{
		Use:     "list",
		Short:   "List EventFlows with their states, in the order of namespaces and names",
		Example: cmdline.Examples("waybill flow list", "waybill flow list -n shop --context dev", "waybill flow list --after shop/orders --limit 500 -o json"),
		Args:    cmdline.Arguments(0, 0),
		RunE: from.run(a, func(ctx context.Context, r reader, _ []string) error {
			return runList(ctx, listOptions{Flows: r, Query: query, Out: a.Printer(), Now: time.Now})
		}),
	}
	from.add(c)
	c.Flags().StringVarP(&query.Namespace, "namespace", "n", "", "only those of this namespace")
	c.Flags().StringVar(&query.Status, "status", "", "only those with this status, such as Failed")
	c.Flags().StringVar(&query.After, "after", "", "only those after this namespace/name: the next page")
	c.Flags().IntVar(&query.Limit, "limit", cmdline.ListLimit, "at most this many, up to 500")
	cmdline.OfferFrom(c, from.complete(a), "after")
	return c
}

type listOptions struct {
	Flows reader
	Query operation.FlowsInput
	Out   show.Printer
	Now   func() time.Time
}

// runList prints a page of flows.
func runList(ctx context.Context, o listOptions) error {
	if err := service.FlowQuery(o.Query).Check(); err != nil {
		return err
	}
	found, err := o.Flows.list(ctx, o.Query)
	if err != nil {
		return err
	}
	none := "no EventFlows; examples/flow/orders.yaml is one to begin with"
	if o.Query.Namespace != "" || o.Query.Status != "" || o.Query.After != "" {
		none = "no EventFlow fits"
	}
	err = show.List(o.Out, found, none, func(found []flowview.Flow) []string { return show.Flows(found, o.Now()) })
	if n := len(found); err == nil && n > 0 {
		o.Out.NextPage(n, o.Query.Limit, found[n-1].Namespace+"/"+found[n-1].Name)
	}
	return err
}

func showCommand(a *cmdline.App) *cobra.Command {
	var from clusterFlags
	c := &cobra.Command{
		Use:   "show NAMESPACE/NAME",
		Short: "Show an EventFlow with its conditions, its parts, and the flows that share them",
		Long: `Shows the status of an EventFlow together with its service instance, and of each alone; its
conditions, and the operation of the service instance if the log has it. Then the objects that
carry its events, and the claims on the Broker and the Subscription: one that was created for
flows is deleted with the last of these.`,
		Example:           cmdline.Examples("waybill flow show shop/orders", "waybill flow show shop/orders --context dev -o json"),
		Args:              cmdline.Arguments(1, 1, "NAMESPACE/NAME"),
		ValidArgsFunction: cmdline.First(from.complete(a)),
		RunE: from.run(a, func(ctx context.Context, r reader, arguments []string) error {
			return runShow(ctx, showOptions{Flows: r, Name: arguments[0], Out: a.Printer(), Now: time.Now})
		}),
	}
	from.add(c)
	return c
}

type showOptions struct {
	Flows reader
	Name  string // namespace/name
	Out   show.Printer
	Now   func() time.Time
}

// runShow prints one flow.
func runShow(ctx context.Context, o showOptions) error {
	namespace, name, isPair := strings.Cut(o.Name, "/")
	if !isPair || namespace == "" || name == "" || strings.Contains(name, "/") {
		return fault.New(fault.Invalid, "flow %q: want a namespace and a name", o.Name).WithHint("waybill flow show shop/orders")
	}
	found, err := o.Flows.get(ctx, operation.FlowPath{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	return o.Out.Answer(found, show.Flow(found, o.Now())...)
}

// complete offers the flows of the named cluster, else those of the log.
func (f *clusterFlags) complete(a *cmdline.App) cmdline.Completer {
	log := cmdline.FromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
		return names(ctx, logReader{s})
	})
	return func(c *cobra.Command, given []string, begun string) (words []string, _ cobra.ShellCompDirective) {
		if !f.named() {
			return log(c, given, begun)
		}
		ctx, cancel := context.WithTimeout(c.Context(), cmdline.CompletionPatience)
		defer cancel()
		if cluster, err := kube.Open(f.config(a)); err == nil {
			words, _ = names(ctx, clusterReader{cluster}) // a shell has no place for an error
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

func names(ctx context.Context, r reader) (words []string, err error) {
	found, err := r.list(ctx, operation.FlowsInput{Limit: service.MostFlows})
	for _, f := range found {
		words = append(words, f.Namespace+"/"+f.Name+"\t"+f.Reason)
	}
	return words, err
}
