package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// site is the set of addresses of a server. It decides which requests come from this machine, and where browsers log in.
//
// Browsers send a cookie to every port of a host: one for 127.0.0.1 would reach every other server on this machine. So on
// loopback browsers log in under a name below .localhost that only this home uses, and which they resolve to this machine.
// Only a client with the home's token can learn the name.
type site struct {
	loopback bool     // the server listens only on this machine
	own      string   // the home's own host name, used on loopback
	public   *url.URL // where clients reach the server, as behind a proxy; nil: where it listens
}

// isLocal reports whether a request comes from this machine, as far as the server can see: no proxy is configured, and none
// forwarded the request.
func (s site) isLocal(r *http.Request) bool {
	return s.loopback && s.public == nil && !forwarded(r)
}

// setScheme gives a request to the public address the scheme of that address, whatever the proxy sent.
func (s site) setScheme(r *http.Request) {
	if s.public != nil && s.isLogin(r.Host) {
		r.Header.Set("X-Forwarded-Proto", s.public.Scheme)
	}
}

// forwarded reports whether the request shows that a proxy forwarded it. Proxies add their own name (Via, CDN-Loop) or the
// client's: in Forwarded or a header like it, or as an address in any header. A proxy that adds nothing may still use
// HTTP/1.0, as nginx does by default.
func forwarded(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return true
	}
	for name, values := range r.Header {
		switch {
		case name == "Via", name == "Cdn-Loop", strings.Contains(name, "Forwarded"), strings.HasSuffix(name, "-Ip"),
			slices.ContainsFunc(values, isAddress):
			return true
		}
	}
	return false
}

// isAddress reports whether a header's value begins with an IP address, with or without a port, alone or in a list.
func isAddress(value string) bool {
	first, _, _ := strings.Cut(value, ",")
	first = strings.TrimSpace(first)
	if _, err := netip.ParseAddrPort(first); err == nil {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(first, "[]"))
	return err == nil
}

// isOwnHost reports whether a host is a name of the server. A server on loopback refuses other names, so that a foreign page
// whose name resolves to this machine cannot read anything.
func (s site) isOwnHost(host string) bool {
	return !s.loopback || isLoopback(host) || s.isLogin(host)
}

// isLogin reports whether browsers log in under a host. Cookies are only accepted there.
func (s site) isLogin(host string) bool {
	switch {
	case s.public != nil:
		return sameHost(host, s.public.Host, s.public.Scheme)
	case s.loopback:
		return strings.EqualFold(hostName(host), s.own)
	}
	return true
}

// loginOrigin returns the origin under which a browser logs in, for a browser that reached the server at a host.
func (s site) loginOrigin(host string) string {
	switch {
	case s.public != nil:
		return s.public.Scheme + "://" + s.public.Host
	case !s.loopback:
		return "http://" + host
	}
	if _, port, err := net.SplitHostPort(host); err == nil {
		return "http://" + net.JoinHostPort(s.own, port)
	}
	return "http://" + s.own
}

// sameHost reports whether hosts with ports are equal. The default port of the scheme may be left out.
func sameHost(a, b, scheme string) bool {
	port := map[string]string{"http": ":80", "https": ":443"}[scheme]
	return strings.EqualFold(strings.TrimSuffix(a, port), strings.TrimSuffix(b, port))
}

// hostName returns a host without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// isLoopback reports whether host, with or without a port, is localhost or a loopback address.
func isLoopback(host string) bool {
	name := hostName(host)
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || (ip != nil && ip.IsLoopback())
}
