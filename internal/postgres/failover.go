package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A failover promotes a standby while the former primary may keep running: it only turns read-only, and ends no
// connection. So the connections themselves notice that their server is not the one that takes writes any more. They
// are closed, and the next ones are made to what the URL leads to by then: of several hosts the one that takes writes, or
// the address that the name has now.

// displaced reports whether an answer means that another server may take the place of the one that sent it: it is
// read-only, it ends, or it starts.
func displaced(answer *pgconn.PgError) bool {
	return slices.Contains([]string{"25006", "57P01", "57P02", "57P03", "57P04"}, answer.Code)
}

// refusesWrites reports whether an error is the answer of a server that is read-only.
func refusesWrites(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == "25006"
}

// readOnly reports whether a connection's server is a standby or begins transactions read-only. The server reports both
// after the first statement that follows the change. A pooler may not pass it on.
func readOnly(conn *pgconn.PgConn) bool {
	return conn.ParameterStatus("in_hot_standby") == "on" || conn.ParameterStatus("default_transaction_read_only") == "on"
}

// errReadOnly is the error of a connection to a server of several that takes no writes.
var errReadOnly = errors.New("the server takes no writes")

// preferWritable makes a configuration with several hosts pass over those that take no writes, unless its
// target_session_attrs names the kind of host.
func preferWritable(config *pgx.ConnConfig) {
	several := slices.ContainsFunc(config.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != config.Host || f.Port != config.Port
	})
	if !several || config.ValidateConnect != nil {
		return
	}
	config.ValidateConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		if readOnly(conn) {
			return errReadOnly
		}
		return nil
	}
}

// errNoWrites is the answer that a server gives to a write while it begins transactions read-only.
var errNoWrites = &pgconn.PgError{Severity: "ERROR", Code: "25006", Message: "transactions are read-only"}

// dropEvery is the least time between two droppings of all connections: while no server takes writes, reads make
// new connections no faster.
const dropEvery = time.Second

// failover drops all connections of a process once one has noticed that its server was displaced.
type failover struct {
	mu      sync.Mutex
	dropped time.Time
	drop    func() // nil: nothing is connected yet
}

// watch makes each connection of a configuration close when its server answers that it was displaced.
func (f *failover) watch(config *pgx.ConnConfig) {
	fatal := config.OnPgError
	config.OnPgError = func(conn *pgconn.PgConn, answer *pgconn.PgError) bool {
		if displaced(answer) {
			if refusesWrites(answer) {
				f.notice()
			}
			return false
		}
		return fatal(conn, answer)
	}
}

// notice drops all connections, unless that was done just now.
func (f *failover) notice() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drop == nil || time.Since(f.dropped) < dropEvery {
		return
	}
	f.dropped = time.Now()
	f.drop()
}

// begin sets what drops the connections, once they can be made.
func (f *failover) begin(drop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop = drop
}
