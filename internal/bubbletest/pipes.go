package bubbletest

import "net"

// Pipes is a listener with connections in memory: a bubble sees when one waits, which it does not of a connection of the network.
type Pipes struct {
	waiting chan net.Conn
	closed  chan struct{}
}

// Listen returns a listener. It belongs to the bubble in which it is made.
func Listen() Pipes { return Pipes{make(chan net.Conn), make(chan struct{})} }

// Dial opens a connection, once it is accepted.
func (p Pipes) Dial() net.Conn {
	client, server := net.Pipe()
	p.waiting <- server
	return client
}

// Accept returns the other end of the next connection.
func (p Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.waiting:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listener, and leaves its connections. It is called once.
func (p Pipes) Close() error { close(p.closed); return nil }

// Addr returns an address of loopback, at which nothing listens.
func (p Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070} }
