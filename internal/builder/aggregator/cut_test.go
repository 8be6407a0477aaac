package aggregator_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// cutter passes connections on to a worker. It cuts those that have brought so many bytes from it, and may bring nothing.
type cutter struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	cuts     []int // of the next connections; then none is cut
	stalled  int   // of the next connections, those that bring nothing
	open     map[net.Conn]bool
	made     int // connections
	running  sync.WaitGroup
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, target: target, open: map[net.Conn]bool{}}
	c.running.Go(c.accept)
	t.Cleanup(func() {
		listener.Close()
		c.cutAll()
		c.running.Wait()
	})
	return c
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.running.Go(func() { c.pass(client) })
	}
}

func (c *cutter) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	limit := c.begin(client)
	defer c.end(client)
	if limit == 0 {
		_, _ = io.Copy(io.Discard, client) // until the client gives up
		return
	}
	c.running.Go(func() {
		_, _ = io.Copy(server, client) // one side has gone
		server.Close()
	})
	_, _ = io.CopyN(client, server, limit) // one side has gone
}

// begin returns how many bytes a connection may bring.
func (c *cutter) begin(client net.Conn) (limit int64) {
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

func (c *cutter) end(client net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, client)
}

// cutAt has the next connections cut after so many bytes.
func (c *cutter) cutAt(bytes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts = bytes
}

// stall has the next connections bring nothing.
func (c *cutter) stall(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = n
}

// cutAll cuts every connection.
func (c *cutter) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		conn.Close()
	}
}

// connections returns how many were made.
func (c *cutter) connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}
