package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Bounds of the requests to one cluster.
const (
	queriesPerSecond = 20
	queryBurst       = 30
	requestLimit     = 10 * time.Second
	probeLimit       = 5 * time.Second
	pingAfter        = 15 * time.Second // time without data
)

// errUnauthorized means that a cluster does not accept the credentials.
var errUnauthorized = errors.New("the cluster does not accept the credentials (401)")

// connection is one HTTP/2 connection to a cluster, with the clients that share it.
type connection struct {
	objects   dynamic.Interface
	client    *http.Client
	server    *url.URL
	limit     flowcontrol.RateLimiter
	transport *http.Transport

	mutex sync.Mutex
	open  map[*tracked]struct{} // network connections
}

// dialer makes network connections.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// guardOf returns the check of the addresses of a cluster; nil: the operator has named it.
func (p *Pool) guardOf(cluster string) func(netip.Addr) error {
	if _, fixed := p.clusters[cluster]; fixed {
		return nil
	}
	return p.config.Check
}

// guarded returns a dialer that refuses addresses. It sees them after their names were looked up.
func guarded(d net.Dialer, check func(netip.Addr) error) dialer {
	d.Control = func(_, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err != nil {
			return fmt.Errorf("connect to %s: %w", to, err)
		}
		return check(at.Addr())
	}
	return d.DialContext
}

// connect returns a connection, which is made with the first request. check refuses addresses, but not that of this
// process's own proxy; nil: none. unauthorized is called with each answer 401. The transports of client-go are not
// used: it keeps them for good.
func connect(config *rest.Config, dial dialer, check func(netip.Addr) error, unauthorized func()) (*connection, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "waybill"
	config.WarningHandler = rest.NoWarnings{}
	config.Timeout = 0 // it would end watches
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(queriesPerSecond, queryBurst)
	given, err := config.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	tcp := net.Dialer{Timeout: requestLimit, KeepAlive: 30 * time.Second}
	direct := tcp.DialContext
	if via, err := http.ProxyFromEnvironment(&http.Request{URL: server}); check != nil && (given.Proxy != nil || via == nil && err == nil) {
		direct = guarded(tcp, check)
	}
	// IdleConnTimeout stays zero, since probes keep the connection in use.
	c := &connection{open: map[*tracked]struct{}{}, transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            direct,
		TLSClientConfig:        tls,
		TLSHandshakeTimeout:    requestLimit,
		ResponseHeaderTimeout:  requestLimit,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 256 << 10,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
	}}
	if given.Proxy != nil {
		c.transport.Proxy = given.Proxy
	}
	if given.DialHolder != nil {
		c.transport.DialContext = given.DialHolder.Dial
	}
	if dial != nil {
		c.transport.DialContext = dial
	}
	c.transport.DialContext = c.track(c.transport.DialContext)
	wrapped, err := rest.HTTPWrappersForConfig(config, c.transport)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	client := &http.Client{
		Transport:     observed{wrapped, unauthorized},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if c.objects, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	c.server, c.client, c.limit = server, client, config.RateLimiter
	return c, nil
}

// close ends the network connections. The caller has ended all requests, but streams may still be closing, for which
// the transport does not count their connection as idle.
func (c *connection) close() {
	c.transport.CloseIdleConnections()
	c.mutex.Lock()
	open := slices.Collect(maps.Keys(c.open))
	c.mutex.Unlock()
	for _, one := range open {
		_ = one.Close() // it may be closed already
	}
}

// tracked is an open network connection.
type tracked struct {
	net.Conn
	of *connection
}

// track returns a dialer whose connections close ends.
func (c *connection) track(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		made, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		one := &tracked{made, c}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.open[one] = struct{}{}
		return one, nil
	}
}

func (t *tracked) Close() error {
	t.of.mutex.Lock()
	delete(t.of.open, t)
	t.of.mutex.Unlock()
	return t.Conn.Close()
}

// observed calls a function with each answer 401, and bounds the other answers.
type observed struct {
	http.RoundTripper
	unauthorized func()
}

func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.RoundTripper.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		o.unauthorized()
	}
	if err == nil && r.URL.Query().Get("watch") != "true" {
		response.Body = &bounded{response.Body, maxResponse}
	}
	return response, err
}

// bounded is a body with a limit of bytes.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxResponse)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// probe requests the version of the cluster, outside of the limit of queries. Every answer of a working server is good.
func (c *connection) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("no answer within %s", probeLimit))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server.JoinPath("version").String(), nil)
	if err != nil {
		return err
	}
	response, err := c.client.Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is used again
	if err := response.Body.Close(); err != nil {
		return err
	}
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return errUnauthorized
	case response.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("GET /version: %s", response.Status)
	}
	return nil
}

// resource finds the served resource of a kind, in the wanted version or else in the one that the cluster prefers. It
// returns false if there is none.
func (c *connection) resource(ctx context.Context, kind schema.GroupVersionKind) (found resource, served bool, err error) {
	if err := checkKind(kind); err != nil {
		return resource{}, false, err
	}
	if found, served, err = c.resourceIn(ctx, kind.GroupVersion(), kind.Kind); err != nil || served || kind.Group == "" {
		return found, served, err
	}
	group := &metav1.APIGroup{}
	err = c.get(ctx, "/apis/"+kind.Group, group)
	if errors.Is(err, errNotServed) {
		return resource{}, false, nil
	}
	if err != nil {
		return resource{}, false, err
	}
	versions := append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...)
	for _, version := range versions[:min(len(versions), maxVersions)] {
		if version.Version == "" || version.Version == kind.Version {
			continue
		}
		in := schema.GroupVersion{Group: kind.Group, Version: version.Version}
		if found, served, err = c.resourceIn(ctx, in, kind.Kind); err != nil || served {
			return found, served, err
		}
	}
	return resource{}, false, nil
}

// checkKind checks a kind that a tenant has named: it becomes a part of paths.
func checkKind(kind schema.GroupVersionKind) error {
	if kind.Group != "" {
		if bad := content.IsPathSegmentName(kind.Group); len(bad) > 0 {
			return fmt.Errorf("group %.100q %s", kind.Group, bad[0])
		}
	}
	if bad := content.IsPathSegmentName(kind.Version); len(bad) > 0 || kind.Version == "" {
		return fmt.Errorf("version %.100q is not valid", kind.Version)
	}
	return nil
}

// maxVersions bounds the versions of a group that are searched for a kind.
const maxVersions = 16

// resource is a served resource.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

func (c *connection) resourceIn(ctx context.Context, in schema.GroupVersion, kind string) (resource, bool, error) {
	list := &metav1.APIResourceList{}
	if err := c.get(ctx, pathOf(in), list); err != nil {
		if errors.Is(err, errNotServed) {
			err = nil
		}
		return resource{}, false, err
	}
	for _, one := range list.APIResources {
		if one.Kind == kind && !strings.Contains(one.Name, "/") {
			return resource{in.WithResource(one.Name), one.Namespaced}, true, nil
		}
	}
	return resource{}, false, nil
}

// pathOf returns the path of a version of a group.
func pathOf(in schema.GroupVersion) string {
	if in.Group == "" {
		return "/api/" + in.Version
	}
	return "/apis/" + in.String()
}

// maxDocument bounds a document of the API about kinds.
const maxDocument = 4 << 20

// errNotServed means that the document does not exist.
var errNotServed = errors.New("not served")

// get reads a document of the API about kinds.
func (c *connection) get(ctx context.Context, at string, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestLimit, fmt.Errorf("no answer within %s", requestLimit))
	defer cancel()
	if err := c.limit.Wait(ctx); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server.JoinPath(at).String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocument))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	switch response.StatusCode {
	case http.StatusOK:
		return json.Unmarshal(text, into)
	case http.StatusNotFound:
		return errNotServed
	case http.StatusUnauthorized:
		return errUnauthorized
	}
	return fmt.Errorf("GET %s: %s", at, response.Status)
}
