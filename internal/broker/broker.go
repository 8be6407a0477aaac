package broker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Config configures a Broker. Functions return the configuration in force, and are safe for concurrent use.
type Config struct {
	Ledger       Ledger
	Rows         Rows // read by Audit
	Blobs        blob.Store
	Catalog      *Catalog
	Users        func() map[string]User
	Handlers     func() map[string]Handler
	Pages        func() string        // address before /service-instances/ID, the dashboard of a service instance; "": none. nil: none
	Flows        *Flows               // nil: server.yaml names no cluster, and no service instance is a flow
	Applications Applications         // nil: the catalogs of namespaces are empty
	Tombstone    func() time.Duration // time for which the end of a deletion is reported; then the service instance is gone
	Log          *slog.Logger
	Metrics      *obs.Broker // nil: nothing is counted
}

// Ledger is the log with service instances; ledger.Ledger is one.
type Ledger interface {
	Now(ctx context.Context) (time.Time, error)
	Action(ctx context.Context, id action.ID) (queue.ActionState, error)
	Actions(ctx context.Context, query queue.ActionQuery) ([]queue.ActionState, error)
	Service(ctx context.Context, key ledger.ServiceKey) (ledger.ServiceState, error)
	Operate(ctx context.Context, key ledger.ServiceKey, decide func(ledger.ServiceState) (ledger.ServiceChange, error)) error
}

// Rows is the log as an audit reads it; ledger.Ledger is one.
type Rows interface {
	ID(ctx context.Context) (action.ID, error)
	ServicePage(ctx context.Context, after string, limit int) ([]ledger.ServiceState, error)
}

// User is a platform that may use the broker.
type User struct {
	Passwords  [][sha256.Size]byte // digests; several for rotation
	Namespaces []string            // where its flows may be; nil: everywhere
}

// Offer holds the parts of server.yaml that the plans of a catalog need.
type Offer struct {
	Handlers map[string]Handler
	Flows    bool // there is a cluster with EventFlows
}

// Handler does the operations of plans that name it.
type Handler struct {
	Parameters []string // names in its schema; nil: it takes any
	Prepare    func(parameters json.RawMessage) (action.Action, error)
}

// Applications has the catalogs of namespaces; ApplicationCatalogs is one.
type Applications interface {
	// Catalog returns the catalog of a namespace. Its error is why there is none at present.
	Catalog(namespace string) (*osb.Catalog, error)
}

// Broker serves the API.
type Broker struct {
	Config
	routes   *http.ServeMux
	failures *listener.Sources // sources of requests without a right password
}

// New returns a broker.
func New(c Config) *Broker {
	b := &Broker{Config: c, failures: listener.NewSources()}
	b.routes = b.register()
	return b
}

// subject returns a service instance as package osb decides about it for a user's request.
func (b *Broker) subject(user string, key ledger.ServiceKey, state ledger.ServiceState) (osb.Subject, error) {
	s, err := subjectOf(user, state)
	if b.Pages != nil {
		if pages := b.Pages(); pages != "" {
			s.Dashboard = strings.TrimSuffix(pages, "/") + "/service-instances/" + url.PathEscape(key.Instance)
		}
	}
	return s, err
}
