package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// Proxy is through which server requests go. The zero value is none: they go to their targets.
//
// A proxy looks names up itself, so the guard cannot see where they lead: the proxy itself must
// refuse services beside it. The guard still checks targets that are given as an address. It does
// not check the proxy's own address, which was configured on purpose.
type Proxy struct {
	of        func(target *url.URL) (*url.URL, error)
	addresses []string // host:port of the proxies
}

// FromEnvironment is the word for the proxies in HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
const FromEnvironment = "environment"

// proxySchemes are what a proxy may speak, each with its usual port.
var proxySchemes = map[string]string{"http": "80", "https": "443", "socks5": "1080"}

// ParseProxy reads the address of a proxy, such as http://proxy.example.org:3128, or the word
// environment.
func ParseProxy(text string) (Proxy, error) {
	if text == FromEnvironment {
		return proxyOfEnvironment()
	}
	u, err := parseProxy(text)
	if err != nil || !strings.Contains(text, "://") {
		return Proxy{},
			fmt.Errorf("want %s, or an address such as http://proxy.example.org:3128 (http, https or socks5), found %q", FromEnvironment, text)
	}
	if u.User != nil {
		return Proxy{}, fmt.Errorf("a user and a password do not belong in this file: set HTTPS_PROXY, and say %s", FromEnvironment)
	}
	return Proxy{of: func(*url.URL) (*url.URL, error) { return u, nil }, addresses: []string{dialed(u)}}, nil
}

func proxyOfEnvironment() (Proxy, error) {
	said := httpproxy.FromEnvironment()
	p := Proxy{of: said.ProxyFunc()} // it would ignore what is not an address
	for name, value := range map[string]string{"HTTP_PROXY": said.HTTPProxy, "HTTPS_PROXY": said.HTTPSProxy} {
		if value == "" {
			continue
		}
		u, err := parseProxy(value)
		if err != nil {
			return Proxy{}, fmt.Errorf("%s of the environment is not the address of a proxy", name) // it may hold a password
		}
		p.addresses = append(p.addresses, dialed(u))
	}
	return p, nil
}

// parseProxy reads the address of a proxy; one without a scheme speaks HTTP.
func parseProxy(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err == nil && (proxySchemes[strings.TrimSuffix(u.Scheme, "h")] == "" || u.Hostname() == "") {
		err = errors.New("it is not the address of a proxy")
	}
	return u, err
}

// dialed returns the address that is dialed for a proxy.
func dialed(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), proxySchemes[strings.TrimSuffix(u.Scheme, "h")]))
}

// For returns the proxy that a request for this address goes through; nil: it goes there directly.
func (p Proxy) For(target *url.URL) (*url.URL, error) {
	if p.of == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	return p.of(target)
}

// route returns a hook of http.Transport. It returns the proxy of a request whose target may be requested.
func (p Proxy) route(g Guard) func(*http.Request) (*url.URL, error) {
	if p.of == nil {
		return nil
	}
	return func(r *http.Request) (*url.URL, error) {
		via, err := p.of(r.URL)
		if err != nil || via == nil {
			return nil, err
		}
		return via, g.checkHost(r.URL.Hostname())
	}
}

// dial lets connections to a proxy through, and has all others guarded.
func (p Proxy) dial(plain, guarded *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if slices.Contains(p.addresses, address) {
			return plain.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// refusedByProxy returns the words in which a proxy refused to connect to a target.
func refusedByProxy(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return errors.New("the proxy does not connect to the target: it answers " + answer.Status)
}

// checkHost refuses what is an address, or a name of this machine. Other names are for the proxy to
// look up.
func (g Guard) checkHost(host string) error {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		host = "127.0.0.1"
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return nil //nolint:nilerr // it is a name
	}
	return g.Check(address)
}
