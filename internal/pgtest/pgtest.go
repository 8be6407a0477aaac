package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable names the environment variable with the address of a run's shared server, which
// `go run ./test/postgres -- COMMAND` sets.
const Variable = "WAYBILL_TEST_POSTGRES"

// unsynced is the setting of servers for tests: what is committed must outlive processes, not the machine.
const unsynced = "fsync=off"

// shared is the server of this test binary, where none was given: started by
// the first test that asks and stopped after the last one.
var shared struct {
	sync.Mutex
	server *Server
	users  int
}

// databases numbers the databases of this process.
var databases atomic.Int64

// URL returns the address of an empty database for the test, which is dropped at the test's end.
func URL(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		server = acquire(t)
	}
	return create(t, server, "")
}

// Copy returns the address of a copy of a database to which nothing is connected. The copy is dropped at the test's end.
func Copy(t testing.TB, database string) string {
	t.Helper()
	server, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(server.Path, "/")
	server.Path = "/postgres"
	return create(t, server.String(), " TEMPLATE "+name)
}

// create makes a database on a server until the test ends, and returns its address.
func create(t testing.TB, server, from string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	administer(t, server, "CREATE DATABASE "+name+from)
	t.Cleanup(func() { administer(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	address, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	address.Path = "/" + name
	return address.String()
}

// Own returns a server that only the test uses, so that it may stop or kill it.
func Own(t testing.TB) *Server {
	t.Helper()
	server, err := Start(t.Context(), unsynced)
	return owned(t, server, err)
}

// Standby starts a hot standby of a server. Promote makes it a primary.
func Standby(t testing.TB, primary *Server) *Server {
	t.Helper()
	server, err := primary.standby(t.Context())
	return owned(t, server, err)
}

// owned returns a server that ends with the test.
func owned(t testing.TB, server *Server, err error) *Server {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Kill() // an error reports that it has ended already
		if err := server.Remove(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// acquire gives the test a share of the binary's server.
func acquire(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.users == 0 {
		server, err := Start(context.WithoutCancel(t.Context()), unsynced)
		if err != nil {
			t.Fatal(err)
		}
		shared.server = server
	}
	shared.users++
	t.Cleanup(release)
	return shared.server.URL()
}

func release() {
	shared.Lock()
	defer shared.Unlock()
	if shared.users--; shared.users > 0 {
		return
	}
	_ = shared.server.Kill()
	_ = shared.server.Remove()
	shared.server = nil
}

// administer runs one statement on the server's own database.
func administer(t testing.TB, server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	defer cancel()
	db, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("no PostgreSQL for the test: %v", err)
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}
