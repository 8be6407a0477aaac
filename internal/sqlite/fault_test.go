package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/store"
)

func TestOpenExplainsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		code    fault.Code
		says    string
	}{
		"no such folder": {func(t *testing.T, path string) { remove(t, filepath.Dir(path)) },
			fault.Unavailable, "cannot be opened: no such file or directory"},
		"a pipe in place of the folder": {func(t *testing.T, path string) {
			remove(t, filepath.Dir(path))
			must(t, unix.Mkfifo(filepath.Dir(path), 0o600))
		},
			fault.Unavailable, "cannot be opened: not a directory"},
		"a folder in its place": {func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) },
			fault.Unavailable, "cannot be opened: is a directory"},
		"a pipe in its place": {func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o600)) },
			fault.Unavailable, "cannot be opened: not a regular file"},
		"another kind of file": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat("not a ledger\n", 100)), 0o600))
		},
			fault.Corrupt, "is damaged"},
		"a newer schema": {func(t *testing.T, path string) {
			written(t, path)
			must(t, execute(t, path, "UPDATE meta SET schema = 99"))
		},
			fault.Corrupt, "was written by a newer Waybill (schema 99, this one knows "},
		"an overwritten page": {func(t *testing.T, path string) { written(t, path); overwrite(t, path) },
			fault.Corrupt, "is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "home", "waybill.db")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			c.prepare(t, path)
			d, err := sqlite.Open(t.Context(), path)
			if err == nil {
				_ = d.Close()
				t.Fatal("it was opened")
			}
			if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %q with code %s, want %q with code %s", err, fault.CodeOf(err), c.says, c.code)
			}
			if fault.HintOf(err) == "" {
				t.Error("nothing says what to do")
			}
		})
	}
}

// TestOpenTogether: the first caller makes the file, the rest wait.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waybill.db")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			d, err := sqlite.Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestOpenTakesAnyPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b?c#d%20e", "waybill.db")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	written(t, path)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestClosedLedgerSaysSo(t *testing.T) {
	t.Parallel()
	l := ledger.New(open(t, filepath.Join(t.TempDir(), "waybill.db")), ledger.Options{})
	must(t, l.Close())
	_, err := l.Now(t.Context())
	if fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("read: got %v (code %s)", err, fault.CodeOf(err))
	}
	err = l.RevokeToken(t.Context(), "x")
	if fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("write: got %v (code %s)", err, fault.CodeOf(err))
	}
}

// written makes a ledger file and closes it.
func written(t *testing.T, path string) {
	t.Helper()
	must(t, open(t, path).Close())
}

// overwrite damages the page that holds the schema.
func overwrite(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("\xff", 3000)), 100)
	must(t, err)
	must(t, f.Close())
}

func remove(t *testing.T, path string) {
	t.Helper()
	must(t, os.RemoveAll(path))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestACallThatIsCutOffHarmsNoOther: whenever its context ends, the next call on its connection begins again, and sees
// what was committed by then.
func TestACallThatIsCutOffHarmsNoOther(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "waybill.db"))
	for i := range 400 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		look := func(tx store.Rows) error {
			_, err := tx.(journal.Rows).Heads(nil)
			return err
		}
		_, _ = d.Read(ctx, store.ForQueue, look), d.Write(ctx, store.ForQueue, look) // they may have been faster
		name := fmt.Sprint("p", i)
		if err := d.Write(t.Context(), store.ForQueue,
			func(tx store.Rows) error { _, err := tx.(journal.Rows).LockHeads([]string{name}, true); return err }); err != nil {
			t.Fatalf("write after calls that were cut off: %v", err)
		}
		var heads []journal.HeadRow
		err := d.Read(t.Context(), store.ForQueue, func(tx store.Rows) (err error) {
			heads, err = tx.(journal.Rows).Heads([]string{name})
			return err
		})
		if err != nil || len(heads) != 1 {
			t.Fatalf("read after calls that were cut off: %v, %v", heads, err)
		}
	}
}

// TestTheWALShrinksBehindAReader: a reader keeps the write-ahead log from being reused, and what it grew to in the
// meantime goes back to the disk once the reader has ended.
func TestTheWALShrinksBehindAReader(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waybill.db")
	d := open(t, path)
	l := ledger.New(d, ledger.Options{})
	defer l.Close()
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	enqueue := func() {
		t.Helper()
		a := action.Action{Kind: "job", Handler: "noop", Parameters: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}
		if _, err := l.Enqueue(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	const limit = 16 << 20
	if err := d.Read(t.Context(), store.ForQueue, func(tx store.Rows) error {
		if _, err := tx.(queue.Rows).Instances(); err != nil { // the state that it sees from now on
			return err
		}
		for range 20 {
			enqueue()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if size() <= limit {
		t.Fatalf("the log beside the reader has %d bytes, want more than %d", size(), limit)
	}
	for range 20 { // a checkpoint, and then the log from its beginning
		enqueue()
	}
	if size() > limit {
		t.Errorf("the log has %d bytes, want at most %d", size(), limit)
	}
}
