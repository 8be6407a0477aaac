package assembly

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
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
	catalog, err := broker.OpenCatalog(cfg.Catalog, s.brokerHandlers)
	if err != nil { // the other roles of the process work all the same
		log.Error("the catalog has faults: the broker answers once they are corrected", obs.KeyFile, cfg.Catalog, obs.Error(err))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return role, fault.New(fault.Unavailable, "listen for the service broker: %w", err).WithHint("broker: {listen: \"127.0.0.1:0\"}")
	}
	metrics, home := obs.NewBroker(o.registerer()), sha256.Sum256([]byte(token))
	served := broker.New(broker.Config{Ledger: s.Ledger.ForReaders(), Blobs: s.blobs, Catalog: catalog, Handlers: s.brokerHandlers, Log: log, Metrics: metrics,
		Users: func() map[string]broker.User { return brokerUsers(s.Live.Now().Broker, home) },
		Tombstone: func() time.Duration {
			if now := s.Live.Now().Broker; now != nil {
				return now.Tombstone
			}
			return cfg.Tombstone
		}})
	log.Info("the Open Service Broker API is served", obs.KeyURL, "http://"+listener.Addr().String()+"/v2")
	return lifecycle.Role{Name: RoleBroker, Run: func(ctx context.Context) error {
		own, cancel := context.WithCancel(ctx)
		var beside sync.WaitGroup
		beside.Go(func() { catalog.Watch(own, log, metrics) })
		err := served.Serve(ctx, listener)
		cancel()
		beside.Wait()
		return errors.Join(err)
	}}, nil
}

// brokerUsers returns the users of the configuration, and that of the home.
func brokerUsers(cfg *config.Broker, home [sha256.Size]byte) map[string]broker.User {
	users := map[string]broker.User{homeUser: {Passwords: [][sha256.Size]byte{home}}}
	if cfg == nil {
		return users
	}
	for name, u := range cfg.Users {
		users[name] = broker.User{Passwords: slices.Concat(users[name].Passwords, u.Passwords)}
	}
	return users
}

// brokerHandlers returns the handlers that do the operations of plans: those of the configuration in force, and noop.
func (s *Session) brokerHandlers() map[string]broker.Handler { return BrokerHandlers(s.Live.Now()) }

// BrokerHandlers returns the handlers of a configuration that do the operations of plans.
func BrokerHandlers(c *config.Config) map[string]broker.Handler {
	handlers := map[string]broker.Handler{}
	for name, prepare := range orderable(c) {
		h := broker.Handler{Prepare: prepare}
		if described, ok := c.Handlers[name]; ok {
			h.Parameters = append([]string{}, described.Parameters.Names()...)
		}
		handlers[name] = h
	}
	return handlers
}
