// Package listener serves HTTP on a port within bounds: connections at a time, bytes and time of
// headers, idle connections, and the time that requests have to end when the server does. It is the
// one place that makes an http.Server, so that a listener cannot lack a bound.
//
// Bodies and answers that are streams have no common bound in time, so handlers bound those of
// callers without access: see GiveUp.
package listener

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/waybill-dev/waybill/internal/fault"
)

// ErrSlow is in the error of Serve when requests did not end within Config.Drain.
var ErrSlow = errors.New("requests took too long to end")

// refusedTimeout bounds the wait for the rest of a body that is not read.
const refusedTimeout = 2 * time.Second

// Config configures Serve. Every field must be set, unless its comment makes it optional.
type Config struct {
	Name    string // for errors, such as "the worker API"
	Handler http.Handler
	Log     *slog.Logger // receives faults of connections as warnings; nil: they go where package log writes

	Connections int           // at a time; further ones wait to be accepted
	Header      int           // bytes of a request's header
	HeaderTime  time.Duration // for a request's header
	IdleTime    time.Duration // between two requests of a connection
	BodyTime    time.Duration // for a whole request; 0: handlers bound it
	AnswerTime  time.Duration // for an answer, from the end of the request's header; 0: handlers bound it

	// Drain bounds the requests in flight once the server is to end. Package http counts a new
	// connection that has sent nothing as one for up to six seconds, so at least seven.
	Drain time.Duration

	// HTTP2 makes connections without TLS speak HTTP/2 too, as gRPC needs. nil: HTTP/1 only.
	HTTP2 *http.HTTP2Config
	// EndRequests ends the contexts of requests when the drain begins, so that streams end at once. The cause is fault.Interrupted.
	EndRequests bool
	// Ending is called when the drain begins. It may be nil.
	Ending func()
	// Done begins the drain of a server whose work has an end; then the end of ctx cuts all requests
	// at once. nil: the end of ctx begins the drain.
	Done <-chan struct{}
}

// Serve answers requests on a listener, which it closes, until ctx ends. Requests in flight then have
// Config.Drain to end, and those that have not ended are cut, with an error that wraps ErrSlow. With
// Config.Done the end of ctx cuts requests, and its cause is returned.
func Serve(ctx context.Context, l net.Listener, c Config) error {
	requests, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	server := c.server(requests)
	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(l, c.Connections)) }()
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serve %s: %w", c.Name, err), server.Close())
	case <-ctx.Done():
	case <-c.Done:
	}
	if c.EndRequests {
		end(fault.Wrap(fault.Interrupted, context.Cause(ctx)))
	}
	if c.Ending != nil {
		c.Ending()
	}
	err := c.drain(ctx, server)
	<-served
	return err
}

// server returns a server with every bound but that of connections.
func (c Config) server(requests context.Context) *http.Server {
	server := &http.Server{
		Handler: c.Handler, BaseContext: func(net.Listener) context.Context { return requests },
		MaxHeaderBytes: c.Header, ReadHeaderTimeout: c.HeaderTime, IdleTimeout: c.IdleTime,
		ReadTimeout: c.BodyTime, WriteTimeout: c.AnswerTime,
	}
	if c.Log != nil {
		server.ErrorLog = slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn)
	}
	if c.HTTP2 != nil {
		server.HTTP2, server.Protocols = c.HTTP2, &http.Protocols{}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
	}
	return server
}

// drain accepts no more connections and waits until requests have ended, or cuts them.
func (c Config) drain(ctx context.Context, server *http.Server) error {
	if c.Done == nil {
		ctx = context.WithoutCancel(ctx)
	}
	within, cancel := context.WithTimeoutCause(ctx, c.Drain, ErrSlow)
	defer cancel()
	err := context.Cause(ctx)
	if err == nil {
		err = server.Shutdown(within)
	}
	if err == nil {
		return nil
	}
	if within.Err() != nil {
		err = context.Cause(within)
	}
	if ctx.Err() == nil {
		err = fmt.Errorf("end %s: %w", c.Name, err)
	}
	return errors.Join(err, server.Close())
}

// GiveUp lets a request be answered before its body has come: the connection ends with the answer, and
// the rest of the body is waited for during two seconds. A writer without deadlines, as in tests, has
// no such bound.
func GiveUp(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTimeout))
}
