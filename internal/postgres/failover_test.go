//go:build services

package postgres_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// name is a host name: it forwards new connections to the server that it names now. Older ones stay.
type name struct {
	net.Listener
	server atomic.Pointer[pgtest.Server]
}

func newName(t *testing.T, server *pgtest.Server) *name {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &name{Listener: listener}
	n.server.Store(server)
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", n.server.Load().Address())
			if err != nil {
				_ = here.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{here, there}, {there, here}} {
				ended.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() { _ = listener.Close(); ended.Wait() })
	return n
}

// TestConnectionsFollowAPromotedStandby: a failover promotes a standby, and the former primary turns read-only without
// ending a connection. Every use of the database works on the new primary at its next try, whether the URL names both hosts or one
// name that has moved.
func TestConnectionsFollowAPromotedStandby(t *testing.T) {
	t.Parallel()
	primary := pgtest.Own(t)
	standby := pgtest.Standby(t, primary)
	moving := newName(t, primary)
	both := "postgres://postgres@" + primary.Address() + "," + standby.Address() + "/postgres"
	drivers := map[string]*postgres.Driver{
		"both hosts":        open(t, both),
		"standby first":     open(t, "postgres://postgres@"+standby.Address()+","+primary.Address()+"/postgres"),
		"a name that moved": open(t, "postgres://postgres@"+moving.Addr().String()+"/postgres?sslmode=disable"),
	}
	selves := map[string]queue.Instance{}
	for what, d := range drivers {
		use(t, what+", before", d)
		d.Listen(func(store.Signal) {})
		self := queue.Instance{ID: action.RandomID(time.Now()), Name: what, Roles: []string{"conductor"}}
		if key, err := d.Guard(t.Context(), self.ID); err != nil || key == 0 {
			t.Fatalf("%s: guard %d, %v", what, key, err)
		}
		join := func(r store.Rows) error {
			rows, _, _ := d.QueueRows(r)
			return rows.PutInstance(self, time.Hour, 0)
		}
		if err := d.Write(t.Context(), store.ForQueue, join); err != nil {
			t.Fatal(err)
		}
		selves[what] = self
	}
	awaitReplay(t, primary, standby)
	if err := primary.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	moving.server.Store(standby)
	execute(t, standby.URL(), "CREATE TABLE moved ()")
	for what, d := range drivers {
		if beat, err := d.Pulse(t.Context(), selves[what], time.Hour); err != nil || !beat.There {
			t.Errorf("%s: pulse: %+v, %v", what, beat, err)
		}
		use(t, what+", after", d)
		for range 2 { // the first may yet be answered by the former primary
			if err := d.Read(t.Context(), store.ForReaders, moved); err == nil {
				break
			}
		}
		if err := d.Read(t.Context(), store.ForReaders, moved); err != nil {
			t.Errorf("%s: a reader still reads the former primary: %v", what, err)
		}
		for !d.Guarded() || !listens(t, standby, d) {
			if t.Context().Err() != nil {
				t.Fatal("no listener on the new primary")
			}
		}
	}
}

func moved(r store.Rows) error { return postgres.Ask(r, "SELECT FROM moved") }

// use writes by way of each use of a database.
func use(t *testing.T, when string, d *postgres.Driver) {
	t.Helper()
	for _, u := range []store.Use{store.ForQueue, store.ForTurns, store.ForReaders} {
		probe := func(r store.Rows) error {
			_, err := r.Probe()
			return err
		}
		if err := d.Write(t.Context(), u, probe); err != nil {
			t.Errorf("%s: write for use %d: %v", when, u, err)
		}
		if err := d.Write(t.Context(), u, func(r store.Rows) error { return postgres.Ask(r, "UPDATE meta SET schema = schema") }); err != nil {
			t.Errorf("%s: update for use %d: %v", when, u, err)
		}
	}
}

// listens reports whether the driver's listener is connected to a server.
func listens(t *testing.T, server *pgtest.Server, d *postgres.Driver) (yes bool) {
	t.Helper()
	err := connect(t, server.URL()).QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND application_name = $1) FROM pg_sleep(0.05)`, d.ConnectionName()).Scan(&yes)
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

// awaitReplay returns when a standby has everything of its primary.
func awaitReplay(t *testing.T, primary, standby *pgtest.Server) {
	t.Helper()
	var end string
	if err := connect(t, primary.URL()).QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&end); err != nil {
		t.Fatal(err)
	}
	follower := connect(t, standby.URL())
	for reached := false; !reached; {
		if err := follower.QueryRow(t.Context(), "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn FROM pg_sleep(0.02)",
			end).Scan(&reached); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNotReadyWhileNoWriteWorks: a server that takes no writes answers reads, and the database is not ready.
func TestNotReadyWhileNoWriteWorks(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	db := store.New(open(t, server.URL()))
	if err := db.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, db, "takes no writes")
	if _, err := store.ID(t.Context(), db.For(store.ForReaders)); err != nil {
		t.Errorf("a read: %v", err)
	}
	if err := server.Unfence(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, db, "")
}

// awaitReady returns when the database's answer is this error; "": it is ready.
func awaitReady(t *testing.T, db *store.DB, want string) {
	t.Helper()
	for {
		err := db.Ready(t.Context())
		if want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want) &&
			fault.CodeOf(err) == fault.LedgerUnavailable {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("the answer stays %v, want %q", err, want)
		}
	}
}

// TestOfSeveralHostsOneTakesWrites: where none does, the error reports it.
func TestOfSeveralHostsOneTakesWrites(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	if err := server.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Open(t.Context(), "postgres://postgres@"+server.Address()+",127.0.0.1:1/postgres", postgres.Options{})
	if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "no PostgreSQL of the hosts in the URL takes writes") {
		t.Errorf("got %v", err)
	}
}
