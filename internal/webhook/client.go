package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// Bounds of an exchange. How long it may take is its context's business.
const (
	maxResponse     = 64 << 10 // bytes of a body that are read and kept, unless the call has its own bound
	maxHeaders      = 64 << 10
	maxHops         = 5
	connectTimeout  = 10 * time.Second // to one address; and for the TLS handshake
	idleTimeout     = 90 * time.Second
	idleConnections = 16 // kept for each target
)

// Client sends calls. Safe for concurrent use; one client keeps connections to its targets.
type Client struct{ http *http.Client }

// ClientConfig is what a client is made of.
type ClientConfig struct {
	Guard    Guard
	Proxy    Proxy
	Once     bool          // never send a request twice, not even on a connection that turned out to be closed
	Resolver *net.Resolver // nil: the system's
	// RootCAs are the authorities that targets' certificates may be from; nil: the system's.
	RootCAs *x509.CertPool
}

// NewClient makes a client. Variables such as HTTP_PROXY mean nothing to it unless its proxy is
// that of the environment: the guard would watch the wrong address.
func NewClient(cfg ClientConfig) *Client {
	plain := &net.Dialer{Timeout: connectTimeout, Resolver: cfg.Resolver}
	guarded := &net.Dialer{Timeout: connectTimeout, Resolver: cfg.Resolver, Control: cfg.Guard.control}
	var encryption *tls.Config
	if cfg.RootCAs != nil {
		encryption = &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12}
	}
	return &Client{&http.Client{
		CheckRedirect: checkRedirect,
		Transport: &http.Transport{
			TLSClientConfig: encryption,
			DialContext:     cfg.Proxy.dial(plain, guarded), ForceAttemptHTTP2: true, DisableCompression: true, DisableKeepAlives: cfg.Once,
			Proxy: cfg.Proxy.route(cfg.Guard), OnProxyConnectResponse: refusedByProxy,
			TLSHandshakeTimeout: connectTimeout, MaxResponseHeaderBytes: maxHeaders,
			IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: idleConnections,
		},
	}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Send makes the request and reads the answer as far as the bounds go. What went wrong is in the
// exchange.
func (c *Client) Send(ctx context.Context, call Call) *Exchange {
	start := time.Now()
	e := &Exchange{Timing: Timing{StartedAt: start}}
	e.Request = Message{Method: call.Method, URL: call.URL.String(), Header: call.Header.Clone()}
	e.Request.setBody([]byte(call.Body))
	e.err = c.send(ctx, call, e)
	e.Timing.EndedMS = float64(time.Since(start).Microseconds()) / 1000
	e.Timing.StartedAt = start.UTC()
	e.Error = plain(e.err)
	return e
}

func (c *Client) send(ctx context.Context, call Call, e *Exchange) error {
	trace := trace{start: e.Timing.StartedAt}
	defer trace.record(e)
	ctx = httptrace.WithClientTrace(ctx, trace.client())
	ctx = context.WithValue(ctx, hopsKey{}, &hops{call: call, exchange: e})
	request, err := http.NewRequestWithContext(ctx, call.Method, call.URL.String(), strings.NewReader(call.Body))
	if err != nil {
		return err
	}
	if call.Body == "" {
		request.Body, request.GetBody, request.ContentLength = http.NoBody, nil, 0
	}
	request.Header = call.Header.Clone()
	if host := call.Header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := c.http.Do(request)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return context.Cause(ctx)
		}
		return err
	}
	defer response.Body.Close()
	return e.read(response, cmp.Or(call.MaxBody, maxResponse))
}

// read keeps the answer. It reads one byte more than fits, to learn whether the body is longer.
func (e *Exchange) read(response *http.Response, limit int) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	e.Response = &Message{Status: response.StatusCode, Header: response.Header.Clone(), Cut: len(body) > limit}
	e.header, e.body = response.Header, body[:min(len(body), limit)]
	e.Response.setBody(e.body)
	if err != nil {
		e.Response.Cut = true
		return fmt.Errorf("read the answer %d: %w", response.StatusCode, err)
	}
	return nil
}

// trace notes when things happen; of several hops the last one's times stay. The transport calls it
// from goroutines that may outlive the request.
type trace struct {
	start                time.Time
	sent                 atomic.Bool
	connected, firstByte atomic.Int64 // microseconds from start
}

func (t *trace) client() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			t.sent.Store(true) // bytes may have left already
			t.connected.Store(time.Since(t.start).Microseconds())
		},
		GotFirstResponseByte: func() { t.firstByte.Store(time.Since(t.start).Microseconds()) },
	}
}

// record copies what was noted into the exchange.
func (t *trace) record(e *Exchange) {
	e.Sent = t.sent.Load()
	e.Timing.ConnectedMS = float64(t.connected.Load()) / 1000
	e.Timing.FirstByteMS = float64(t.firstByte.Load()) / 1000
}

// hops is what checkRedirect needs of the call that is in progress.
type hops struct {
	call     Call
	exchange *Exchange
}

type hopsKey struct{}

var errRedirect = errors.New("the redirect is not followed")

// checkRedirect lets a call follow redirects when it may. What carries a secret never leaves the
// origin that it was meant for.
func checkRedirect(next *http.Request, via []*http.Request) error {
	h, ok := next.Context().Value(hopsKey{}).(*hops)
	if !ok || !h.call.follow {
		return http.ErrUseLastResponse
	}
	if len(via) > maxHops {
		return fmt.Errorf("%w: it is the %dth", errRedirect, len(via))
	}
	h.exchange.Hops = append(h.exchange.Hops, next.URL.String())
	if before := via[len(via)-1].Method; next.Method != before && next.Response.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("%w: after a %d a %s becomes a %s without its body; set url to where it leads",
			errRedirect, next.Response.StatusCode, before, next.Method)
	}
	if _, err := parseURL(next.URL.String()); err != nil {
		return fmt.Errorf("%w: %w", errRedirect, err)
	}
	next.Header.Del("Referer") // the address before may hold a secret
	if next.URL.Scheme == h.call.URL.Scheme && next.URL.Host == h.call.URL.Host {
		return nil
	}
	if h.call.sealed && next.Body != nil && next.Body != http.NoBody {
		return fmt.Errorf("%w: %s would get a body that carries a secret", errRedirect, next.URL.Host)
	}
	for _, name := range append(h.call.private, credentials...) {
		next.Header.Del(name)
	}
	return nil
}
