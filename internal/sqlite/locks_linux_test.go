package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestOpeningAgainKeepsTheLocks: a process loses its locks on a file when it closes any descriptor of it, and with them
// the sign to other processes that the log is open.
func TestOpeningAgainKeepsTheLocks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waybill.db")
	d := open(t, path)
	must(t, d.Write(t.Context(), store.ForQueue,
		func(tx store.Rows) error { _, err := tx.(journal.Rows).LockHeads([]string{"p"}, true); return err }))
	if n := locks(t, path); n == 0 {
		t.Fatal("the open file has no lock: the test does not see them")
	}
	open(t, path)
	if n := locks(t, path); n == 0 {
		t.Error("the locks are gone")
	}
}

// locks counts the locks on a file that processes have, not counting those that end with a descriptor.
func locks(t *testing.T, path string) (n int) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	all, err := os.ReadFile("/proc/locks")
	must(t, err)
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, " POSIX ") && strings.Contains(line, inode) {
			n++
		}
	}
	return n
}
