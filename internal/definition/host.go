package definition

import (
	"net/url"
	"path"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// hosts reads a list of mappings and of plain URLs.
func (r *reader) hosts(n *document.Node, at string, base scope) []pipeline.Host {
	hosts := []pipeline.Host{}
	if n == nil {
		return hosts
	}
	if n.Kind != document.List {
		r.Add(n, "wrong-kind", at, "want a list of hosts, found %s", n.Kind)
		return hosts
	}
	names := r.unique("host")
	for i, item := range n.Items {
		hosts = append(hosts, r.host(item, document.Index(at, i), names, base))
	}
	return hosts
}

func (r *reader) host(n *document.Node, at string, names names, base scope) pipeline.Host {
	switch n.Kind {
	case document.String:
		h := pipeline.Host{}
		h.Name, h.URL = r.hostURL(n, n.Text, at)
		if h.Name != "" {
			names.check(n, h.Name, at)
		}
		return h
	case document.Map:
	default:
		r.Add(n, "wrong-kind", at, "want a URL or a mapping, found %s", n.Kind)
		return pipeline.Host{}
	}
	if !r.Check(n, document.Place{Path: at, At: n.At}, host) {
		return pipeline.Host{}
	}
	h := pipeline.Host{URL: n.Str("url"), HostKey: r.fingerprint(n.Get("hostKey"), at+".hostKey"), Arch: n.Str("arch"),
		Root: n.Str("root"), Vars: r.vars(n.Get("vars"), at+".vars")}
	if own := r.overrideService(base, n, at); n.Get("service") != nil {
		h.Service = &own.service
	}
	if u := n.Get("url"); u != nil && u.Kind == document.String {
		h.Name, h.URL = r.hostURL(u, u.Text, at+".url")
	}
	if name := n.Get("name"); name != nil {
		h.Name = names.take(n, at)
	} else if h.Name != "" {
		names.check(n, h.Name, at)
	}
	if root := n.Get("root"); root != nil && (hasControl(h.Root) || strings.Contains("/"+h.Root+"/", "/../") ||
		strings.Trim(h.Root, "-~") != h.Root) {
		r.Add(root, "bad-path", at, "root %q: want a folder; a relative one counts from the home of the account", h.Root)
	}
	return h
}

// hostURL reports a URL that does not name a host. It returns the name that is in it, and the URL as it is stored: that of
// an ssh host has its user and port.
func (r *reader) hostURL(n *document.Node, text, at string) (name, stored string) {
	u, err := url.Parse(text)
	if err != nil && !strings.Contains(text, "://") {
		u, err = &url.URL{}, nil // such as user@host:22 and 10.0.0.1:22, which sshURL reads
	}
	if err == nil && !hasControl(text) {
		switch {
		case u.Scheme == "local":
			if name := localName(u); name != "" {
				return name, text
			}
		case u.Scheme == "ssh" || !strings.Contains(text, "://"):
			if name, stored := r.sshURL(n, u, text, at); stored != "" || name != "" {
				return name, stored
			}
		}
	}
	r.Add(n, "bad-url", at, "want ssh://[user@]host[:port], local://name or local:///dir")
	return "", text
}

// localName returns the name in the URL of a local host, local://name or local:///dir; "": it has none, or more than that, or
// is local:/name, which leaves open which of the two it means.
func localName(u *url.URL) string {
	switch {
	case u.OmitHost || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Port() != "" || u.Opaque != "":
		return ""
	case u.Host != "" && strings.Trim(u.Path, "/") == "" && validName(u.Host):
		return u.Host
	case u.Host == "" && path.Clean(u.Path) != "/" && path.IsAbs(u.Path):
		return path.Base(path.Clean(u.Path))
	}
	return ""
}
