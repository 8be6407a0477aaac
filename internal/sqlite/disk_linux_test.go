//go:build services

package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// TestALogThatCannotBeWrittenIsRead has a log of two actions on a disk that takes no writes.
func TestALogThatCannotBeWrittenIsRead(t *testing.T) {
	if !childtest.AsRoot(t) {
		return
	}
	for name, c := range map[string]struct {
		// files left by the process before: none; its write-ahead log and its companions; or the first alone
		left  string
		close func(t *testing.T, disk string) // has the disk take no writes
		says  string
	}{
		"full":                      {"", fill, "disk is full: "},
		"full, after a kill":        {"-wal -shm", fill, "disk is full: "},
		"read-only":                 {"", protect, "can be read, but not written: read-only file system"},
		"read-only, after a kill":   {"-wal -shm", protect, "can be read, but not written: read-only file system"},
		"read-only, copied in part": {"-wal", protect, ""},
	} {
		t.Run(name, func(t *testing.T) {
			disk := t.TempDir()
			must(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"))
			t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
			path := filepath.Join(disk, "waybill.db")
			leave(t, path, strings.Fields(c.left)...)
			c.close(t, disk)
			d, err := sqlite.Open(t.Context(), path, sqlite.ToRead())
			if c.says == "" {
				if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.HintOf(err), "copy "+disk) {
					t.Errorf("got %v, hint %q", err, fault.HintOf(err))
				}
				return
			}
			must(t, err)
			l := ledger.New(d, ledger.Options{})
			if n := countActions(t, l); n != 2 {
				t.Errorf("%d actions are read, want 2", n)
			}
			_, err = l.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop"})
			if err == nil || !strings.Contains(err.Error(), c.says) || fault.HintOf(err) == "" {
				t.Errorf("a write: %v, hint %q, want %q", err, fault.HintOf(err), c.says)
			}
			must(t, sqlite.CheckShape(t.Context(), path))
			backup := filepath.Join(t.TempDir(), "backup.db")
			must(t, sqlite.Backup(t.Context(), path, backup))
			if n := countActions(t, logged(t, backup, 0)); n != 2 {
				t.Errorf("the backup has %d actions, want 2", n)
			}
			must(t, l.Close())
		})
	}
}

// leave makes a log of two actions, with the files beside it that a killed process leaves.
func leave(t *testing.T, path string, beside ...string) {
	t.Helper()
	origin := filepath.Join(t.TempDir(), "waybill.db")
	l := logged(t, origin, 2)
	if len(beside) == 0 {
		must(t, l.Close())
	}
	for _, end := range append([]string{""}, beside...) {
		content, err := os.ReadFile(origin + end)
		must(t, err)
		must(t, os.WriteFile(path+end, content, 0o600))
	}
}

// fill leaves no room on a disk.
func fill(t *testing.T, disk string) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "fill"))
	must(t, err)
	for block := make([]byte, 4<<10); err == nil; _, err = f.Write(block) {
	}
	must(t, f.Close())
}

// protect mounts a disk read-only.
func protect(t *testing.T, disk string) {
	t.Helper()
	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
}
