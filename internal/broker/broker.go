package broker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Config configures a Broker. Functions return the configuration in force, and are safe for concurrent use.
type Config struct {
	Ledger    Ledger
	Blobs     blob.Store
	Catalog   *Catalog
	Users     func() map[string]User
	Handlers  func() map[string]Handler
	Tombstone func() time.Duration // time for which the end of a deletion is reported; then the service instance is gone
	Log       *slog.Logger
	Metrics   *obs.Broker // nil: nothing is counted
}

// Ledger is the log with service instances; ledger.Ledger is one.
type Ledger interface {
	Now(ctx context.Context) (time.Time, error)
	Action(ctx context.Context, id action.ID) (queue.ActionState, error)
	Actions(ctx context.Context, query queue.ActionQuery) ([]queue.ActionState, error)
	Service(ctx context.Context, key ledger.ServiceKey) (ledger.ServiceState, error)
	Operate(ctx context.Context, key ledger.ServiceKey, decide func(ledger.ServiceState) (ledger.ServiceChange, error)) error
}

// User is a platform that may use the broker.
type User struct {
	Passwords [][sha256.Size]byte // digests; several for rotation
}

// Handler does the operations of plans that name it.
type Handler struct {
	Parameters []string // names in its schema; nil: it takes any
	Prepare    func(parameters json.RawMessage) (action.Action, error)
}

// Broker serves the API.
type Broker struct {
	Config
	routes *http.ServeMux
}

// New returns a broker.
func New(c Config) *Broker {
	b := &Broker{Config: c}
	b.routes = b.register()
	return b
}
