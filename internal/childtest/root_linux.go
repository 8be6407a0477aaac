package childtest

import (
	"bytes"
	"os"
	"syscall"
	"testing"
)

// AsRoot reports whether the test runs as root, which may mount. For any other user it runs the
// test once more as root of namespaces of its own, reports the result as this test's own, and
// returns false: the test must then return. It is called first in a test that is not a subtest.
func AsRoot(t *testing.T) bool {
	t.Helper()
	if os.Getuid() == 0 {
		return true
	}
	command := Command(t, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if out, err := command.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")) {
		t.Fatalf("this test mounts a file system; as root of namespaces of its own: %v\n%s\n"+
			"try: run it as root, or let users make namespaces (sysctl kernel.unprivileged_userns_clone=1, "+
			"kernel.apparmor_restrict_unprivileged_userns=0)", err, out)
	}
	return false
}
