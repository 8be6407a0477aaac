package testbed

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// ownNetwork is a network with nothing but a loopback interface, for a program that listens on fixed ports. The program
// reaches the servers that the test has in it. It ends with the test's process.
type ownNetwork struct {
	file *os.File // holds the namespace
}

func newOwnNetwork(t testing.TB) *ownNetwork {
	t.Helper()
	file, err := within(currentNetwork, func() (*os.File, error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return nil, fmt.Errorf("make a network, which needs root: %w", err)
		}
		if err := raiseLoopback(); err != nil {
			return nil, fmt.Errorf("start a loopback interface: %w", err)
		}
		return os.Open(currentNetwork)
	})
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	t.Cleanup(func() { _ = file.Close() }) // it was only held
	return &ownNetwork{file}
}

// currentNetwork is the path of the network of the thread that opens it.
const currentNetwork = "/proc/thread-self/ns/net"

func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback)
}

// path returns the path of the network, for this process and its children.
func (n *ownNetwork) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// inside returns the arguments with which a program runs in the network.
func (n *ownNetwork) inside(argv []string) []string {
	return append([]string{"nsenter", "--net=" + n.path(), "--"}, argv...)
}

func (n *ownNetwork) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return within(n.path(), func() (net.Conn, error) {
		return (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
	})
}

// listen listens in the network until the test ends.
func (n *ownNetwork) listen(t testing.TB, address string) net.Listener {
	t.Helper()
	listener, err := within(n.path(), func() (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	})
	if err != nil {
		t.Fatalf("testbed: listen in a network of its own: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // a server may have closed it
	return listener
}

// relay makes the network reach an address of this computer's loopback under the same address.
func (n *ownNetwork) relay(t testing.TB, address string) {
	t.Helper()
	listener := n.listen(t, address)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // the test ends
			}
			go relayConnection(ctx, from, address)
		}
	}()
}

// relayConnection copies both ways until either side ends the connection. When the address refuses, both end at once.
func relayConnection(ctx context.Context, from net.Conn, address string) {
	defer from.Close()
	to, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		defer to.Close()
		_, _ = io.Copy(to, from) // the other direction sees the end
	}()
	_, _ = io.Copy(from, to)
}
