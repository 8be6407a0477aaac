package networktest

import (
	"context"
	"net"
	"sync"
	"time"
)

// Memory is a network of one server, in memory: a listener for the server, and Dial for its clients. It can be used within a
// bubble of testing/synctest.
type Memory struct {
	pause  time.Duration
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewMemory returns a network on which clients wait for so long before each write.
func NewMemory(pause time.Duration) *Memory {
	return &Memory{pause: pause, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the server's end of a connection.
func (m *Memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial. It never fails.
func (m *Memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr returns an address without a meaning.
func (m *Memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// Dial returns the client's end of a connection.
func (m *Memory) Dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return slowConn{client, m.pause}, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// slowConn waits before each write.
type slowConn struct {
	net.Conn
	pause time.Duration
}

func (c slowConn) Write(b []byte) (int, error) {
	if c.pause > 0 {
		<-time.After(c.pause)
	}
	return c.Conn.Write(b)
}
