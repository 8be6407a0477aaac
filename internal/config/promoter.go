package config

import (
	"net/netip"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
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
}

// promoterKeys returns the keys of promoter.
func promoterKeys() []document.Key {
	return []document.Key{
		{Name: "kubeconfig", Shape: document.Text,
			Help: "file that leads to the management cluster; default: the cluster that the process runs in"},
		{Name: "context", Shape: document.Text, Help: "context of that file; default: its current one"},
		{Name: "allowNetworks", Shape: document.Texts,
			Help: "networks (CIDR) such as 127.0.0.0/8 that Git hosts, gates and sinks may be in; the public internet and private networks always are"},
		{Name: "proposalInterval", Shape: document.Scalar, Default: "2m",
			Help: "time between two reads of an open pull request; five times as long once it is an hour old"},
		{Name: "plainHTTP", Shape: document.Flag, Default: "false", Help: "reach Git hosts, gates and sinks without TLS, too"},
		{Name: "oneNamespace", Shape: document.Flag, Default: "false",
			Help: "refuse a clusterRef to another namespace than the pipeline's"},
		{Name: "bodylessHMAC", Shape: document.Flag, Default: "false",
			Help: "accept approvals with the original controller's signature, which covers an empty body and can be replayed"},
		{Name: "frozen", Shape: document.Flag, Default: "false", Help: "begin an empty log with a freeze of all pipelines"},
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
	for name, field := range map[string]*bool{"plainHTTP": &p.PlainHTTP, "oneNamespace": &p.OneNamespace, "bodylessHMAC": &p.BodylessHMAC,
		"frozen": &p.Frozen} {
		if flag := n.Get(name); fits(flag, document.Flag) {
			*field = strings.EqualFold(flag.Text, "true")
		}
	}
	return p
}
