package promotion

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Replicas are two Waybill processes on one PostgreSQL, of which one leads.
type Replicas struct {
	Both   [2]*Waybill
	ledger *ledger.Ledger
}

// StartReplicas starts two processes on the database at an address. A lease is over after three seconds.
func (s *Sandbox) StartReplicas(t testing.TB, program, database string) *Replicas {
	t.Helper()
	r := &Replicas{}
	sections := fmt.Sprintf("ledger: {url: %q, heartbeat: 1s}\nblob: {url: %q}\n", database, "file:"+t.TempDir())
	for i := range r.Both {
		r.Both[i] = launch{management: s.Cluster, program: program, arguments: Roles(), sections: sections}.start(t)
	}
	s.Waybill = r.Both[0]
	driver, err := postgres.Open(t.Context(), database, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.ledger = ledger.New(driver, ledger.Options{})
	t.Cleanup(func() {
		if err := r.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Leader waits until one of the processes leads, and returns it. Processes in except do not count.
func (r *Replicas) Leader(t testing.TB, except *Waybill) *Waybill {
	t.Helper()
	again := time.NewTicker(interval)
	defer again.Stop()
	for late := time.After(patience); ; {
		if one := r.leading(t); one != nil && one != except {
			return one
		}
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("no other process leads after %s", patience)
		case <-t.Context().Done():
			t.Fatal("interrupted")
		}
	}
}

// leading returns the process that wins the first shard; nil: none of the two does.
func (r *Replicas) leading(t testing.TB) *Waybill {
	t.Helper()
	rows, err := r.ledger.Instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	promoters := queue.WithRole(rows, "promoter")
	for _, row := range rows {
		if !slices.Contains(promoters, row.ID) || !loop.OwnShards(row.ID, promoters)[0] {
			continue
		}
		for _, one := range r.Both {
			if strings.HasSuffix(row.Name, "/"+strconv.Itoa(one.PID())) {
				return one
			}
		}
	}
	return nil
}

// Freeze stops a process in whatever it does; Thaw has it continue.
func (c *Waybill) Freeze(t testing.TB) {
	t.Helper()
	c.Signal(t, syscall.SIGSTOP)
}

// Thaw has a stopped process continue.
func (c *Waybill) Thaw(t testing.TB) {
	t.Helper()
	c.Signal(t, syscall.SIGCONT)
}
