package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal/journaltest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// logged makes a ledger in a file and stores some actions.
func logged(t *testing.T, path string, actions int) *ledger.Ledger {
	t.Helper()
	l := ledger.New(open(t, path), ledger.Options{})
	t.Cleanup(func() { _ = l.Close() }) // some tests close it before
	for range actions {
		if _, err := l.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop"}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func countActions(t *testing.T, l *ledger.Ledger) int {
	t.Helper()
	all, err := l.Actions(t.Context(), queue.ActionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestABackupEndsWhileTheLogIsWritten: it is whole, and what it has can be done once more.
func TestABackupEndsWhileTheLogIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := logged(t, filepath.Join(dir, "waybill.db"), 100)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	began := make(chan struct{})
	writers.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := l.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop"}); err != nil {
				t.Error(err)
			}
			if n == 10 {
				close(began)
			}
		}
	})
	select {
	case <-began:
	case <-time.After(time.Minute):
		t.Fatal("11 actions are not stored within a minute")
	}
	backup := filepath.Join(dir, "copy.db")
	if err := sqlite.Backup(t.Context(), filepath.Join(dir, "waybill.db"), backup); err != nil {
		t.Fatal(err)
	}
	stop()
	writers.Wait()
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 4 { // the log with two files beside it, and the backup
		t.Errorf("something is left: %v", entries)
	}

	home := filepath.Join(t.TempDir(), "waybill.db")
	if err := sqlite.Restore(t.Context(), backup, home, home+".before"); err != nil {
		t.Fatal(err)
	}
	restored := logged(t, home, 0)
	if n, all := countActions(t, restored), countActions(t, l); n < 110 || n > all {
		t.Errorf("%d actions of %d are restored, want at least 110", n, all)
	}
}

func TestRestoreKeepsTheOldLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "waybill.db"), filepath.Join(dir, "copy.db")
	l := logged(t, path, 2)
	if err := sqlite.Backup(t.Context(), path, backup); err != nil {
		t.Fatal(err)
	}
	other := logged(t, path, 3)
	end, err := l.EventsEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := path + ".before"
	if err := sqlite.Restore(t.Context(), backup, path, kept); fault.CodeOf(err) != fault.Unavailable ||
		!strings.Contains(err.Error(), "another process") {
		t.Errorf("a log that is open was replaced: %v", err)
	}
	if err := errors.Join(l.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Restore(t.Context(), backup, path, kept); err != nil {
		t.Fatal(err)
	}
	if n := countActions(t, logged(t, kept, 0)); n != 5 {
		t.Errorf("the old log has %d actions, want 5", n)
	}
	restored := logged(t, path, 0)
	if n := countActions(t, restored); n != 2 {
		t.Errorf("the restored log has %d actions, want 2", n)
	}
	if _, err := restored.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop"}); err != nil {
		t.Fatal(err)
	}
	if events, err := restored.EventsAfter(t.Context(), end, 10); err != nil || len(events) != 1 {
		t.Errorf("a reader of the old log gets %d events of the restored one, %v; want the new one", len(events), err)
	}
}

// Each restore begins an era above all before it, also when the backup is older than the last restore, or the log is damaged.
func TestEachRestoreBeginsANewEra(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "waybill.db"), filepath.Join(dir, "copy.db")
	l := logged(t, path, 1)
	if err := errors.Join(sqlite.Backup(t.Context(), path, backup), l.Close()); err != nil {
		t.Fatal(err)
	}
	for want := range int64(3) {
		l := logged(t, path, 0)
		if era, err := l.Era(t.Context()); err != nil || era != want {
			t.Errorf("era %d, %v; want %d", era, err, want)
		}
		if err := errors.Join(l.Close(), sqlite.Restore(t.Context(), backup, path, fmt.Sprint(path, want))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackupsAreRefusedWhereTheyWouldHarm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "waybill.db")
	logged(t, path, 1)
	taken, notes, foreign := filepath.Join(dir, "taken"), filepath.Join(dir, "notes"), filepath.Join(dir, "foreign.db")
	for _, name := range []string{taken, notes} {
		if err := os.WriteFile(name, []byte(
			"my notes, which are longer than a header of SQLite is: that has a hundred bytes. They are not to be lost."), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := execute(t, foreign, "CREATE TABLE meta (x)"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		do   error
		code fault.Code
		says string
	}{
		"a file that exists": {sqlite.Backup(t.Context(), path, taken), fault.Invalid, "exists already"},
		"no log": {sqlite.Backup(t.Context(), filepath.Join(dir, "nothing.db"), filepath.Join(dir, "a")),
			fault.Unavailable, "nothing.db"},
		"a folder that is not":  {sqlite.Backup(t.Context(), path, filepath.Join(dir, "none", "a")), fault.Unavailable, "none"},
		"no backup":             {sqlite.Restore(t.Context(), notes, path, path+".before"), fault.Invalid, "not a log of Waybill"},
		"another's database":    {sqlite.Restore(t.Context(), foreign, path, path+".before"), fault.Invalid, "not a log of Waybill"},
		"a backup that is gone": {sqlite.Restore(t.Context(), filepath.Join(dir, "gone"), path, path+".before"), fault.Unavailable, "gone"},
	} {
		if fault.CodeOf(c.do) != c.code || !strings.Contains(c.do.Error(), c.says) {
			t.Errorf("%s: got %v (%s), want %q with code %s", name, c.do, fault.CodeOf(c.do), c.says, c.code)
		}
	}
	if text, err := os.ReadFile(taken); err != nil || !strings.HasPrefix(string(text), "my notes") {
		t.Errorf("the file was changed: %q, %v", text, err)
	}
	if n := countActions(t, logged(t, path, 0)); n != 1 {
		t.Errorf("the log has %d actions, want 1", n)
	}
}

// TestAnEditedShapeIsRefused: a log without what guards its rows, or with what would run when rows are written,
// replaces nothing and runs nothing.
func TestAnEditedShapeIsRefused(t *testing.T) {
	t.Parallel()
	for edit, want := range map[string]string{
		"":                                       "",
		"ANALYZE":                                "",
		"DROP TABLE log_line":                    "table log_line is missing",
		"DROP TRIGGER entry_update":              "trigger entry_update is missing",
		"DROP INDEX action_retry":                "index action_retry is missing",
		"ALTER TABLE token ADD COLUMN more TEXT": "table token was changed",
		"CREATE VIEW everything AS SELECT 1":     "view everything is foreign",
		"CREATE TRIGGER evil AFTER UPDATE ON meta BEGIN DELETE FROM token; END": "trigger evil is foreign",
	} {
		t.Run(edit, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			from, to := filepath.Join(dir, "from.db"), filepath.Join(dir, "to.db")
			if err := logged(t, from, 1).Close(); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", from)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), edit); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			err = sqlite.Restore(t.Context(), from, to, to+".kept")
			if want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !fault.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if left, _ := filepath.Glob(to + "*"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestAnEditedEntryIsRefused: a log in which an entry was edited, with everything that guards it put back, replaces nothing.
func TestAnEditedEntryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, backup, to := filepath.Join(dir, "waybill.db"), filepath.Join(dir, "copy.db"), filepath.Join(dir, "to.db")
	l := logged(t, path, 1)
	journaltest.Define(t, l.Journal)
	journaltest.Register(t, l.Journal, "r1")
	journaltest.Append(t, l.Journal, journaltest.Note(1, "greeter/prod", pipeline.ApprovalGiven))
	if err := errors.Join(sqlite.Backup(t.Context(), path, backup), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Restore(t.Context(), backup, to, to+".kept"); err != nil {
		t.Fatal(err)
	}
	guard := "CREATE TRIGGER entry_update BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'an entry is never changed'); END"
	if err := execute(t, backup, `DROP TRIGGER entry_update; UPDATE entry SET detail = '{"by":"eve"}' WHERE seq = 3; `+guard); err != nil {
		t.Fatal(err)
	}
	err := sqlite.Restore(t.Context(), backup, to, to+".kept")
	if want := backup + " was edited: greeter: entry 3 was changed"; !fault.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if left, _ := filepath.Glob(to + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
