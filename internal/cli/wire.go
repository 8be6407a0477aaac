package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/build"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/member"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/web"
)

// The roles that a process may have.
const (
	roleAPI       = "api"
	roleConductor = "conductor"
	roleDeployer  = "deployer"
	roleCaboose   = "caboose"
)

// roleOptions is how roles run in one process.
type roleOptions struct {
	drain    time.Duration // how long running attempts may go on at shutdown; 0: they are handed back at once
	log      *slog.Logger  // nil: nothing is logged
	registry *prometheus.Registry
	listen   string               // of the API; "": the configuration's
	ledger   *obs.Ledger          // its metrics
	tracing  trace.TracerProvider // where spans go; nil: nowhere
}

// registerer is where metrics go; an absent registry leaves them unregistered.
func (o roleOptions) registerer() prometheus.Registerer {
	if o.registry == nil {
		return nil
	}
	return o.registry
}

// roles makes the named roles on a session's log. The order is that of starting: those that others rely on first.
func (s *session) roles(ctx context.Context, o roleOptions, names ...string) ([]lifecycle.Role, error) {
	if err := s.ledger.TakeOver(ctx); err != nil {
		return nil, err
	}
	id, err := s.ledger.ID(ctx)
	if err != nil {
		return nil, err
	}
	s.ledgerID = id.String()
	o.ledger = obs.NewLedger(o.registerer())
	s.ledger.Measure(o.ledger)
	if err := s.prepare(ctx, o, names); err != nil {
		return nil, err
	}
	var roles []lifecycle.Role
	if s.kind == shared {
		roles = append(roles, lifecycle.Role{Name: "blobs", Run: func(ctx context.Context) error { return s.reportBlobs(ctx, o.log) }})
	}
	for _, name := range names {
		switch name {
		case roleConductor:
			if s.kind == shared {
				here, err := s.hostHome()
				if err != nil {
					return nil, err
				}
				s.ledger.UpdateReport(func(r *ledger.Report) { r.Home = &here })
			}
			c := s.conductor(o)
			s.serves = append(s.serves, c.Serve)
			roles = append(roles, lifecycle.Role{Name: name, Run: c.Run})
		case roleDeployer:
			d := deployer.New(s.ledger.Waiter(), deployer.Config{Instance: s.instance(), Log: o.log, Metrics: obs.NewDeployer(o.registerer())})
			roles = append(roles, lifecycle.Role{Name: name, Run: d.Run})
		case roleCaboose:
			metrics := obs.NewCaboose(o.registerer())
			roles = append(roles, lifecycle.Role{Name: name, Run: func(ctx context.Context) error { return s.runCaboose(ctx, o, metrics) }})
		case roleAPI:
			if err := s.listen(ctx, o); err != nil {
				return nil, err
			}
			roles = append(roles, lifecycle.Role{Name: name, Run: s.serveAPI}, lifecycle.Role{Name: "presence", Run: s.present(name, o.log)})
		default:
			return nil, fault.New(fault.Internal, "there is no role %q", name)
		}
	}
	return roles, nil
}

// How long the blob store may take to give its id, and how long until it is asked again.
const (
	identityWait  = 10 * time.Second
	identityPause = 30 * time.Second
)

// reportBlobs reports where this process keeps blobs, so that the status finds processes that cannot read each other's. A
// store that does not answer is asked again: the process starts without it. It returns when ctx ends.
func (s *session) reportBlobs(ctx context.Context, log *slog.Logger) error {
	id, err := s.blobIdentity(ctx)
	for ; err != nil && ctx.Err() == nil; id, err = s.blobIdentity(ctx) {
		if log != nil {
			log.Warn("the blob store does not answer", obs.Error(err))
		}
		member.Pause(ctx, identityPause)
	}
	if err == nil {
		s.ledger.UpdateReport(func(r *ledger.Report) { r.Blobs = &ledger.BlobStore{ID: id, URL: s.blobURL()} })
	}
	<-ctx.Done()
	return nil
}

func (s *session) blobIdentity(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, identityWait, fmt.Errorf("the blob store did not answer within %s", identityWait))
	defer cancel()
	return blob.Identity(ctx, s.blobs)
}

// present keeps a role registered that claims nothing, so that the status shows it.
func (s *session) present(role string, log *slog.Logger) func(context.Context) error {
	identity := s.instance()
	identity.Roles = []string{role}
	return func(ctx context.Context) error { return member.Present(ctx, s.ledger, identity, log) }
}

// conductor runs actions with every handler that exists.
func (s *session) conductor(o roleOptions) *conductor.Conductor {
	now := s.handlers.Load()
	log := keeper{s.ledger.Waiter(), s.blobs, s.live.Now().Ledger.Retention}
	c := conductor.New(log, conductor.Config{
		Instance: s.instance(), Handlers: now.table.Handlers, Blobs: s.blobs, Limits: now.table.Limits, Workers: s.live.Now().Conductors[s.serving].Workers, Drain: o.drain,
		TurnRows: s.live.Now().Conductors[s.serving].TurnRows, NotifyWait: s.live.Now().Conductors[s.serving].NotifyWait,
		Log: o.log, Metrics: obs.NewConductor(o.registerer()), Ledger: o.ledger, Tracing: o.tracing, LedgerID: s.ledgerID,
	})
	c.Serve(now.table)
	return c
}

// builtIn are the handlers that no file describes, by the name that actions carry.
func (s *session) builtIn(log *slog.Logger) (map[string]conductor.Handler, error) {
	config := step.Config{Home: s.home.dir, Dir: s.dir, Ledger: s.ledger, Blobs: s.blobs, LedgerID: s.ledgerID, Log: log}
	if s.kind == shared { // others have homes of their own, and hosts in them
		here, err := s.hostHome()
		if err != nil {
			return nil, err
		}
		config.Homes, config.Here = s.ledger, here
	}
	steps, err := step.New(config)
	if err != nil {
		return nil, fmt.Errorf("make the handler of steps: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to run builds with it: %w", err)
	}
	builds := build.New(build.Config{Builds: s.home.builds(), Program: []string{program}, Ledger: s.ledger, Blobs: s.blobs, Log: log})
	handlers := map[string]conductor.Handler{"noop": noop.Handler{}, "step": steps, "build": builds}
	if s.kind == embedded { // on a shared log others have homes of their own: waybill pipeline stop does it itself
		handlers[step.StopHandler] = step.Stopper{Home: s.home.dir, Log: s.ledger}
	}
	return handlers, nil
}

// hostHome is this process's home, as others on the same ledger know it.
func (s *session) hostHome() (ledger.HostHome, error) {
	id, err := s.home.identity()
	if err != nil {
		return ledger.HostHome{}, fmt.Errorf("name the home: %w", err)
	}
	place, err := step.Place(s.home.dir)
	return ledger.HostHome{ID: id, Place: place}, err
}

// listen makes the API and takes its port, so that a port in use is an error before anything runs.
func (s *session) listen(ctx context.Context, o roleOptions) (err error) {
	service := server.NewService(s.ledger.ForReaders(), s.blobs, s.offers())
	service.Retention = s.live.Now().Ledger.Retention
	service.LargestUpload = s.live.Now().Server.LargestUpload
	service.Inspect, service.Current, service.ReadLog = s.inspectHost, s.currentRelease, s.readServiceLog
	s.api, err = s.server(o, service, server.Options{Listen: o.listen, Pages: s.pages(service), Tracing: o.tracing, Builds: s.home.builds()})
	if err != nil {
		return err
	}
	return s.api.Listen(ctx)
}

// server makes an HTTP server of this instance; it listens where the configuration says, unless more says otherwise.
func (s *session) server(o roleOptions, service *server.Service, more server.Options) (*server.Server, error) {
	token, err := server.HomeToken(s.home.token())
	if err != nil {
		return nil, err
	}
	if more.Listen == "" {
		more.Listen = s.live.Now().Server.Listen
	}
	more.URL, more.Token, more.Version, more.Gatherer, more.Log = s.live.Now().Server.URL, token, s.place.version, o.registry, o.log
	return server.New(service, more), nil
}

// operationsRole serves metrics and health for an instance without the role api. Several instances may share a machine, so without
// --listen a port that is taken gives way to a free one of the same host.
func (s *session) operationsRole(ctx context.Context, o roleOptions) (lifecycle.Role, error) {
	service := server.NewService(s.ledger.ForReaders(), s.blobs, s.offers())
	made, err := s.server(o, service, server.Options{Listen: o.listen, OperationsOnly: true})
	if err != nil {
		return lifecycle.Role{}, err
	}
	err = made.Listen(ctx)
	if host, _, unsplit := net.SplitHostPort(s.live.Now().Server.Listen); fault.Is(err, fault.Unavailable) && o.listen == "" && unsplit == nil {
		if made, err = s.server(o, service, server.Options{Listen: net.JoinHostPort(host, "0"), OperationsOnly: true}); err == nil {
			err = made.Listen(ctx)
		}
	}
	if err != nil {
		return lifecycle.Role{}, err
	}
	o.log.Info("metrics and health are served", obs.KeyURL, made.URL())
	return lifecycle.Role{Name: "operations", Run: made.Run}, nil
}

// serveAPI runs the API, and notes its address in the home meanwhile: commands send the home's token there.
func (s *session) serveAPI(ctx context.Context) error {
	if err := os.WriteFile(s.home.address(), []byte(s.api.URL()+"\n"), 0o600); err != nil {
		return fmt.Errorf("note the API's address: %w", err)
	}
	defer func() { _ = os.Remove(s.home.address()) }() // another process of the same home may have taken it away
	return s.api.Run(ctx)
}

// pages is everything that people see, and the job API.
func (s *session) pages(service *server.Service) http.Handler {
	return ogc.New(ogc.Config{Service: service, Pages: web.New(service), Version: s.place.version})
}

// instance names this process for people.
func (s *session) instance() ledger.Instance {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return ledger.Instance{Name: fmt.Sprintf("%s/%d", name, os.Getpid()), Version: s.place.version,
		Heartbeat: s.live.Now().Ledger.Heartbeat}
}
