package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow/migrate"
	"github.com/waybill-dev/waybill/internal/kube"
)

// systemNamespaces are those of Kyma and of its parts, whose service instances stay as they are.
const systemNamespaces = "compass-system,istio-system,knative-eventing,knative-serving,kube-node-lease,kube-public,kube-system," +
	"kyma-installer,kyma-integration,kyma-system,natss"

// migrateFlags are those of waybill flow migrate.
type migrateFlags struct {
	migrate.Settings

	from          clusterFlags
	apply, revert bool
	wait          time.Duration
}

func migrateCommand(a *cmdline.App) *cobra.Command {
	var f migrateFlags
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Turn service instances of Kyma's application broker into EventFlows, in place",
		Long: `Prints how the service instances of the broker application-broker for events become EventFlows:
their rows in the log, the flows, and the Subscriptions, Brokers and policies that these take over.
Nothing is changed without --apply, which does not work while the old broker runs.

--apply performs the plan, one service instance after the other. No Subscription is removed before
its replacement is ready, so no event is lost. An interrupted command is repeated. Service instances
that failed or are being deleted are left out. --revert plans the way back, which gives the objects
back and removes the flows.

The command opens the log itself: run it where the log is, with --home or --store.`,
		Example: cmdline.Examples("waybill flow migrate --user platform --context dev",
			"waybill flow migrate --user platform --context dev --broker-url http://waybill:7071 --apply",
			"waybill flow migrate --context dev --revert",
			"waybill flow migrate --context dev --revert --apply"),
		Args: cmdline.Arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(a); err != nil {
				return err
			}
			return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error { return f.run(ctx, a, s) })
		},
	}
	f.from.add(c)
	flags := c.Flags()
	flags.BoolVar(&f.apply, "apply", false, "do it, instead of printing the plan")
	flags.BoolVar(&f.revert, "revert", false, "take a migration back: the plan of it, or with --apply do it")
	flags.StringVar(&f.User, "user", "", "user of the broker that the service instances belong to: the one with whose password the platform comes")
	flags.StringSliceVar(&f.Ignore, "ignore-namespace", nil, "namespaces that stay as they are (default: those of Kyma, Knative, Istio and Kubernetes)")
	flags.StringVar(&f.BrokerURL, "broker-url", "", "address of the role broker for the platform: ServiceBrokers are pointed to it (default: they stay)")
	flags.StringVar(&f.BrokerSecret, "broker-secret", "", "Secret with username and password in each namespace, for --broker-url")
	flags.DurationVar(&f.wait, "wait", time.Minute, "how long to wait for each flow to be ready")
	return c
}

// check refuses flags that do not fit together.
func (f *migrateFlags) check(a *cmdline.App) error {
	switch {
	case a.Flags.Server != "":
		return fault.New(fault.Invalid, "service instances are migrated beside the log, not through a server").
			WithHint("--home or --store, where the server runs")
	case f.User == "" && !f.revert:
		return fault.New(fault.Invalid, "--user is missing: the user of the broker that the service instances belong to")
	case f.BrokerSecret != "" && f.BrokerURL == "":
		return fault.New(fault.Invalid, "--broker-secret needs --broker-url")
	}
	if f.BrokerURL != "" && !isPlainURL(f.BrokerURL) {
		return fault.New(fault.Invalid, "--broker-url: want an http or https URL without user and query")
	}
	return nil
}

// isPlainURL reports whether a text is an http or https URL without user, query and fragment.
func isPlainURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// run opens the cluster and performs the command.
func (f *migrateFlags) run(ctx context.Context, a *cmdline.App, s *assembly.Session) error {
	if users := s.BrokerUsers(); users != nil && !f.revert && !slices.Contains(users, f.User) {
		return fault.New(fault.Invalid, "the broker of server.yaml does not have the user %q", f.User).WithNearest(f.User, users)
	}
	cluster, applications, err := s.FlowCluster(f.from.config(a))
	if err != nil {
		return err
	}
	f.Integration = applications
	if f.Ignore == nil {
		f.Ignore = strings.Split(systemNamespaces, ",")
	}
	return runMigrate(ctx, migrateOptions{migrateFlags: *f, Cluster: cluster, Log: s.Ledger, Out: a.Printer()})
}

type migrateOptions struct {
	migrateFlags

	Cluster *kube.Cluster
	Log     migrate.Log
	Out     show.Printer
}

// runMigrate prints a plan, or performs it. It fails if a service instance is not ready in the end.
func runMigrate(ctx context.Context, o migrateOptions) error {
	m := migrate.New(migrate.Config{Settings: o.Settings, Cluster: o.Cluster, Log: o.Log, Wait: o.wait, Progress: o.progress})
	plan, perform, none := m.Plan, m.Apply, "the cluster has no service instances of the application broker for events"
	if o.revert {
		plan, perform, none = m.PlanRevert, m.Revert, "the cluster has no flows of a migration"
	}
	if !o.apply {
		outline, err := plan(ctx)
		if err != nil {
			return err
		}
		return o.Out.Answer(outline, show.MigrationPlan(outline, none)...)
	}
	tasks, err := perform(ctx)
	if err != nil && tasks == nil {
		return err
	}
	if printed := o.Out.Answer(migrate.Outline{Tasks: show.Items(tasks)}, show.MigrationEnd(tasks)...); printed != nil || err != nil {
		return errors.Join(err, printed)
	}
	return unfinished(tasks)
}

// unfinished returns the error of a migration with service instances that are not ready, or failed, or with namespaces that failed.
func unfinished(tasks []migrate.Task) error {
	all, bad := map[bool]int{}, map[bool]int{} // by whether the task is about a namespace
	for _, t := range tasks {
		all[t.Name == ""]++
		if t.State == migrate.NotReady || t.State == migrate.Failed {
			bad[t.Name == ""]++
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fault.New(fault.Failed, "not ready or failed: %d of %d service instances, %d of %d namespaces", bad[false], all[false], bad[true], all[true]).
		WithHint("repeat the command once the reason is gone")
}

// progress prints a step that begins, or the end of a task.
func (o migrateOptions) progress(t *migrate.Task, s *migrate.Step) {
	switch {
	case o.Out.JSON:
	case s != nil:
		o.Out.Note("%s", show.OneLine(fmt.Sprintf("%s: %s", t.Title(), s.Text)))
	default:
		o.Out.Note("%s", show.OneLine(strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", t.Title(), cmp.Or(t.State, migrate.Planned), t.Reason), ": ")))
	}
}
