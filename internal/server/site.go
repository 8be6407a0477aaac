package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// site is where a server is reached, and so which requests are this machine's own, and where browsers log in.
//
// A cookie knows no port: one for 127.0.0.1 would go to every other server on this machine. So on loopback browsers log in
// under a name that is the home's alone, below .localhost, which they resolve to this machine. Only
// a client with the home's token can learn the name.
type site struct {
	loopback bool     // it listens on this machine only
	own      string   // the home's own host name; used while it listens on loopback
	public   *url.URL // where clients reach it, as behind a proxy; nil: where it listens
}

// isLocal reports whether a request comes from this machine, as far as it can be known: nothing has passed it on, and no
// proxy is configured.
func (s site) isLocal(r *http.Request) bool {
	return s.loopback && s.public == nil && !forwarded(r)
}

// setScheme has a request that came by the public address say by which scheme, whatever the proxy says.
func (s site) setScheme(r *http.Request) {
	if s.public != nil && s.isLogin(r.Host) {
		r.Header.Set("X-Forwarded-Proto", s.public.Scheme)
	}
}

// forwarded reports whether a proxy has passed a request on, as far as the request shows it. A proxy that says so names
// itself (Via, CDN-Loop) or the client: by Forwarded and its relatives, or by an address, under any name. One that says nothing
// may still speak HTTP/1.0, as nginx does unless it is configured otherwise.
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

// isOwnHost reports whether a host is one of the server's names. A server on loopback refuses others, so that a page whose name is
// pointed at this machine cannot read what is here.
func (s site) isOwnHost(host string) bool {
	return !s.loopback || isLoopback(host) || s.isLogin(host)
}

// isLogin reports whether browsers log in under a host, and so whether a cookie counts there.
func (s site) isLogin(host string) bool {
	switch {
	case s.public != nil:
		return sameHost(host, s.public.Host, s.public.Scheme)
	case s.loopback:
		return strings.EqualFold(hostName(host), s.own)
	}
	return true
}

// loginOrigin is the origin under which a browser logs in that has reached the server at a host.
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

// sameHost compares hosts with ports; the scheme's own port may be left out.
func sameHost(a, b, scheme string) bool {
	port := map[string]string{"http": ":80", "https": ":443"}[scheme]
	return strings.EqualFold(strings.TrimSuffix(a, port), strings.TrimSuffix(b, port))
}

// hostName is a host without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// isLoopback reports whether host (with or without a port) is what every machine calls itself.
func isLoopback(host string) bool {
	name := hostName(host)
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || (ip != nil && ip.IsLoopback())
}
