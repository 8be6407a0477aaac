package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Dialer connects to ports of pods: by the pod's address from inside the cluster, else through the API server.
type Dialer struct {
	config    *rest.Config
	namespace string
	direct    bool
}

// Dialer returns a dialer for the pods of the cluster's namespace.
func (c *Cluster) Dialer() *Dialer {
	return &Dialer{config: c.config, namespace: c.Namespace, direct: c.inside}
}

// Dial connects to a pod, which has the address ip once it runs.
func (d *Dialer) Dial(ctx context.Context, pod, ip string, port int) (net.Conn, error) {
	if d.direct {
		if ip == "" { // it would be this computer
			return nil, fmt.Errorf("connect to pod %s: it has no address yet", pod)
		}
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	}
	return d.forward(ctx, pod, port)
}

// forwardProtocol is the version of the port-forward protocol: a pair of streams for each connection, named by a request id.
const forwardProtocol = "portforward.k8s.io"

// forwardLimit bounds the handshake of a port-forward.
const forwardLimit = 30 * time.Second

// forward opens a connection to the API server for one connection to the pod. It needs no port of this computer.
func (d *Dialer) forward(ctx context.Context, pod string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, forwardLimit, fmt.Errorf("no answer within %s", forwardLimit))
	defer cancel()
	transport, upgrader, err := spdy.RoundTripperFor(d.config)
	if err != nil {
		return nil, fmt.Errorf("forward a port of pod %s: %w", pod, err)
	}
	url, _, err := rest.DefaultServerUrlFor(d.config)
	if err != nil {
		return nil, fmt.Errorf("forward a port of pod %s: %w", pod, err)
	}
	url = url.JoinPath("api/v1/namespaces", d.namespace, "pods", pod, "portforward")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("forward a port of pod %s: %w", pod, err)
	}
	connection, _, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, request, forwardProtocol)
	if err != nil {
		return nil, fmt.Errorf("forward a port of pod %s: %w", pod, err)
	}
	stream, err := openForward(connection, port)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("forward port %d of pod %s: %w", port, pod, err), connection.Close())
	}
	return stream, nil
}

// openForward opens the streams of a port. The error stream reports why the data stream ended.
func openForward(connection httpstream.Connection, port int) (net.Conn, error) {
	headers := http.Header{}
	headers.Set("port", strconv.Itoa(port))
	headers.Set("requestID", "0")
	headers.Set("streamType", "error")
	failure, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	if err := failure.Close(); err != nil { // nothing is written to it
		return nil, err
	}
	headers.Set("streamType", "data")
	data, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	c := &forwarded{Stream: data, connection: connection}
	go func() {
		if why, err := io.ReadAll(io.LimitReader(failure, 4<<10)); err == nil && len(why) > 0 {
			c.fail(fmt.Errorf("the port-forward failed: %s", why))
		}
	}()
	return c, nil
}

// forwarded is a connection through the API server. Its deadlines are not kept: the callers' contexts close it.
type forwarded struct {
	httpstream.Stream
	connection httpstream.Connection

	mutex  sync.Mutex
	reason error // why it ended; nil: not known
}

func (c *forwarded) fail(why error) {
	c.mutex.Lock()
	c.reason = why
	c.mutex.Unlock()
	_ = c.connection.Close() // reads end
}

// Read returns the server's reason when the connection has ended for one.
func (c *forwarded) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	if err != nil {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if c.reason != nil {
			return n, c.reason
		}
	}
	return n, err
}

// Close closes the connection with all its streams.
func (c *forwarded) Close() error { return c.connection.Close() }

func (c *forwarded) LocalAddr() net.Addr              { return forwardAddress{} }
func (c *forwarded) RemoteAddr() net.Addr             { return forwardAddress{} }
func (c *forwarded) SetDeadline(time.Time) error      { return nil }
func (c *forwarded) SetReadDeadline(time.Time) error  { return nil }
func (c *forwarded) SetWriteDeadline(time.Time) error { return nil }

type forwardAddress struct{}

func (forwardAddress) Network() string { return "portforward" }
func (forwardAddress) String() string  { return "portforward" }
