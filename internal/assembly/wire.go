package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/conductor"
	handler "github.com/waybill-dev/waybill/internal/conductor/handler/build"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/gate"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web"
)

// The roles that a process may have.
const (
	RoleAPI         = "api"
	RoleConductor   = "conductor"
	RoleDeployer    = "deployer"
	RoleCaboose     = "caboose"
	RoleProvisioner = "provisioner"
	RoleAggregator  = "aggregator"
	RoleWatchdog    = "watchdog"
	RolePromoter    = "promoter"
	RoleBroker      = "broker"
	RoleFlow        = "flow"
)

// RoleOptions configures the roles of one process.
type RoleOptions struct {
	Drain    time.Duration // how long running attempts may continue at shutdown; 0: they are handed back at once
	Log      *slog.Logger  // nil: nothing is logged
	Registry *prometheus.Registry
	// MetricsPerPipeline gives metrics that count what pipelines have the label pipeline.
	MetricsPerPipeline bool

	Listen  string               // address of the API; "": the configuration's
	Shard   build.Shard          // share of the workers that the role aggregator follows; zero: the live aggregators share them
	ledger  *obs.Ledger          // its metrics
	Tracing trace.TracerProvider // where spans go; nil: nowhere
	Reload  <-chan os.Signal     // requests an immediate read of the configuration; nil: only its changes do
}

// registerer returns where metrics are registered; nil without a registry.
func (o RoleOptions) registerer() prometheus.Registerer {
	if o.Registry == nil {
		return nil
	}
	return o.Registry
}

// ServingRoles makes the named roles of a process that serves, and those that each such process has: one that reloads the
// configuration, one that deletes unused mirrors of repositories, one that ends the process once its schema is outdated, and one
// for metrics and health.
func (s *Session) ServingRoles(ctx context.Context, o RoleOptions, names ...string) ([]lifecycle.Role, error) {
	o.Drain = s.Live.Now().Conductors[s.serving].Drain
	roles, err := s.Roles(ctx, o, names...)
	if err != nil {
		return nil, err
	}
	roles = append(roles, s.reloading(o)) // after the roles: they registered what a reload changes
	if slices.ContainsFunc(names, func(role string) bool { return role == RoleConductor || role == RolePromoter || role == RoleAPI }) {
		roles = append(roles, s.sweepMirrors(o.Log))
	}
	if slices.ContainsFunc(names, func(role string) bool { return role != RoleAPI }) {
		roles = append(roles, s.outdating())
	}
	if !slices.Contains(names, RoleAPI) { // the API serves metrics and health itself
		operations, err := s.operationsRole(ctx, o, names)
		if err != nil {
			return nil, err
		}
		roles = append(roles, operations)
	}
	return roles, nil
}

// Roles makes the named roles on a session's log. The order is that of starting: those that others rely on first.
func (s *Session) Roles(ctx context.Context, o RoleOptions, names ...string) ([]lifecycle.Role, error) {
	if err := s.takeOver(ctx); err != nil {
		return nil, err
	}
	o.ledger = s.metrics
	o.ledger.Register(o.registerer())
	s.hosts.SSH.Metrics().Register(o.registerer())
	s.git.count().Register(o.registerer())
	s.Ledger.UpdateReport(func(r *queue.Report) { r.Roles = slices.Clone(names) })
	if err := s.prepare(ctx, o, names); err != nil {
		return nil, err
	}
	var roles []lifecycle.Role
	if s.Kind == shared {
		roles = append(roles, lifecycle.Role{Name: "blobs", Run: func(ctx context.Context) error { return s.reportBlobs(ctx, o.Log) }})
	}
	for _, name := range names {
		made, err := s.role(ctx, name, o)
		if err != nil {
			return nil, err
		}
		roles = append(roles, made...)
	}
	return append(roles, s.presence(o, names)...), nil
}

// role makes the named role, and what runs beside it.
func (s *Session) role(ctx context.Context, name string, o RoleOptions) ([]lifecycle.Role, error) {
	run := func(f func(context.Context) error) ([]lifecycle.Role, error) {
		return []lifecycle.Role{{Name: name, Run: f}}, nil
	}
	switch name {
	case RoleConductor:
		if s.Kind == shared {
			here, err := s.hostHome()
			if err != nil {
				return nil, err
			}
			s.Ledger.UpdateReport(func(r *queue.Report) { r.Home = &here })
		}
		c := s.conductor(o)
		s.serves = append(s.serves, c.Serve)
		return run(c.Run)
	case RoleDeployer:
		d := deployer.New(s.Ledger.NewWaiter(), deployer.Config{Instance: s.instance(), Blobs: s.archives(o.Log),
			Log: o.Log, Metrics: obs.NewDeployer(o.registerer(), o.MetricsPerPipeline)})
		return run(d.Run)
	case RoleCaboose:
		metrics := obs.NewCaboose(o.registerer())
		return run(func(ctx context.Context) error { return s.runCaboose(ctx, o, metrics) })
	case RolePromoter:
		promote, err := s.promoterRole(o)
		return []lifecycle.Role{promote}, err
	case RoleBroker:
		served, err := s.broker(ctx, o)
		return []lifecycle.Role{served}, err
	case RoleFlow:
		controls, ready, err := s.flowRole(o)
		if err != nil {
			return nil, err
		}
		s.service.AddReadiness(ready)
		return []lifecycle.Role{controls}, nil
	case RoleProvisioner, RoleAggregator, RoleWatchdog:
		built, err := s.builderRole(ctx, name, o)
		return []lifecycle.Role{built}, err
	case RoleAPI:
		err := s.listen(ctx, o)
		return []lifecycle.Role{{Name: name, Run: s.serveAPI}, {Name: "observer", Run: s.observe(o)}}, err
	default:
		return nil, fault.New(fault.Internal, "role %q not found", name)
	}
}

// takeOver takes over the log from former processes, and reads its id.
func (s *Session) takeOver(ctx context.Context) error {
	if err := s.Ledger.TakeOver(ctx); err != nil {
		return err
	}
	id, err := s.Ledger.ID(ctx)
	s.ledgerID = id.String()
	return err
}

// presence makes the role that keeps those of the named roles registered that claim nothing; none if all do. A
// caboose joins on its own while it has handlers; that it runs is in the report of any instance of the process.
func (s *Session) presence(o RoleOptions, names []string) []lifecycle.Role {
	claimless := []string{RoleAPI, RoleProvisioner, RoleWatchdog, RoleBroker, RoleFlow}
	if s.Kind != shared { // where an aggregator joins on its own, to share the workers
		claimless = append(claimless, RoleAggregator)
	}
	claimless = slices.DeleteFunc(claimless, func(name string) bool { return !slices.Contains(names, name) })
	onlyCaboose := !slices.ContainsFunc(names, func(name string) bool { return name != RoleCaboose })
	if len(claimless) == 0 && !onlyCaboose {
		return nil
	}
	return []lifecycle.Role{{Name: "presence", Run: s.present(o.Log, claimless...)}}
}

// archives returns where the deployer stores the entries of ended deployments; nil if other processes on the ledger would not
// find them there. The home of one process may be gone with its machine, and its backup is not that of the ledger.
func (s *Session) archives(log *slog.Logger) blob.Putter {
	private := s.PrivateBlobs()
	if private == "" {
		return s.blobs
	}
	if log != nil {
		log.Warn("no deployment is archived: set blob.url to a store that all processes reach", obs.KeyURL, private)
	}
	return nil
}

// How long the blob store may take to give its id, and how long until the next request.
const (
	identityWait  = 10 * time.Second
	identityPause = 30 * time.Second
)

// reportBlobs reports where this process keeps blobs, so that the status finds processes that cannot read each
// other's. A store that does not answer gets a new request: the process starts without it. It returns when ctx ends.
func (s *Session) reportBlobs(ctx context.Context, log *slog.Logger) error {
	id, err := s.blobIdentity(ctx)
	for ; err != nil && ctx.Err() == nil; id, err = s.blobIdentity(ctx) {
		if log != nil {
			log.Warn("the blob store does not answer", obs.Error(err))
		}
		loop.Pause(ctx, identityPause)
	}
	if err == nil {
		s.Ledger.UpdateReport(func(r *queue.Report) { r.Blobs = &queue.BlobStore{ID: id, URL: s.blobURL()} })
	}
	<-ctx.Done()
	return nil
}

func (s *Session) blobIdentity(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, identityWait, fmt.Errorf("the blob store did not answer within %s", identityWait))
	defer cancel()
	return blob.Identity(ctx, s.blobs)
}

// present returns a function that keeps roles registered which claim nothing, so that the status shows them.
func (s *Session) present(log *slog.Logger, roles ...string) func(context.Context) error {
	identity := s.instance()
	identity.Roles = roles
	return func(ctx context.Context) error {
		return queue.Present(ctx, s.Ledger, queue.Presence{Identity: identity, Log: log})
	}
}

// observe returns a function that observes the services of hosts for the views of this process.
func (s *Session) observe(o RoleOptions) func(context.Context) error {
	metrics := obs.NewObserver(o.registerer(), service.ServiceStates()...)
	return func(ctx context.Context) error { return s.service.Observe(ctx, metrics, o.Log) }
}

// conductor returns a conductor for the handlers of the configuration in force.
func (s *Session) conductor(o RoleOptions) *conductor.Conductor {
	now := s.handlers.Load()
	log := keeper{s.Ledger.NewWaiter(), s.blobs, s.Live.Now().Ledger.Retention, s.Live.Now().Ledger.LogRetention}
	c := conductor.New(log, conductor.Config{
		Instance: s.instance(), Handlers: now.table.Handlers, Blobs: s.blobs, Limits: now.table.Limits,
		Workers: s.Live.Now().Conductors[s.serving].Workers, Drain: o.Drain,
		TurnRows: s.Live.Now().Conductors[s.serving].TurnRows, NotifyWait: s.Live.Now().Conductors[s.serving].NotifyWait,
		Log: o.Log, Metrics: obs.NewConductor(o.registerer()), Ledger: o.ledger, Tracing: o.Tracing, LedgerID: s.ledgerID,
	})
	c.Serve(now.table)
	return c
}

// builtIn returns the handlers that no file describes, by the name that actions carry.
func (s *Session) builtIn(log *slog.Logger) (map[string]conductor.Handler, error) {
	config := step.Config{Hosts: *s.hosts, Ledger: s.Ledger, Blobs: s.blobs, LedgerID: s.ledgerID, Log: log,
		Evidence: evidence.Archive{Blobs: s.blobs, Log: log}}
	if s.Kind == shared { // others have homes of their own, and hosts in them
		here, err := s.hostHome()
		if err != nil {
			return nil, err
		}
		config.Homes, config.Here = s.Ledger, here
	}
	program, err := s.program()
	if err != nil {
		return nil, err
	}
	workers, err := s.workers(log)
	if err != nil {
		return nil, err
	}
	builds := handler.New(handler.Config{Builds: s.Home.Builds(), Program: program, Ledger: s.Ledger, Blobs: s.blobs,
		Workers: workers, Log: log})
	steps := step.New(config)
	handlers := map[string]conductor.Handler{"noop": noop.Handler{}, "step": steps,
		step.RestartHandler: step.Restarter{Steps: steps}, "build": builds, "gate": gate.Handler{Ledger: s.Ledger, Blobs: s.blobs}}
	if s.Kind == Embedded { // on a shared log others have homes of their own: waybill pipeline stop does it itself
		handlers[step.StopHandler] = step.Stopper{Home: s.Home.Dir, LedgerID: s.ledgerID, Log: s.Ledger}
	}
	return handlers, nil
}

// hostHome returns this process's home as other processes on the ledger know it.
func (s *Session) hostHome() (queue.HostHome, error) {
	id, err := s.Home.identity(func(string) error { return nil })
	if err != nil {
		return queue.HostHome{}, fmt.Errorf("name the home: %w", err)
	}
	place, err := step.Place(s.Home.Dir)
	return queue.HostHome{ID: id, Place: place}, err
}

// listen makes the API and takes its port, so that a port in use is an error before anything runs.
func (s *Session) listen(ctx context.Context, o RoleOptions) (err error) {
	s.API, err = s.server(o, server.Options{Listen: o.Listen, Pages: s.pages(), Tracing: o.Tracing, Metrics: obs.NewServer(o.registerer())})
	if err != nil {
		return err
	}
	return s.API.Listen(ctx)
}

// server makes an HTTP server of this instance; it listens at the configured address, unless more names another.
func (s *Session) server(o RoleOptions, more server.Options) (*server.Server, error) {
	token, err := server.HomeToken(s.Home.Token())
	if err != nil {
		return nil, err
	}
	if more.Listen == "" {
		more.Listen = s.Live.Now().Server.Listen
	}
	more.URL, more.Token, more.Version, more.Gatherer, more.Log = s.Live.Now().Server.URL, token, s.place.Version, o.Registry, o.Log
	return server.New(s.service, more), nil
}

// operationsAddress returns where an instance without the role api serves metrics and health. The address of the configuration is the
// API's, which may be started later on the same machine. So without --listen it is a free port of the same host.
func (s *Session) operationsAddress(o RoleOptions) string {
	if host, _, err := net.SplitHostPort(s.Live.Now().Server.Listen); o.Listen == "" && err == nil {
		return net.JoinHostPort(host, "0")
	}
	return o.Listen
}

// operationsRole serves metrics and health for an instance without the role api.
func (s *Session) operationsRole(ctx context.Context, o RoleOptions, names []string) (lifecycle.Role, error) {
	made, err := s.server(o, server.Options{Listen: s.operationsAddress(o), OperationsOnly: true})
	if err != nil {
		return lifecycle.Role{}, err
	}
	if err := made.Listen(ctx); err != nil {
		return lifecycle.Role{}, err
	}
	if slices.Equal(names, []string{RoleBroker}) { // it serves its catalog without the ledger, and answers 503 to the rest
		s.service.ReadyWithoutLedger()
	}
	o.Log.Info("metrics and health are served", obs.KeyURL, made.URL(), obs.KeyRoles, strings.Join(names, " "))
	return lifecycle.Role{Name: "operations", Run: made.Run}, nil
}

// serveAPI runs the API, and notes its address in the home in the meantime: commands send the home's token there.
func (s *Session) serveAPI(ctx context.Context) error {
	if err := os.WriteFile(s.Home.address(), []byte(s.API.URL()+"\n"), 0o600); err != nil {
		return fmt.Errorf("note the API's address: %w", err)
	}
	defer func() { _ = os.Remove(s.Home.address()) }() // another process of the same home may have taken it away
	return s.API.Run(ctx)
}

// pages returns the handler of the web pages and the job API.
func (s *Session) pages() http.Handler {
	return ogc.New(ogc.Config{Service: s.service, Pages: web.New(s.service), Version: s.place.Version})
}

// instance returns this process's name in the log.
func (s *Session) instance() queue.Instance {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return queue.Instance{Name: fmt.Sprintf("%s/%d", name, os.Getpid()), Version: s.place.Version,
		Heartbeat: s.Live.Now().Ledger.Heartbeat}
}
