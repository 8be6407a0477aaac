//go:build services

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestDeadConnectionsThatCannotBeReplacedAreAnError: the server ends every connection and lets none be made.
func TestDeadConnectionsThatCannotBeReplacedAreAnError(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	driver := open(t, address)
	look := func(tx store.Rows) error {
		_, err := tx.LedgerID()
		return err
	}
	admin := connect(t, elsewhere(t, address))
	name := connect(t, address).Config().Database
	for range 3 {
		if err := driver.Read(t.Context(), store.ForQueue, look); err != nil { // so that the connection was used just now
			t.Fatal(err)
		}
		if _, err := admin.Exec(t.Context(), `ALTER DATABASE "`+name+`" ALLOW_CONNECTIONS false`); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Exec(t.Context(),
			"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1", name); err != nil {
			t.Fatal(err)
		}
		if err := driver.Read(t.Context(), store.ForQueue, look); fault.CodeOf(err) != fault.LedgerUnavailable &&
			fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("the answer is %v", err)
		}
		if _, err := admin.Exec(t.Context(), `ALTER DATABASE "`+name+`" ALLOW_CONNECTIONS true`); err != nil {
			t.Fatal(err)
		}
	}
	if err := driver.Read(t.Context(), store.ForQueue, look); err != nil {
		t.Error(err)
	}
}

// elsewhere returns the address of another database of the server.
func elsewhere(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/postgres"
	return u.String()
}

// TestAKilledStatementIsNotRunForEver: a statement whose session is ended each time it is seen fails soon.
func TestAKilledStatementIsNotRunForEver(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	driver := open(t, address)
	killer := connect(t, address)
	ended := make(chan error, 1)
	go func() {
		ended <- driver.Read(t.Context(), store.ForQueue, func(tx store.Rows) error { return postgres.Ask(tx, "SELECT pg_sleep(30) AS sleeper") })
	}()
	killed := map[int64]bool{} // backends; one may take its time to end
	for {
		var pids []int64
		if err := killer.QueryRow(t.Context(), `SELECT coalesce(array_agg(pid::int8) FILTER (WHERE pg_terminate_backend(pid)), '{}') FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE '%sleeper%'`).Scan(&pids); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			killed[pid] = true
		}
		select {
		case err := <-ended:
			if err == nil || len(killed) == 0 || len(killed) > 2 {
				t.Errorf("after the end of %d backends the answer is %v, want an error after one or two", len(killed), err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestReadsAreNoChanges: what reads, and what writes nothing that others wait for, does not delay notifications.
func TestReadsAreNoChanges(t *testing.T) {
	t.Parallel()
	driver := open(t, pgtest.URL(t))
	for range 60 {
		if err := driver.Read(t.Context(), store.ForReaders, func(tx store.Rows) error { return postgres.Ask(tx, "SELECT 1") }); err != nil {
			t.Fatal(err)
		}
	}
	if driver.Busy() {
		t.Error("60 reads count as many changes")
	}
}

// TestANotificationThatFailsLeavesTheCommit: the notification is sent behind the commit, and is not part of it.
func TestANotificationThatFailsLeavesTheCommit(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	driver := open(t, address)
	execute(t, address, "CREATE TABLE written (n int)")
	err := driver.Write(t.Context(), store.ForQueue, func(tx store.Rows) error {
		tx.Notify([]store.Signal{{Topic: "no \xff text"}})
		return postgres.Do(tx, "INSERT INTO written VALUES (1)")
	})
	if err != nil {
		t.Error(err)
	}
	if n := written(t, address); n != 1 {
		t.Errorf("%d rows are written, want 1", n)
	}
}

// TestAKeptStatementThatFailsFailsTheCommit: nothing is stored, and the next transaction works.
func TestAKeptStatementThatFailsFailsTheCommit(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	driver := open(t, address)
	execute(t, address, "CREATE TABLE written (n int CHECK (n < 3))")
	err := driver.Write(t.Context(), store.ForQueue, func(tx store.Rows) error {
		return errors.Join(postgres.Do(tx, "INSERT INTO written VALUES (1)"), postgres.Do(tx, "INSERT INTO written VALUES (3)"),
			postgres.Do(tx, "INSERT INTO written VALUES (2)"))
	})
	if err == nil || !strings.Contains(err.Error(), "written_n_check") {
		t.Errorf("the answer is %v", err)
	}
	if n := written(t, address); n != 0 {
		t.Errorf("%d rows are written, want none", n)
	}
	if err := driver.Write(t.Context(), store.ForQueue,
		func(tx store.Rows) error { return postgres.Do(tx, "INSERT INTO written VALUES (2)") }); err != nil {
		t.Error(err)
	}
}

func written(t *testing.T, address string) (n int) {
	t.Helper()
	if err := connect(t, address).QueryRow(t.Context(), "SELECT count(*) FROM written").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFewRoundTrips counts the messages to the server of an enqueue and of a claim, on connections that know their statements.
func TestFewRoundTrips(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	through, sent := counting(t, address)
	driver := open(t, through)
	l := ledger.New(driver, ledger.Options{})
	now, err := l.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host := queue.Instance{ID: action.DerivedID(now, t.Name()), Name: "host-a"}
	if err := l.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	enqueue := func() error {
		_, err := l.Enqueue(t.Context(), action.Action{Kind: "job", Name: "nothing", Handler: "noop", Policy: action.DefaultPolicy()})
		return err
	}
	claim := func() error {
		_, err := l.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "noop", N: 1}})
		return err
	}
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{{"an enqueue", enqueue, 2}, {"a claim", claim, 2}} {
		least := int64(1 << 30)
		for range 20 { // the first ones make connections and prepare statements; others may be at work beside one
			before := sent.Load()
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			least = min(least, sent.Load()-before)
		}
		if least != c.want {
			t.Errorf("%s takes %d messages to the server, want %d", c.what, least, c.want)
		}
	}
}

// counting returns an address that leads to the server of another, and how often something was sent there.
func counting(t *testing.T, address string) (through string, sent *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	sent = new(atomic.Int64)
	server := u.Host
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(t.Context(), client, server, sent)
		}
	}()
	u.Host = listener.Addr().String()
	return u.String(), sent
}

// pass carries one connection, and counts what is read from the client at a time.
func pass(ctx context.Context, client net.Conn, server string, sent *atomic.Int64) {
	defer client.Close()
	backend, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return
	}
	defer backend.Close()
	go func() { _, _ = io.Copy(client, backend) }()
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		sent.Add(1)
		if _, err := backend.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestTheSameKeysInAnyOrderDoNotDeadlock: callers store actions with the same unique keys, each in an order of its own.
func TestTheSameKeysInAnyOrderDoNotDeadlock(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	drivers := []*postgres.Driver{open(t, address), open(t, address)}
	callers := make([]*ledger.Ledger, 8) // calls of one would share a transaction
	for i := range callers {
		callers[i] = ledger.New(drivers[i%2], ledger.Options{})
	}
	for round := range 40 {
		var all sync.WaitGroup
		for _, l := range callers {
			all.Go(func() {
				var actions []action.Action
				for _, k := range rand.Perm(10) {
					actions = append(actions, action.Action{Kind: "job", Name: "nothing", Handler: "noop", UniqueKey: fmt.Sprintf("%d-%d", round, k)})
				}
				if _, err := l.Enqueue(t.Context(), actions...); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	for _, driver := range drivers {
		_ = driver.Close() // sessions report their deadlocks when they end, if not before
	}
	db := connect(t, address)
	var deadlocks, live int
	for sessions := 1; sessions > 0; {
		if err := db.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&sessions); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.QueryRow(t.Context(),
		"SELECT deadlocks, (SELECT count(*) FROM thread) FROM pg_stat_database WHERE datname = current_database()").
		Scan(&deadlocks, &live); err != nil {
		t.Fatal(err)
	}
	if deadlocks > 0 || live != 400 {
		t.Errorf("%d deadlocks, and %d live actions; want none, and one for each of 400 keys", deadlocks, live)
	}
}

// TestACommitWithoutAnAnswerIsAnnounced: a transaction that may be committed although its answer was lost is announced to
// other processes, also while changes are so many that notifications do not go behind the commit.
func TestACommitWithoutAnAnswerIsAnnounced(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	driver, other := open(t, address), open(t, address)
	heard := make(chan store.Topic, 1000)
	other.Listen(func(s store.Signal) { heard <- s.Topic })
	<-heard // the first signal covers all that it may have missed before it listened; nothing is missed from now on
	for !driver.Busy() {
		if err := driver.Write(t.Context(), store.ForQueue, func(tx store.Rows) error {
			tx.Notify([]store.Signal{{Topic: "busy"}})
			return postgres.Do(tx, "SELECT 1")
		}); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, address, `CREATE TABLE fatal (n int); CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_sleep(30); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER fatal AFTER INSERT ON fatal DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()`)
	cut, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- driver.Write(cut, store.ForQueue, func(tx store.Rows) error {
			tx.Notify([]store.Signal{{Topic: "unanswered"}})
			return postgres.Do(tx, "INSERT INTO fatal VALUES (1)")
		})
	}()
	db := connect(t, address)
	for committing := 0; committing == 0; {
		if err := db.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'COMMIT' AND "+
				"state = 'active'").Scan(&committing); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err == nil {
		t.Fatal("the transaction was answered")
	}
	for topic := range heard {
		if topic == "unanswered" {
			return
		}
	}
}
