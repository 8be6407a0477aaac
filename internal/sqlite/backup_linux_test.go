package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// TestBackupsNeedNoHardLinks backs up and restores in a process whose kernel refuses links, as exFAT and some network
// folders do.
func TestBackupsNeedNoHardLinks(t *testing.T) {
	t.Parallel()
	const inChild = "WAYBILL_TEST_WITHOUT_LINKS"
	if os.Getenv(inChild) == "" {
		child := childtest.Command(t, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), inChild+"=1")
		if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	refuseLinks(t)
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "waybill.db"), filepath.Join(dir, "copy.db")
	l := logged(t, path, 2)
	if err := os.Link(path, backup); !errors.Is(err, unix.EPERM) {
		t.Fatalf("a link: %v, want %v", err, unix.EPERM)
	}
	if err := errors.Join(sqlite.Backup(t.Context(), path, backup), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Restore(t.Context(), backup, path, path+".before"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".before"} {
		if n := countActions(t, logged(t, name, 0)); n != 2 {
			t.Errorf("%s has %d actions, want 2", name, n)
		}
	}
}

// refuseLinks has the kernel refuse linkat, by which os.Link works, to this process from now on.
func refuseLinks(t *testing.T) {
	t.Helper()
	const number = 0 // offset in struct seccomp_data: the system call
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LINKAT, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		t.Fatal(errno)
	}
}
