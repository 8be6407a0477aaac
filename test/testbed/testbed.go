// Package testbed starts real systems for tests: a Kubernetes control plane or a
// whole cluster with a node, Argo's workflow controller, Knative Eventing, an S3 server, a Docker Engine. Each is started by a function that
// takes the test, belongs to that test, and is gone when the test has ended;
// tests that share one are subtests of the test that started it.
//
// Nothing survives a test process, however it dies: every system is a child that
// the kernel kills with its parent, listens on a loopback port of its own, and
// keeps its data in the test's temporary folder. Mounts and network
// namespaces are those of a Docker Engine, a node or Knative, and end with processes; control groups are
// removed by the test, or by cmd/testbed.
//
// Package binary builds the programs on first use. "make e2e" does so before the
// tests start, so that no test's time limit counts it, and checks afterwards that
// nothing is left. README.md says how to write a test and how to add a system.
package testbed

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// patience bounds every wait for a system to start; a loaded machine needs a part of it.
const patience = 5 * time.Minute

// program returns the path of a system's built file.
func program(t testing.TB, b binary.Binary) string {
	t.Helper()
	path, err := b.Path(t.Context(), os.Stderr)
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	return path
}

var given sync.Map // addresses, so that no two systems of this process get one

// addresses returns n free loopback addresses. They are below the range from which
// the kernel takes ports for outgoing connections, so a system that is stopped
// for a while gets its port back.
func addresses(t testing.TB, n int) []string {
	t.Helper()
	var found []string
	var listen net.ListenConfig
	for range 1000 {
		listener, err := listen.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err != nil {
			continue // taken
		}
		defer listener.Close() // only when all are found, so that they differ
		if _, twice := given.LoadOrStore(listener.Addr().String(), true); twice {
			continue // of a system that starts at this moment, or is stopped
		}
		if found = append(found, listener.Addr().String()); len(found) == n {
			return found
		}
	}
	t.Fatal("testbed: no free port on 127.0.0.1 from 20000 to 31999")
	return nil
}

// splitAddress returns the host and the port of an address that addresses made.
func splitAddress(address string) (host, port string) {
	host, port, _ = net.SplitHostPort(address)
	return host, port
}

// Together makes calls at the same time, which may start systems, and waits for all of them. When one of them fails the test,
// Together ends it.
func Together(t testing.TB, calls ...func()) {
	t.Helper()
	var running sync.WaitGroup
	for _, call := range calls {
		running.Go(call)
	}
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
