package assembly

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
)

// homeUser is the user of the broker whose password is the home's token, so that a first use needs no configuration.
const homeUser = "waybill"

// broker makes the role that serves the Open Service Broker API, and takes its port.
func (s *Session) broker(ctx context.Context, o RoleOptions) (role lifecycle.Role, err error) {
	cfg := s.Live.Now().Broker
	if cfg == nil {
		return role, fault.New(fault.Invalid, "the role broker needs the section broker of server.yaml").
			WithHint("broker: {catalog: catalog.yaml}")
	}
	token, err := server.HomeToken(s.Home.Token())
	if err != nil {
		return role, err
	}
	log := obs.Component(cmp.Or(o.Log, slog.New(slog.DiscardHandler)), RoleBroker)
	flows, err := s.brokerFlows()
	if err != nil {
		return role, err
	}
	catalog, faults := broker.OpenCatalog(cfg.Catalog, s.brokerOffer)
	metrics, home := obs.NewBroker(o.registerer()), sha256.Sum256([]byte(token))
	if faults != nil { // the other roles of the process work all the same
		metrics.CatalogFailed()
		log.Error("the catalog has faults: the broker answers once they are corrected", obs.KeyFile, cfg.Catalog, obs.Error(faults))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return role, fault.New(fault.Unavailable, "listen for the service broker: %w", err).WithHint("broker: {listen: \"127.0.0.1:0\"}")
	}
	applications, err := s.applicationCatalogs(flows, catalog, broker.ApplicationConfig{Log: log, Metrics: metrics})
	if err != nil {
		return role, errors.Join(err, listener.Close())
	}
	rows := s.Ledger.ForReaders()
	served := broker.New(broker.Config{Ledger: rows, Rows: rows, Blobs: s.blobs, Catalog: catalog, Log: log,
		Flows: flows, Applications: applications, Handlers: func() map[string]broker.Handler { return s.brokerOffer().Handlers }, Metrics: metrics,
		Users: func() map[string]broker.User { return brokerUsers(s.Live.Now().Broker, home) },
		Pages: func() string {
			if at := s.Live.Now().Server.URL; at != nil {
				return at.String()
			}
			return ""
		},
		Tombstone: func() time.Duration {
			if now := s.Live.Now().Broker; now != nil {
				return now.Tombstone
			}
			return cfg.Tombstone
		}})
	url := "http://" + listener.Addr().String() + "/v2"
	report := func(err error) {
		s.reportBroker(queue.Broker{URL: url, Catalog: cfg.Catalog, Served: catalog.Ready() == nil}, err)
	}
	report(faults)
	s.service.AddReadiness(catalog.Ready)
	log.Info("the Open Service Broker API is served", obs.KeyURL, url)
	return lifecycle.Role{Name: RoleBroker, Run: func(ctx context.Context) error {
		own, cancel := context.WithCancel(ctx)
		var beside sync.WaitGroup
		beside.Go(func() { catalog.Watch(own, broker.Watcher{Log: log, Metrics: metrics, Report: report}) })
		beside.Go(func() { applications.Run(own) })
		beside.Go(func() { served.Audit(own) })
		err := served.Serve(ctx, listener)
		cancel()
		beside.Wait()
		return errors.Join(err)
	}}, nil
}

// reportBroker has the status show the broker, and the faults of its catalog; nil: it has none.
func (s *Session) reportBroker(now queue.Broker, faults error) {
	if faults != nil {
		now.TriedAt, now.Faults = time.Now().UTC(), strings.Split(faults.Error(), "\n")
	}
	s.Ledger.UpdateReport(func(r *queue.Report) { r.Broker = &now })
}

// brokerUsers returns the users of the configuration, and that of the home.
func brokerUsers(cfg *config.Broker, home [sha256.Size]byte) map[string]broker.User {
	users := map[string]broker.User{homeUser: {Passwords: [][sha256.Size]byte{home}}}
	if cfg == nil {
		return users
	}
	for name, u := range cfg.Users {
		users[name] = broker.User{Passwords: slices.Concat(users[name].Passwords, u.Passwords), Namespaces: u.Namespaces}
	}
	return users
}

// brokerOffer returns the parts of the configuration in force that plans need.
func (s *Session) brokerOffer() broker.Offer { return BrokerOffer(s.Live.Now()) }

// BrokerOffer returns the parts of a configuration that plans need: handlers, those of server.yaml and noop, and a cluster.
func BrokerOffer(c *config.Config) broker.Offer {
	offer := broker.Offer{Handlers: map[string]broker.Handler{}, Flows: c.Flow != nil}
	for name, prepare := range orderable(c) {
		h := broker.Handler{Prepare: prepare}
		if described, ok := c.Handlers[name]; ok {
			h.Parameters = append([]string{}, described.Parameters.Names()...)
		}
		offer.Handlers[name] = h
	}
	return offer
}

// brokerFlows opens the cluster of the service instances that are flows; nil without the section flow, also inside a cluster: no
// conductor has the handler of their operations then. The cluster is that of the start.
func (s *Session) brokerFlows() (*broker.Flows, error) {
	cfg := s.Live.Now().Flow
	if cfg == nil {
		return nil, nil
	}
	cluster, err := openFlowCluster(*cfg)
	if err != nil {
		return nil, fault.New(fault.Invalid, "role broker: %w", err)
	}
	return broker.NewFlows(cluster), nil
}

// applicationCatalogs returns the catalogs of the namespaces of a cluster; without a cluster they are empty.
func (s *Session) applicationCatalogs(flows *broker.Flows, file *broker.Catalog, c broker.ApplicationConfig) (*broker.ApplicationCatalogs, error) {
	c.File, c.Layout = file.Now, func() osb.Layout { return "" }
	if flows != nil {
		c.Cluster, c.Layout = flows.Cluster, func() osb.Layout {
			if now := s.Live.Now().Broker; now != nil {
				return now.Layout
			}
			return ""
		}
	}
	return broker.NewApplicationCatalogs(c)
}
