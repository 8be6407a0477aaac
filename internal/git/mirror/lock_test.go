package mirror

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that begins has a copy of each open file until it becomes another program. It keeps no mirror locked.
func TestACopyOfALockKeepsNoMirrorLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := session{dir: filepath.Join(dir, "fleet.git"), private: filepath.Join(dir, "private")}
	if err := o.open(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(o.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := o.open(); err == nil {
		t.Error("two operations have locked one mirror")
	}
	o.close()
	if err := o.open(); err != nil {
		t.Fatal(err)
	}
	o.close()
}
