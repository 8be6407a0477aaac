package testbed

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// serviceProxy is an HTTP proxy that knows the names of Services; another name is not found. Programs that use it need neither DNS nor
// addresses of Services.
type serviceProxy struct {
	mutex    sync.Mutex
	services map[string]http.Handler // by host name
	channels http.Handler            // answers for the host names of all channels
}

// clusterDomain ends the host name of every Service.
const clusterDomain = ".svc.cluster.local"

func serviceHost(namespace, name string) string { return name + "." + namespace + clusterDomain }

func (p *serviceProxy) expose(host string, handler http.Handler) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.services[host] = handler
}

func (p *serviceProxy) exposeChannels(handler http.Handler) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.channels = handler
}

// handler returns the handler of a host name, or nil.
func (p *serviceProxy) handler(host string) http.Handler {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if handler, ok := p.services[host]; ok {
		return handler
	}
	service, _, _ := strings.Cut(host, ".")
	if strings.HasSuffix(service, "-kn-channel") && strings.HasSuffix(host, clusterDomain) {
		return p.channels
	}
	return nil
}

func (p *serviceProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := p.handler(r.URL.Hostname())
	if handler == nil {
		http.Error(w, "testbed: no Service has the name "+r.URL.Hostname(), http.StatusNotFound)
		return
	}
	handler.ServeHTTP(w, r)
}

// serve serves the proxy at every listener until the test ends.
func (p *serviceProxy) serve(t testing.TB, listeners ...net.Listener) {
	t.Helper()
	server := &http.Server{Handler: p, ReadHeaderTimeout: patience}
	t.Cleanup(func() { _ = server.Close() }) // the listeners' errors are of no use
	for _, listener := range listeners {
		go func() { _ = server.Serve(listener) }() // it runs until it is closed
	}
}

// forwardTo returns a handler that hands requests to a server with the host name that they came with, as a Service does. A server that
// cannot be reached is a bad gateway.
func forwardTo(target *url.URL, dial func(ctx context.Context, network, address string) (net.Conn, error)) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 100},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "testbed: "+err.Error(), http.StatusBadGateway)
		},
	}
}
