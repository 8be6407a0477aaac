package config

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/osb"
)

// Broker configures the service broker.
type Broker struct {
	Listen    string                // host:port; default 127.0.0.1:7071
	PlainHTTP bool                  // it may listen elsewhere than on loopback, where TLS is in front of it
	Users     map[string]BrokerUser // platforms by their name
	Catalog   string                // a file; ParseCatalog of package osb reads it
	Layout    osb.Layout            // how Applications become services: per-service or per-application; "" (default): none does
	Tombstone time.Duration         // time for which the end of a deletion is reported; default 1h
}

// BrokerUser is a platform that may use the broker.
type BrokerUser struct {
	Passwords  [][sha256.Size]byte // digests; several for rotation
	Namespaces []string            // namespaces of Kubernetes where its flows may be; nil (default): all
}

// Bounds and defaults of the broker.
const (
	defaultBrokerListen = "127.0.0.1:7071"
	defaultTombstone    = time.Hour
	mostBrokerUsers     = 1000
)

// brokerKeys returns the keys of broker.
func brokerKeys() []document.Key {
	return []document.Key{
		{Name: "listen", Shape: document.Text, Default: defaultBrokerListen, Help: "host:port of the Open Service Broker API"},
		{Name: "plainHTTP", Shape: document.Flag, Default: "false",
			Help: "listen elsewhere than on loopback: passwords are not encrypted, put TLS in front"},
		{Name: "users", Shape: document.Object, Help: "platforms by name, each with passwords; the user waybill has the home's token"},
		{Name: "catalog", Shape: document.Text, Required: true, Help: "file with services and plans, read again when it changes"},
		{Name: "layout", Shape: document.Text, Values: []string{string(osb.PerService), string(osb.PerApplication)}, Default: "no Applications",
			Help: "how the Applications that are mapped into a namespace become its catalog, at /ns/NAMESPACE/v2"},
		{Name: "tombstone", Shape: document.Scalar, Default: "1h", Help: "how long the end of a deletion is reported before its service instance is gone"},
	}
}

// brokerUserKeys returns the keys of one user of the broker.
func brokerUserKeys() []document.Key {
	return []document.Key{{Name: "passwords", Shape: document.Texts, Required: true,
		Help: "SHA-256 digests in hexadecimal digits, two for rotation: printf %s PASSWORD | sha256sum"},
		{Name: "namespaces", Shape: document.Texts, Default: "all", Help: "namespaces of Kubernetes where its service instances may be flows"}}
}

// broker reads the section of the broker.
func (r *reader) broker(n *document.Node) *Broker {
	b := &Broker{Listen: defaultBrokerListen, Tombstone: defaultTombstone}
	if v := n.Get("listen"); fits(v, document.Text) {
		b.Listen = r.hostPort(v, "broker.listen")
	}
	if v := n.Get("plainHTTP"); fits(v, document.Flag) {
		b.PlainHTTP = strings.EqualFold(v.Text, "true")
	}
	if !b.PlainHTTP && !onLoopback(b.Listen) {
		r.Add(n.Get("listen"), "value-invalid", "broker.listen", "passwords would not be encrypted on the way to %s: "+
			"put TLS in front of it and set plainHTTP: true, or listen on 127.0.0.1", b.Listen)
	}
	b.Catalog = strings.TrimPrefix(r.location(n.Get("catalog"), "file:"), "file:")
	if v := n.Get("tombstone"); fits(v, document.Scalar) && v.Text != "0" {
		b.Tombstone = r.span(v, "broker.tombstone")
	} else if v != nil && v.Text == "0" {
		b.Tombstone = 0
	}
	if v := n.Get("layout"); fits(v, document.Text) {
		b.Layout = osb.Layout(v.Text)
	}
	b.Users = r.brokerUsers(n.Get("users"))
	return b
}

// brokerUsers reads the platforms that may use the broker.
func (r *reader) brokerUsers(n *document.Node) map[string]BrokerUser {
	if !fits(n, document.Object) {
		return nil
	}
	if len(n.Fields) > mostBrokerUsers {
		r.Add(n, "value-invalid", "broker.users", "%d users, at most %d", len(n.Fields), mostBrokerUsers)
		return nil
	}
	users := map[string]BrokerUser{}
	for _, f := range n.Fields {
		path := r.Join("broker.users", f.Key)
		if !handlerName.MatchString(f.Key) {
			r.Add(&document.Node{At: f.At}, "value-invalid", "",
				"user %q: want a name of letters, digits, -, _ and . with at most 63 characters", f.Key)
			continue
		}
		if r.Check(f.Value, document.Place{Path: path, At: f.At}, brokerUserKeys()) {
			users[f.Key] = BrokerUser{Passwords: r.keyDigests(f.Value.Get("passwords"), path+".passwords"),
				Namespaces: r.namespaces(f.Value.Get("namespaces"), path+".namespaces")}
		}
	}
	return users
}

// onLoopback reports whether an address to listen at is reached from this machine only.
func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return true // reported
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
