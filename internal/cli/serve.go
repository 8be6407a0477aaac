package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
)

// serveFlags are what `waybill up` and `waybill serve` may be told.
type serveFlags struct{ listen, logLevel, logFormat, conductor string }

func (f *serveFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.listen, "listen", "", "where the API, the page, metrics and health are served (default: server.listen, else 127.0.0.1:7070)")
	c.Flags().StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	c.Flags().StringVar(&f.logFormat, "log-format", "", "text or json (default: text on a terminal)")
	offer(c, "log-level", "debug", "info", "warn", "error")
	offer(c, "log-format", string(obs.Text), string(obs.JSON))
}

func (a *app) upCommand() *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run every role in one process, with the web page",
		Long: `Runs all roles on the log of this home: deployments proceed, and a web page shows them. On a
terminal it prints an address that logs one browser in once, within a quarter of an hour. A ship
beside it registers and watches.
Ctrl-C, or closing the terminal, lets running attempts end (conductors.default.drain); a second
Ctrl-C exits at once. Without a terminal SIGHUP has server.yaml read again.`,
		Example: examples("waybill up", "waybill up --listen 127.0.0.1:8080"),
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.serve(c.Context(), allRoles(), flags, true)
		},
	}
	flags.add(c)
	return c
}

// allRoles lists the roles that exist so far, in the order of starting.
func allRoles() []string {
	return []string{assembly.RoleConductor, assembly.RoleDeployer, assembly.RoleCaboose, assembly.RoleAPI}
}

// laterRoles are known, and not there yet.
func laterRoles() []string {
	return []string{"promoter", "flow", "broker", "provisioner", "aggregator", "watchdog"}
}

func (a *app) serveCommand() *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "serve ROLE…",
		Short: "Run chosen roles in one process: api, caboose, conductor, deployer",
		Long: `Runs roles against a log. On PostgreSQL any number of processes may run the same role: they
share the work, and when one dies the others take over. On the log in a home only one
process runs roles; it holds waybill.lock.

  api        the HTTP API and the web page
  caboose    looks after workflows: archives them, records how they end
  conductor  does the work: builds, copies, switches, tests
  deployer   decides what comes next

Every process serves /metrics, /healthz and /readyz, whatever its roles. One without the role api and
without --listen uses a free port of the same host when the address is taken, and logs it.`,
		Example:   examples("waybill serve conductor deployer --store postgres://waybill@db/waybill", "waybill serve api --listen 0.0.0.0:7070"),
		ValidArgs: allRoles(),
		Args:      rolesWanted,
		RunE: func(c *cobra.Command, roles []string) error {
			return a.serve(c.Context(), roles, flags, false)
		},
	}
	flags.add(c)
	c.Flags().StringVar(&flags.conductor, "conductor", config.DefaultConductor, "which of server.yaml's conductors the role conductor is")
	offerFrom(c, a.configured(conductorNames), "conductor")
	return c
}

// rolesWanted checks the names of roles.
func rolesWanted(_ *cobra.Command, names []string) error {
	if len(names) == 0 {
		return fault.New(fault.Invalid, "serve wants at least one role").WithHint("waybill serve %s", strings.Join(allRoles(), " "))
	}
	for i, name := range names {
		switch {
		case slices.Contains(laterRoles(), name):
			return fault.New(fault.Invalid, "the role %q is not yet supported", name).WithHint("waybill serve %s", strings.Join(allRoles(), " "))
		case !slices.Contains(allRoles(), name):
			wrong := fault.New(fault.Invalid, "there is no role %q", name)
			if near := fault.Nearest(name, allRoles()); near != "" {
				return wrong.WithHint("waybill serve %s", near)
			}
			return wrong.WithHint("waybill serve %s", strings.Join(allRoles(), " "))
		case slices.Contains(names[:i], name):
			return fault.New(fault.Invalid, "the role %q is named twice", name)
		}
	}
	return nil
}

// serve runs roles until a signal comes or one of them ends.
func (a *app) serve(ctx context.Context, names []string, flags serveFlags, page bool) error {
	options, err := a.roleOptions(flags)
	if err != nil {
		return err
	}
	if a.Flags.Server != "" {
		return fault.New(fault.Invalid, "--server names somebody else's process; roles run on a log: --home or --store")
	}
	a.Log = options.Log
	tracing, err := obs.OpenTracing(ctx, a.Environment, version().Version, options.Log)
	if err != nil {
		return err
	}
	defer func() { _ = tracing.Close(context.WithoutCancel(ctx)) }() // a collector that is away loses the last spans
	options.Tracing = tracing
	s, err := a.Open(ctx, a.Dir, assembly.Serve)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.ServeAs(flags.conductor); err != nil {
		return err
	}
	a.warnPrivateBlobs(s)
	if s.Kind == assembly.Embedded {
		lock, err := lifecycle.Lock(s.Home.Dir)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Unlock() }() // it ends with this process at the latest
	}
	return a.runRoles(ctx, s, options, inOrder(names), page)
}

// runRoles runs roles on a session that nobody else serves.
func (a *app) runRoles(ctx context.Context, s *assembly.Session, options assembly.RoleOptions, names []string, page bool) error {
	options.Drain = s.Live.Now().Conductors[s.Serving].Drain
	roles, err := s.Roles(ctx, options, names...)
	if err != nil {
		return err
	}
	ctx, asked, stop := a.hangups(ctx)
	defer stop()
	roles = append(roles, s.Reloading(options, asked))
	if slices.ContainsFunc(names, func(role string) bool { return role != assembly.RoleAPI }) {
		roles = append(roles, s.Outdating())
	}
	if !slices.Contains(names, assembly.RoleAPI) {
		operations, err := s.OperationsRole(ctx, options)
		if err != nil {
			return err
		}
		roles = append(roles, operations)
	}
	if page {
		a.greet(s)
	}
	if err := lifecycle.Run(ctx, roles...); err != nil {
		return err
	}
	if cause := context.Cause(ctx); interrupted(ctx) && !errors.Is(cause, lifecycle.ErrTerminated) {
		return cause
	}
	return nil // SIGTERM is how a supervisor ends what has done all it should
}

// hangups says what SIGHUP is: on a terminal that it has been closed, which ends the process as Ctrl-C does; elsewhere
// a supervisor's wish to have the configuration read again.
func (a *app) hangups(ctx context.Context) (served context.Context, asked <-chan os.Signal, stop func()) {
	if onTerminal(a.out) {
		served, stop = lifecycle.UntilHangup(ctx)
		return served, nil, stop
	}
	asked, stop = lifecycle.Hangups()
	return ctx, asked, stop
}

// inOrder puts roles in the order of starting, so that those that others rely on end last.
func inOrder(names []string) []string {
	var ordered []string
	for _, role := range allRoles() {
		if slices.Contains(names, role) {
			ordered = append(ordered, role)
		}
	}
	return ordered
}

// roleOptions reads how a serving process logs.
func (a *app) roleOptions(flags serveFlags) (assembly.RoleOptions, error) {
	level, err := obs.ParseLevel(flags.logLevel)
	if err != nil {
		return assembly.RoleOptions{}, err
	}
	format := obs.Format(flags.logFormat)
	if format == "" && onTerminal(a.err) {
		format = obs.Text
	}
	log, err := obs.NewLogger(a.err, obs.LogOptions{Format: format, Level: level})
	if err != nil {
		return assembly.RoleOptions{}, err
	}
	return assembly.RoleOptions{Log: log, Registry: obs.NewRegistry(), Listen: flags.listen}, nil
}

// greet prints where the page is, and logs in the person at the terminal.
func (a *app) greet(s *assembly.Session) {
	fmt.Fprintf(a.out, "waybill is up on %s\n", assembly.WithoutPassword(s.URL))
	switch {
	case s.API == nil:
	case onTerminal(a.out):
		fmt.Fprintf(a.out, "  open %s\n", s.API.LoginURL(a.User()))
	default: // what is written down lasts, and has other readers
		fmt.Fprintf(a.out, "  open %s and log in with the token in %s\n", s.API.LoginPage(), s.Home.Token())
	}
}
