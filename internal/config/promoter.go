package config

import (
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/secret"
)

// Promoter configures the promotion of revisions through Kubernetes pipelines.
type Promoter struct {
	Kubeconfig string // a file that leads to the management cluster; "" (default): the cluster that this process runs in
	Context    string // in the file; "" (default): its current one
	// AllowNetworks has networks that Git hosts, gates and sinks may be in besides the public internet and private ones.
	AllowNetworks []netip.Prefix
	// ProposalInterval is the time between two reads of an open pull request, for hosts that do not call back; default 2m.
	ProposalInterval time.Duration
	PlainHTTP        bool // Git hosts, gates and sinks may be reached without TLS
	// OneNamespace refuses a clusterRef to another namespace than the pipeline's.
	OneNamespace bool
	// BodylessHMAC accepts the approvals of the original controller, whose signature covers an empty body and can be replayed.
	BodylessHMAC bool
	Frozen       bool // an empty log begins with a freeze of all pipelines
	Hooks        map[string]Hook
	// Committer is author and committer of the commits of pull requests, for hosts that accept certain addresses only. Empty parts have
	// the default Waybill <waybill@noreply.invalid>.
	Committer Committer
	// Clusters are those that stages with an environment of a waybill.yaml promote to, by their names. The operator wrote them, so
	// their kubeconfigs may name programs and files.
	Clusters map[string]Cluster
	Secrets  []secret.Source // credentials of Git hosts for such stages: a token each, or a JSON object with the keys of a Secret
}

// Cluster leads to a cluster.
type Cluster struct {
	Kubeconfig string // a file; "" (default): the files of KUBECONFIG, else ~/.kube/config
	Context    string // in the file; "" (default): its current one
}

// Committer is a person as commits of Git name it.
type Committer struct{ Name, Email string }

// promoterKeys returns the keys of promoter.
func promoterKeys() []document.Key {
	return []document.Key{
		{Name: "kubeconfig", Shape: document.Text,
			Help: "file that leads to the management cluster; default: the cluster that the process runs in"},
		{Name: "context", Shape: document.Text, Help: "context of that file; default: its current one"},
		{Name: "allowNetworks", Shape: document.Texts,
			Help: "networks (CIDR) such as 127.0.0.0/8 that Git hosts, gates, sinks and GitopsClusters may be in; " +
				"the public internet and private networks always are"},
		{Name: "proposalInterval", Shape: document.Scalar, Default: "2m",
			Help: "time between two reads of an open pull request; five times as long once it is an hour old"},
		{Name: "plainHTTP", Shape: document.Flag, Default: "false", Help: "reach Git hosts, gates and sinks without TLS, too"},
		{Name: "oneNamespace", Shape: document.Flag, Default: "false",
			Help: "refuse a clusterRef to another namespace than the pipeline's, and cel over its objects"},
		{Name: "bodylessHMAC", Shape: document.Flag, Default: "false",
			Help: "accept approvals with the original controller's signature, which covers an empty body and can be replayed"},
		{Name: "clusters", Shape: document.Object, Help: "clusters by their names, for stages with an environment of a waybill.yaml: " +
			"kubeconfig (default: kubectl's) and context (default: the current one)"},
		{Name: "secrets", Shape: document.Objects, Keys: secretKeys(),
			Help: "credentials of Git hosts for such stages: a token, or a JSON object with the keys of a Secret"},
		{Name: "frozen", Shape: document.Flag, Default: "false", Help: "begin an empty log with a freeze of all pipelines"},
		{Name: "hooks", Shape: document.Objects, Help: "webhooks of Git hosts, which have open pull requests read at once", Keys: hookKeys()},
		{Name: "committer", Shape: document.Object, Help: "author of the commits of pull requests, where a Git host accepts certain addresses only",
			Keys: []document.Key{
				{Name: "name", Shape: document.Text, Default: "Waybill"},
				{Name: "email", Shape: document.Text, Default: "waybill@noreply.invalid"},
			}},
	}
}

func (r *reader) promoter(n *document.Node) *Promoter {
	p := &Promoter{Kubeconfig: r.location(n.Get("kubeconfig"), "file:")}
	if c := n.Get("context"); fits(c, document.Text) {
		p.Context = c.Text
	}
	if nets := n.Get("allowNetworks"); fits(nets, document.Texts) {
		p.AllowNetworks = r.guard(nets, "promoter.allowNetworks").Allow
	}
	if n := n.Get("proposalInterval"); fits(n, document.Scalar) {
		p.ProposalInterval = r.span(n, "promoter.proposalInterval")
	}
	p.Clusters = r.clusters(n.Get("clusters"))
	p.Secrets = (&handlerReader{reader: r, path: "promoter"}).secrets(n.Get("secrets"))
	for name, field := range map[string]*bool{"plainHTTP": &p.PlainHTTP, "oneNamespace": &p.OneNamespace, "bodylessHMAC": &p.BodylessHMAC,
		"frozen": &p.Frozen} {
		if flag := n.Get(name); fits(flag, document.Flag) {
			*field = strings.EqualFold(flag.Text, "true")
		}
	}
	if hooks := n.Get("hooks"); fits(hooks, document.Objects) {
		p.Hooks = r.hooks(hooks)
	}
	if n := n.Get("committer"); fits(n, document.Object) {
		p.Committer = Committer{Name: r.person(n, "name", ""), Email: r.person(n, "email", "@")}
	}
	return p
}

// person reads the name or the address of a committer, which has a text in it.
func (r *reader) person(n *document.Node, key, within string) string {
	n = n.Get(key)
	if !fits(n, document.Text) {
		return ""
	}
	isBad := func(c rune) bool { return c < ' ' || c == 0x7f || strings.ContainsRune("<>\"", c) }
	if n.Text == "" || len(n.Text) > mostPerson || strings.ContainsFunc(n.Text, isBad) || strings.TrimSpace(n.Text) != n.Text ||
		!strings.Contains(n.Text, within) {
		r.Add(n, "value-invalid", "promoter.committer."+key, "want %s as in commits, of at most %d bytes, found %q",
			map[bool]string{true: "a name", false: "an address"}[within == ""], mostPerson, n.Text)
		return ""
	}
	return n.Text
}

// mostPerson bounds the name and the address of a committer.
const mostPerson = 200

// clusterName matches the name of a cluster.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,252}$`)

// clusters reads the clusters of environments.
func (r *reader) clusters(n *document.Node) map[string]Cluster {
	if !fits(n, document.Object) {
		return nil
	}
	all := map[string]Cluster{}
	for _, f := range n.Fields {
		path := r.Join("promoter.clusters", f.Key)
		if !clusterName.MatchString(f.Key) {
			r.Add(&document.Node{At: f.At}, "value-invalid", path, "cluster %q: want a name of letters, digits, -, _ and .", f.Key)
			continue
		}
		if !r.Check(f.Value, document.Place{Path: path, At: f.At}, clusterKeys()) {
			continue
		}
		all[f.Key] = Cluster{Kubeconfig: r.location(f.Value.Get("kubeconfig"), "file:"), Context: f.Value.Str("context")}
	}
	return all
}

// clusterKeys returns the keys of a cluster.
func clusterKeys() []document.Key {
	return []document.Key{
		{Name: "kubeconfig", Shape: document.Text, Help: "file that leads to it; default: the files of KUBECONFIG, else ~/.kube/config"},
		{Name: "context", Shape: document.Text, Help: "context of that file; default: its current one"},
	}
}
