// Package networktest has networks for tests: a proxy that cuts connections, and connections in memory, which tests with a
// clock of their own need.
package networktest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Cutter is a proxy on loopback. It cuts connections that have brought so many bytes from its target, and may bring nothing.
type Cutter struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	cuts     []int // cuts of the next connections; then none is cut
	stalled  int   // number of the next connections that bring nothing
	open     map[net.Conn]bool
	made     int // connections
	running  sync.WaitGroup
}

// NewCutter starts a proxy that ends with the test. target is the address of a server.
func NewCutter(t *testing.T, target string) *Cutter {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cutter{listener: listener, target: target, open: map[net.Conn]bool{}}
	ctx := t.Context()
	c.running.Go(func() { c.accept(ctx) })
	t.Cleanup(func() {
		listener.Close()
		c.CutAll()
		c.running.Wait()
	})
	return c
}

// Address returns where the proxy listens.
func (c *Cutter) Address() string { return c.listener.Addr().String() }

func (c *Cutter) accept(ctx context.Context) {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.running.Go(func() { c.pass(ctx, client) })
	}
}

func (c *Cutter) pass(ctx context.Context, client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	limit := c.begin(client)
	defer c.end(client)
	if limit == 0 {
		_, _ = io.Copy(io.Discard, client) // it ends when the client gives up
		return
	}
	c.running.Go(func() {
		_, _ = io.Copy(server, client) // one side has gone
		server.Close()
	})
	_, _ = io.CopyN(client, server, limit) // one side has gone
}

// begin returns how many bytes a connection may bring.
func (c *Cutter) begin(client net.Conn) (limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[client], limit = true, 1<<40
	c.made++
	switch {
	case c.stalled > 0:
		c.stalled, limit = c.stalled-1, 0
	case len(c.cuts) > 0:
		limit, c.cuts = int64(c.cuts[0]), c.cuts[1:]
	}
	return limit
}

func (c *Cutter) end(client net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, client)
}

// CutAt has the next connections cut after so many bytes.
func (c *Cutter) CutAt(bytes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts = bytes
}

// Stall has the next connections bring nothing.
func (c *Cutter) Stall(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = n
}

// CutAll cuts every connection.
func (c *Cutter) CutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		conn.Close()
	}
}

// Connections returns how many were made.
func (c *Cutter) Connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}
