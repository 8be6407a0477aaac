// Package server has the commands that serve, and those of access and state: waybill up, waybill serve, waybill status and waybill token.
package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/obs/otlp"
)

// serveFlags are the flags of `waybill up` and `waybill serve`.
type serveFlags struct {
	listen, logLevel, logFormat, conductor string
	shard                                  string
	metricsPerPipeline                     bool
}

func (f *serveFlags) add(a *cmdline.App, c *cobra.Command) {
	cmdline.AddDials(a, c)
	c.Flags().StringVar(&f.listen, "listen", "",
		"where the API, the page, metrics and health are served (default: server.listen, else 127.0.0.1:7070)")
	c.Flags().StringVar(&a.Flags.LogRetention, "log-retention", "",
		"how long logs, artifacts and test results of builds in the database are kept, such as 30d, or never (default: "+
			"ledger.logRetention, else 90d)")
	c.Flags().StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	c.Flags().StringVar(&f.logFormat, "log-format", "", "text or json (default: text on a terminal)")
	c.Flags().BoolVar(&f.metricsPerPipeline, "metrics-per-pipeline", false,
		"metrics of deployments, waiting steps and lag have the label pipeline")
	cmdline.Offer(c, "log-level", "debug", "info", "warn", "error")
	cmdline.Offer(c, "log-format", string(obs.Text), string(obs.JSON))
}

// parseShard reads --shard.
func (f *serveFlags) parseShard() (shard build.Shard, err error) {
	if f.shard == "" {
		return shard, nil
	}
	host, err := os.Hostname()
	if err == nil {
		shard, err = build.ParseShard(f.shard, host)
	}
	if err != nil {
		return shard, fault.New(fault.Invalid, "--shard: %w", err)
	}
	return shard, nil
}

// UpCommand returns `waybill up`.
func UpCommand(a *cmdline.App) *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the roles of one machine in one process, with the web page",
		Long: `Runs the roles api, caboose, conductor and deployer on the log of this home, and the roles promoter,
broker and flow if server.yaml has their sections: deployments proceed, and a web page shows them.
On a terminal it prints an address that logs one browser in once, within a quarter of an hour. A
ship beside it registers and watches. Ctrl-C, or closing the terminal, lets running attempts end
(conductors.default.drain); a second Ctrl-C exits at once. Without a terminal SIGHUP has server.yaml
read again.`,
		Example: cmdline.Examples("waybill up", "waybill up --listen 127.0.0.1:8080"),
		Args:    cmdline.Arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return serve(c.Context(), a, upRoles(), flags, true)
		},
	}
	flags.add(a, c)
	return c
}

// allRoles returns every role, in the order of starting.
func allRoles() []string {
	return append([]string{assembly.RoleProvisioner, assembly.RoleAggregator, assembly.RoleWatchdog, assembly.RolePromoter,
		assembly.RoleBroker, assembly.RoleFlow}, upRoles()...)
}

// upRoles returns the roles of `waybill up`, in the order of starting.
func upRoles() []string {
	return []string{assembly.RoleConductor, assembly.RoleDeployer, assembly.RoleCaboose, assembly.RoleAPI}
}

// configuredRoles returns the roles that run with upRoles if server.yaml has their sections.
func configuredRoles(c *config.Config) (names []string) {
	if c.Promoter != nil {
		names = append(names, assembly.RolePromoter)
	}
	if c.Broker != nil {
		names = append(names, assembly.RoleBroker)
	}
	if c.Flow != nil {
		names = append(names, assembly.RoleFlow)
	}
	return names
}

// ServeCommand returns `waybill serve`.
func ServeCommand(a *cmdline.App) *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "serve ROLE…",
		Short: "Run chosen roles in one process, such as api, conductor and deployer",
		Long: `Runs roles against a log. On PostgreSQL any number of processes may run the same role: they
share the work, and when one dies the others take over. On the log in a home only one
process runs roles; it holds waybill.lock.

  aggregator   stores what the workers of builds record
  api          the HTTP API and the web page
  broker       serves the Open Service Broker API, on an address of its own
  caboose      looks after workflows: archives them, records how they end
  conductor    does the work: builds, copies, switches, tests
  deployer     decides what comes next
  flow         keeps the EventFlows of a Kubernetes cluster ready; alone it needs no log
  promoter     carries revisions through the pipelines of a Kubernetes cluster
  provisioner  starts the workers of builds, for programs that ask it over HTTP
  watchdog     looks for builds without workers and workers without builds

Every process serves /metrics, /healthz and /readyz, whatever its roles. One without the role api
and without --listen uses a free port of the host of server.listen, and logs it.

Aggregators on one PostgreSQL share the workers of builds: each follows those that rendezvous
hashing gives it among the live ones. --shard 2/3 takes the second of three fixed parts instead, and
--shard /3 the part of this StatefulSet's pod, by the number at the end of its host's name.`,
		Example: cmdline.Examples("waybill serve conductor deployer --store postgres://waybill@db/waybill",
			"waybill serve api --listen 0.0.0.0:7070"),
		ValidArgs: allRoles(),
		Args:      rolesWanted,
		RunE: func(c *cobra.Command, roles []string) error {
			if flags.shard != "" && !slices.Contains(roles, assembly.RoleAggregator) {
				return fault.New(fault.Invalid, "--shard is for the role aggregator")
			}
			return serve(c.Context(), a, roles, flags, false)
		},
	}
	flags.add(a, c)
	c.Flags().StringVar(&flags.conductor, "conductor", config.DefaultConductor, "which of server.yaml's conductors the role conductor is")
	c.Flags().StringVar(&flags.shard, "shard", "",
		"which workers the role aggregator follows: i/N, or /N in a StatefulSet (default: live aggregators share them)")
	cmdline.OfferFrom(c, cmdline.CompleteConfigured(a, cmdline.ConductorNames), "conductor")
	return c
}

// rolesWanted checks the names of roles.
func rolesWanted(_ *cobra.Command, names []string) error {
	every := "waybill serve " + strings.Join(upRoles(), " ")
	if len(names) == 0 {
		return fault.New(fault.Invalid, "serve wants at least one role").WithHint("%s", every)
	}
	for i, name := range names {
		switch {
		case !slices.Contains(allRoles(), name):
			return fault.New(fault.Invalid, "role %q not found: the roles are %s", name, strings.Join(allRoles(), ", ")).
				WithHint("%s", cmdline.NearestHint(name, allRoles(), "waybill serve %s", every))
		case slices.Contains(names[:i], name):
			return fault.New(fault.Invalid, "the role %q is named twice", name)
		}
	}
	return nil
}

// serve opens the log for roles, locks it when it is embedded, and fills the options of runServe.
func serve(ctx context.Context, a *cmdline.App, names []string, flags serveFlags, page bool) error {
	options, err := roleOptions(a, flags)
	if err != nil {
		return err
	}
	if a.Flags.Server != "" {
		return fault.New(fault.Invalid, "--server names another process; roles run on a log: --home or --store")
	}
	a.Log = options.Log
	tracing, err := otlp.Open(ctx, a.Environment, a.Version, options.Log)
	if err != nil {
		return err
	}
	defer func() { _ = tracing.Close(context.WithoutCancel(ctx)) }() // a collector that does not answer loses the last spans
	options.Tracing = tracing
	if slices.Equal(names, []string{assembly.RoleFlow}) {
		return serveFlows(ctx, a, options)
	}
	s, err := a.Open(ctx, a.Dir, assembly.Serve)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.ServeAs(flags.conductor); err != nil {
		return err
	}
	if page {
		names = append(names, configuredRoles(s.Live.Now())...)
	}
	a.WarnPrivateBlobs(s.PrivateBlobs())
	warnUnguarded(ctx, s, buildsOf(names, s.Live.Now().Builder.Provisioner), a.Printer())
	if err := command.Hide(); err != nil {
		return err
	}
	var beside []lifecycle.Role
	if s.Kind == assembly.Embedded {
		lock, err := lifecycle.Lock(s.Home.Dir)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Unlock() }() // it ends with this process at the latest
		beside = []lifecycle.Role{{Name: "lock", Run: lock.Keep}}
	}
	ctx, asked, stop := hangups(ctx, a)
	defer stop()
	options.Reload = asked
	return runServe(ctx, serveOptions{Roles: s, Names: inOrder(names), Options: options, Beside: beside, Started: func() {
		if page {
			greet(a, s)
		} else if s.API != nil { // other listeners log their addresses themselves
			a.Log.Info("the API and the pages are served", obs.KeyURL, s.API.URL(), obs.KeyPage, s.API.Page(), obs.KeyRoles,
				strings.Join(inOrder(names), " "))
		}
	}})
}

// serveFlows serves the role flow in a process of its own, which needs no log.
func serveFlows(ctx context.Context, a *cmdline.App, options assembly.RoleOptions) error {
	roles, err := a.OpenFlowRoles(a.Dir)
	if err != nil {
		return err
	}
	ctx, asked, stop := hangups(ctx, a)
	defer stop()
	options.Reload = asked
	return runServe(ctx, serveOptions{Roles: roles, Names: []string{assembly.RoleFlow}, Options: options, Started: func() {}})
}

type serveOptions struct {
	Roles interface {
		// ServingRoles returns the named roles of a process that serves, and those that each such process has.
		ServingRoles(ctx context.Context, o assembly.RoleOptions, names ...string) ([]lifecycle.Role, error)
	}
	Names   []string // in the order of starting
	Options assembly.RoleOptions
	Beside  []lifecycle.Role // what runs beside the roles
	Started func()           // is called once the roles are made: their ports are open
}

// runServe runs roles until a signal comes or one of them ends.
func runServe(ctx context.Context, o serveOptions) error {
	roles, err := o.Roles.ServingRoles(ctx, o.Options, o.Names...)
	if err != nil {
		return err
	}
	o.Started()
	if err := lifecycle.Run(ctx, append(o.Beside, roles...)...); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cmdline.Interrupted(ctx) && !errors.Is(cause, lifecycle.ErrTerminated) {
		return cause
	}
	return nil // a supervisor ends a process that has done its work with SIGTERM
}

// hangups decides the meaning of SIGHUP. On a terminal it was closed, which ends the process as Ctrl-C does.
// Elsewhere a supervisor has the configuration read again.
func hangups(ctx context.Context, a *cmdline.App) (served context.Context, asked <-chan os.Signal, stop func()) {
	if cmdline.OnTerminal(a.Out) {
		served, stop = lifecycle.UntilHangup(ctx)
		return served, nil, stop
	}
	asked, stop = lifecycle.Hangups()
	return ctx, asked, stop
}

// inOrder returns roles in the order of starting. They end in reverse: a role outlives those that rely on it.
func inOrder(names []string) []string {
	var ordered []string
	for _, role := range allRoles() {
		if slices.Contains(names, role) {
			ordered = append(ordered, role)
		}
	}
	return ordered
}

// roleOptions returns the options that the flags of a serving process set.
func roleOptions(a *cmdline.App, flags serveFlags) (assembly.RoleOptions, error) {
	level, err := obs.ParseLevel(flags.logLevel)
	if err != nil {
		return assembly.RoleOptions{}, err
	}
	format := obs.Format(flags.logFormat)
	if format == "" && cmdline.OnTerminal(a.Err) {
		format = obs.Text
	}
	log, err := obs.NewLogger(a.Err, obs.LogOptions{Format: format, Level: level})
	if err != nil {
		return assembly.RoleOptions{}, err
	}
	shard, err := flags.parseShard()
	return assembly.RoleOptions{Log: log, Registry: obs.NewRegistry(), Listen: flags.listen,
		MetricsPerPipeline: flags.metricsPerPipeline, Shard: shard}, err
}

// greet prints where the page is. At a terminal the address logs its reader in.
func greet(a *cmdline.App, s *assembly.Session) {
	lines := []string{"waybill is up on " + assembly.WithoutPassword(s.URL)}
	switch {
	case s.API == nil:
	case cmdline.OnTerminal(a.Out):
		lines = append(lines, "  open "+s.API.LoginURL(a.User()))
	default: // what is written to a file lasts, and has other readers
		lines = append(lines, fmt.Sprintf("  open %s and log in with the token in %s", s.API.LoginPage(), s.Home.Token()))
	}
	_ = a.Printer().Lines(lines...) // the roles run whether or not the greeting is read
}
