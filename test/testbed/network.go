package testbed

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Inside returns the arguments with which a program runs in the Engine's own network, where published ports are.
func (e *Engine) Inside(argv ...string) []string { return inside(e.server, argv) }

// Dial connects to an address of the Engine's own network.
func (e *Engine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dial(ctx, e.server, network, address)
}

// Inside returns the arguments with which a program runs in the cluster's own network, where pods and Services are.
func (c *Cluster) Inside(argv ...string) []string {
	if c.network == nil {
		return argv
	}
	return inside(c.network, argv)
}

// Dial connects to an address of the cluster's own network.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dial(ctx, c.network, network, address)
}

// Listen listens in the cluster's own network, at an address that pods reach.
func (c *Cluster) Listen(t testing.TB) net.Listener {
	t.Helper()
	return listen(t, c.network, nodeAddress)
}

func inside(s *service, argv []string) []string {
	return append([]string{"nsenter", "--net=" + networkOf(s), "--"}, argv...)
}

func networkOf(s *service) string { return fmt.Sprintf("/proc/%d/ns/net", s.processID()) }

// made is a connection or listener that a thread of another network has made.
type made[T any] struct {
	value T
	err   error
}

// within calls a function on a thread in the network at a path: a socket belongs to the network of the thread that makes it.
func within[T any](namespace string, call func() (T, error)) (T, error) {
	done := make(chan made[T], 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var m made[T]
		if m.err = enter(namespace); m.err == nil {
			m.value, m.err = call()
		}
		done <- m
	}()
	m := <-done
	return m.value, m.err
}

func enter(namespace string) error {
	file, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
}

func dial(ctx context.Context, s *service, network, address string) (net.Conn, error) {
	return within(networkOf(s), func() (net.Conn, error) {
		return (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address) // without a second goroutine, which has another thread
	})
}

// listen returns a listener on a free port of an address in the network of a service.
func listen(t testing.TB, s *service, host string) net.Listener {
	t.Helper()
	listener, err := within(networkOf(s), func() (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	})
	if err != nil {
		t.Fatalf("testbed: listen beside %s: %v", s.name, err)
	}
	return listener
}
