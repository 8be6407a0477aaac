//go:build linux && services

package chaos_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/test/chaos"
)

// TestEmbeddedLogIsKilledAgainAndAgain kills the process on an embedded log in the middle of its work, and starts it
// again, while another stores actions.
func TestEmbeddedLogIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := world(t, chaos.Settings{})
	stop := churn(t, w)
	for range 10 {
		p := serve(t, w, "conductor")
		visited(t, w, w.Target.Visits()+20)
		p.Kill()
	}
	serve(t, w, "conductor")
	stop()
	if v := judged(t, w); v.Lost == 0 {
		t.Error("no claim was ever lost: the kills hit nothing")
	}
}

// TestEmbeddedLogOnAFullDisk fills the disk under a process whose attempts are at the target. It lives on, records
// what they did when there is room again, and repeats nothing. Callers that enqueue in the meantime get an error.
func TestEmbeddedLogOnAFullDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	home := filepath.Join(folder, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	disk, err := chaos.NewDisk(home, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	w := world(t, chaos.Settings{Folder: folder})
	release, p := underway(t, w)
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	_, err = w.Ledger.Enqueue(t.Context(), action.Action{Kind: "action", Name: chaos.Nothing, Handler: chaos.Nothing,
		Policy: action.DefaultPolicy()})
	if !fault.Is(err, fault.LedgerUnavailable) {
		t.Errorf("an order on a full disk: %v, want %s", err, fault.LedgerUnavailable)
	}
	release()
	awaitSaid(t, p, "turn failed")
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	onceEach(t, w)
}

// TestEmbeddedLogIsBusy has another program keep the log's only write lock for longer than a call
// waits for it.
func TestEmbeddedLogIsBusy(t *testing.T) {
	t.Parallel()
	w := world(t, chaos.Settings{})
	release, p := underway(t, w)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.Folder, "home", "waybill.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	release()
	awaitSaid(t, p, "turn failed")
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	onceEach(t, w)
}

// underway has a process on an embedded log make 30 attempts, all of which are at the target until
// they are released.
func underway(t *testing.T, w *chaos.World) (release func(), p *chaos.Process) {
	t.Helper()
	release = w.Target.Hold()
	order(t, w, chaos.Effect, "{}", 20)
	order(t, w, chaos.Once, "{}", 10)
	p = serve(t, w, "conductor")
	visited(t, w, 30)
	return release, p
}

// onceEach wants what is in progress to end well at its first attempt.
func onceEach(t *testing.T, w *chaos.World) {
	t.Helper()
	if v := judged(t, w); v.Ends[action.Successful] != 30 || v.Attempts != 30 {
		t.Errorf("the ends are %v in %d attempts, want 30 that succeeded at the first", v.Ends, v.Attempts)
	}
}

// awaitSaid waits until a process has said something.
func awaitSaid(t *testing.T, p *chaos.Process, text string) {
	t.Helper()
	until(t, p.Name+" says "+text, time.Minute, func(context.Context) (bool, error) {
		return len(p.Output.Lines(text)) > 0, nil
	})
}
