//go:build linux && services

package crash_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/test/chaos"
)

// server is one `waybill serve conductor deployer`.
type server struct {
	command *exec.Cmd
	output  *bytes.Buffer
	ended   chan error
}

func serve(t *testing.T, p *project, home, store string) *server {
	t.Helper()
	s := &server{ended: make(chan error, 1)}
	s.command, s.output = waybill(t.Context(), p, home, "serve", "conductor", "deployer", "--store", store)
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.command.Wait() }()
	t.Cleanup(s.kill)
	return s
}

// kill ends the server without a word; a second call does nothing.
func (s *server) kill() {
	_ = s.command.Process.Signal(syscall.SIGKILL)
	err := <-s.ended
	s.ended <- err
}

// TestServersTakeOver has two servers share one PostgreSQL. One is
// killed at random moments and another started; every deployment continues.
func TestServersTakeOver(t *testing.T) {
	t.Parallel()
	const rounds = 8
	p, random, store := newProject(t), chaos.Moments(t.Logf, *seed), pgtest.URL(t)
	home := filepath.Join(p.dir, ".waybill")
	stopServices(t, p, home, "--store", store)
	driver, err := postgres.Open(t.Context(), store, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	check := &checker{ledger: ledger.New(driver, ledger.Options{})}
	t.Cleanup(func() { _ = check.ledger.Close() })
	servers := []*server{serve(t, p, home, store), serve(t, p, home, store)}
	for round := int64(1); round <= rounds; round++ {
		label := p.commit(t, int(round))
		command, output := waybill(childtest.Context(t), p, home, "ship", "--store", store)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
		victim := random.IntN(len(servers))
		servers[victim].kill()
		killed := time.Now()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("ship %s: %v\n%s", label, err, output)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("no server took over:\n%s\n%s", output, servers[1-victim].output)
		}
		t.Logf("round %d: finished %s after the kill", round, time.Since(killed).Round(100*time.Millisecond))
		servers[victim] = serve(t, p, home, store)
		check.look(t)
		check.finished(t, round)
		hostsRun(t, home, label)
	}
	// Ends, rescues and passes take their locks in one order, so that the server never has to abort
	// one for a deadlock.
	db, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.WithoutCancel(t.Context()))
	var deadlocks int
	const count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
	if err := db.QueryRow(t.Context(), count).Scan(&deadlocks); err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks (%v)", deadlocks, err)
	}
}
