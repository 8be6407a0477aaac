//go:build linux && services

package chaos_test

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/test/chaos"
)

// pooled returns a pooler in transaction mode before a database.
func pooled(t *testing.T, direct string) *chaos.Pooler {
	t.Helper()
	folder, err := os.MkdirTemp("", "waybill-pooler-") //nolint:usetesting // which the user that it runs as can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := chaos.NewPooler(t.Context(), folder, direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		if t.Failed() {
			t.Logf("pgbouncer said:\n%s", p.Output)
		}
	})
	return p
}

const barred = "a pooler keeps this process from being notified"

// TestPoolerInTransactionMode has two conductors and an API reach the database through PgBouncer
// alone. One warning says what that costs. When one conductor is killed, the other finds out by its
// lease.
func TestPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	w := world(t, chaos.Settings{Direct: direct, Store: pooled(t, direct).Through(direct), Heartbeat: soon})
	killed := takeOver(t, w)
	for _, p := range killed {
		if said := p.Output.Lines(barred); len(said) != 1 {
			t.Errorf("%s warned %d times, want once:\n%s", p.Name, len(said), strings.Join(said, "\n"))
		}
	}
}

// TestPoolerBesideADirectConnection gives the processes a direct connection for what a pooler
// cannot do.
func TestPoolerBesideADirectConnection(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	w := world(t, chaos.Settings{Direct: direct, Store: pooled(t, direct).Through(direct), Listen: direct})
	for _, p := range takeOver(t, w) {
		if said := p.Output.Lines(barred); len(said) > 0 {
			t.Errorf("%s warned: %s", p.Name, said)
		}
	}
	var locks int
	asked(t, w, &locks, "SELECT count(*) FROM instance WHERE lock_key <> 0")
	if locks == 0 {
		t.Error("no instance holds a lock")
	}
}

// takeOver kills one of two conductors under load, and returns both.
func takeOver(t *testing.T, w *chaos.World) []*chaos.Process {
	t.Helper()
	release := w.Target.Hold()
	order(t, w, chaos.Effect, "{}", 30)
	order(t, w, chaos.Once, "{}", 20)
	victim, id := joined(t, w)
	holds(t, w, id, 50)
	other, _ := joined(t, w)
	victim.Kill()
	free(t, w, id)
	release()
	for range 5 {
		order(t, w, chaos.Effect, "{}", 20)
		ended(t, w)
	}
	verdict(t, w)
	for _, p := range []*chaos.Process{victim, other} {
		for _, word := range []string{"turn failed", "prepared statement", "heartbeat failed", "rescue failed"} {
			if said := p.Output.Lines(word); len(said) > 0 {
				t.Errorf("%s said %s", p.Name, said)
			}
		}
	}
	return []*chaos.Process{victim, other}
}
