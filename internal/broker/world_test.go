package broker_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
)

// handlersFile configures the handlers of the tests. The conductor has a script for them, and runs no command.
const handlersFile = `
handlers:
  make: &handler
    type: shell
    backoff: {retries: 1, initial: 1h}
    parameters: {service: {type: object}, size: {type: integer, default: 1}, data: {type: string, default: ""}}
    command: {argv: ["true"]}
  change: *handler
  remove:
    type: shell
    parameters: {service: {type: object}}
    command: {argv: ["true"]}
`

// catalogFile is the catalog of the tests. The plan fixed has neither updates nor bindings, and the plan crate no schema.
const catalogFile = `
services:
  - id: folder
    name: folder
    description: A folder
    bindable: true
    plan_updateable: true
    tags: [files]
    plans:
      - id: small
        name: small
        description: A small folder
        maintenance_info: {version: 1.0.0, description: the first}
        handlers: {provision: make, update: change, deprovision: remove}
        credentials: {path: /folders, size: "${parameters.size}"}
        maximum_polling_duration: 600
        schemas: &schemas
          service_instance:
            create:
              parameters:
                $schema: "http://json-schema.org/draft-07/schema#"
                type: object
                properties: {size: {type: integer, maximum: 100}, data: {type: string}}
                additionalProperties: false
          service_binding:
            create: {parameters: {$schema: "http://json-schema.org/draft-07/schema#", type: object, properties: {role: {type: string}}}}
      - id: large
        name: large
        description: A large folder
        maintenance_info: {version: 2.0.0}
        handlers: {provision: make, update: change, deprovision: remove}
        credentials: {path: /folders, size: "${parameters.size}"}
        schemas: *schemas
      - id: fixed
        name: fixed
        description: A folder that cannot be changed
        plan_updateable: false
        bindable: false
        handlers: {provision: make, deprovision: remove}
  - id: box
    name: box
    description: A box
    plans:
      - id: crate
        name: crate
        description: A crate of anything
        handlers: {provision: make, update: change, deprovision: remove}
`

// opener opens an empty log.
type opener func(t testing.TB) *ledger.Ledger

// flowCatalog is a catalog with plans that are flows.
const flowCatalog = catalogFile + `
  - id: events
    name: events
    description: Events of the shop
    plan_updateable: true
    plans:
      - id: plain
        name: plain
        description: Events that reach the Broker
        bindable: true
        flow: {source: {application: commerce}, waitForReady: true}
      - id: tuned
        name: tuned
        description: Events with other retries
        flow: {source: {application: commerce}, delivery: {retry: 3}}
  - id: fixed
    name: fixed
    description: Events in one namespace
    plans:
      - id: central
        name: central
        description: Events of one namespace
        flow: {source: {application: "${parameters.application}"}, namespace: central}
        schemas: {service_instance: {create: {parameters: {$schema: "http://json-schema.org/draft-07/schema#", type: object}}}}
`

// newCluster returns a cluster without flows.
func newCluster(t testing.TB) *kubetest.API {
	return kubetest.New(t, kubetest.Kind{GroupVersionResource: v1alpha1.Resource(), Kind: v1alpha1.Kind, Status: true})
}

// stores returns the databases of the tests by name.
func stores() map[string]opener {
	all := map[string]opener{"sqlite": openSQLite}
	maps.Copy(all, sharedStores)
	return all
}

func openSQLite(t testing.TB) *ledger.Ledger {
	return ledger.New(sqlitetest.Open(t, filepath.Join(t.TempDir(), "waybill.db")), ledger.Options{})
}

// onEach runs a test with a world on each database.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, open))
		})
	}
}

// world is a broker on a server, with a conductor whose attempts the test ends.
type world struct {
	t            testing.TB
	ledger       *ledger.Ledger
	blobs        blob.Store
	away         *gate
	api          *kubetest.API // cluster of the flows
	catalog      *broker.Catalog
	file         string // the catalog's
	metrics      *obs.Broker
	server       *httptest.Server
	broker       atomic.Pointer[broker.Broker]
	applications broker.Applications
	script       *script
	users        atomic.Pointer[map[string]broker.User]
	handlers     atomic.Pointer[map[string]broker.Handler]
	tombstone    atomic.Int64 // nanoseconds
	requests     atomic.Int64 // makes request identities
	pages        atomic.Value // string: address of the pages; not set: none
	sources      atomic.Int64 // each request comes from an address of its own; 0: all come from one
}

// The users of the tests, with their passwords.
const (
	user, password           = "platform", "secret"
	otherUser, otherPassword = "other", "geheim: ü"
)

func digest(password string) [sha256.Size]byte { return sha256.Sum256([]byte(password)) }

// start serves a broker on a log, with a conductor, until the test ends.
func start(t testing.TB, open opener) *world {
	t.Helper()
	w := serve(t, open)
	w.conduct()
	return w
}

// serve serves a broker on a log until the test ends. No operation begins.
func serve(t testing.TB, open opener) *world {
	t.Helper()
	dir, l := t.TempDir(), open(t)
	blobs, err := blob.Open(t.Context(), filepath.Join(dir, "blobs"))
	check(t, err)
	w := &world{t: t, ledger: l, blobs: blobs, away: &gate{Ledger: l}, api: newCluster(t), file: filepath.Join(dir, "catalog.yaml"), script: newScript()}
	w.tombstone.Store(int64(time.Hour))
	w.users.Store(&map[string]broker.User{user: {Passwords: [][sha256.Size]byte{digest(password)}},
		otherUser: {Passwords: [][sha256.Size]byte{digest("former"), digest(otherPassword)}}})
	w.setHandlers(handlersFile)
	check(t, os.WriteFile(w.file, []byte(catalogFile), 0o600))
	w.catalog, err = broker.OpenCatalog(w.file, w.offer)
	check(t, err)
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n := w.sources.Load(); n > 0 {
			r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1", n/256, n%256)
			w.sources.Add(1)
		}
		w.broker.Load().ServeHTTP(rw, r)
	}))
	w.serveBroker()
	t.Cleanup(func() {
		w.server.Close()
		check(t, l.Close())
	})
	return w
}

// serveBroker serves a broker with the world's catalog from now on.
func (w *world) serveBroker() {
	w.broker.Store(broker.New(broker.Config{Ledger: w.away, Rows: w.ledger, Blobs: w.blobs, Catalog: w.catalog, Handlers: w.handlersNow,
		Flows: broker.NewFlows(w.api), Applications: w.applications, Metrics: w.metrics,
		Users: func() map[string]broker.User { return *w.users.Load() },
		Pages: func() string {
			pages, _ := w.pages.Load().(string)
			return pages
		},
		Tombstone: func() time.Duration { return time.Duration(w.tombstone.Load()) }, Log: slog.New(slog.DiscardHandler)}))
}

// count counts in a registry from now on.
func (w *world) count(registry *prometheus.Registry) {
	w.metrics = obs.NewBroker(registry)
	w.serveBroker()
}

// conduct runs a conductor until the test ends.
func (w *world) conduct() {
	c := conductor.New(w.ledger.NewWaiter(), conductor.Config{Instance: queue.Instance{Name: "conductor"}, Blobs: w.blobs,
		Handlers: map[string]conductor.Handler{"make": w.script, "change": w.script, "remove": w.script, "eventflow": w.script}})
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
		if w.script.overlaps > 0 {
			w.t.Errorf("%d attempts ran at the same time as one for the same service instance", w.script.overlaps)
		}
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// setHandlers puts the handlers of a file in force.
func (w *world) setHandlers(file string) {
	w.t.Helper()
	c, err := config.Read("server.yaml", []byte(file))
	check(w.t, err)
	handlers := map[string]broker.Handler{}
	for name, h := range c.Handlers {
		handlers[name] = broker.Handler{Parameters: append([]string{}, h.Parameters.Names()...), Prepare: h.Prepare}
	}
	w.handlers.Store(&handlers)
}

func (w *world) offer() broker.Offer { return broker.Offer{Handlers: w.handlersNow(), Flows: true} }

func (w *world) handlersNow() map[string]broker.Handler { return *w.handlers.Load() }

// gate is the log as the broker reaches it. While it is shut the log is away.
type gate struct {
	broker.Ledger
	failing string // service instance whose decisions cannot be stored
	mu      sync.Mutex
	shut    error
}

func (g *gate) set(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = err
}

func (g *gate) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

func (g *gate) Now(ctx context.Context) (time.Time, error) {
	if err := g.err(); err != nil {
		return time.Time{}, err
	}
	return g.Ledger.Now(ctx)
}

func (g *gate) Action(ctx context.Context, id action.ID) (queue.ActionState, error) {
	if err := g.err(); err != nil {
		return queue.ActionState{}, err
	}
	return g.Ledger.Action(ctx, id)
}

func (g *gate) Actions(ctx context.Context, query queue.ActionQuery) ([]queue.ActionState, error) {
	if err := g.err(); err != nil {
		return nil, err
	}
	return g.Ledger.Actions(ctx, query)
}

func (g *gate) Service(ctx context.Context, key ledger.ServiceKey) (ledger.ServiceState, error) {
	if err := g.err(); err != nil {
		return ledger.ServiceState{}, err
	}
	return g.Ledger.Service(ctx, key)
}

// Operate loses the transaction after the decision, which is the worst moment.
func (g *gate) Operate(ctx context.Context, key ledger.ServiceKey, decide func(ledger.ServiceState) (ledger.ServiceChange, error)) error {
	if g.failing != "" && g.failing == key.Instance {
		return errors.New("the row cannot be locked")
	}
	return g.Ledger.Operate(ctx, key, func(state ledger.ServiceState) (ledger.ServiceChange, error) {
		change, err := decide(state)
		if away := g.err(); away != nil {
			return change, away
		}
		return change, err
	})
}
