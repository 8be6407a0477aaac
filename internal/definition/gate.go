package definition

import (
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Bounds of a stage's gates. Every gate before the hosts comes before every group.
const (
	maxGates    = 20
	maxFailures = 1000
	maxNetworks = 100
)

// gateTimeout is how long one question of a gate may take.
const gateTimeout = action.Duration(30 * time.Second)

// gates reads the gates of a stage.
func (r *reader) gates(n *document.Node, at string) []pipeline.Gate {
	var out []pipeline.Gate
	names := r.unique("gate")
	for i, item := range items(n) {
		at := document.Index(at, i)
		out = append(out, r.gate(item, at, names.take(item, at)))
	}
	if len(out) > maxGates {
		r.Add(n, "too-many", at, "the stage has %d gates, at most %d", len(out), maxGates)
	}
	return out
}

// gate reads one gate. An answer that does not pass it spends an attempt, no answer at all spends
// none, and the deadline ends it.
func (r *reader) gate(n *document.Node, at, name string) pipeline.Gate {
	interval := r.positive(n.Get("interval"), at+".interval", action.Duration(30*time.Second))
	g := pipeline.Gate{Name: name, When: pipeline.GateWhen(orDefault(n.Str("when"), string(pipeline.After))), HTTP: &pipeline.GateRequest{},
		Policy: action.Policy{Retries: r.whole(n.Get("failures"), at+".failures", 3, 1, maxFailures) - 1, Initial: interval, Factor: 1, Max: interval,
			AttemptTimeout: gateTimeout, Deadline: r.positive(n.Get("timeout"), at+".timeout", action.Duration(10*time.Minute))}}
	request := n.Get("http")
	if request == nil {
		if n.Get("job") == nil && n.Get("cel") == nil && n.Get("handler") == nil { // these are reported
			r.Add(n, "field-missing", at, "gate %q needs http", name)
		}
		return g
	}
	at += ".http"
	g.HTTP = &pipeline.GateRequest{URL: request.Str("url"), Status: r.statuses(request.Get("status"), at+".status"), Body: request.Str("body")}
	if u := request.Get("url"); u != nil && u.Kind == document.String {
		r.gateURL(u, at)
	}
	if nets := request.Get("allowNetworks"); nets != nil && nets.Kind == document.List {
		g.HTTP.AllowNetworks = r.networks(nets, at+".allowNetworks")
	}
	return g
}

// gateURL reports a URL that no request could be sent to. Variables are replaced later; here they
// stand for a word.
func (r *reader) gateURL(n *document.Node, at string) {
	var text strings.Builder
	err := scan(n.Text, func(literal string) { text.WriteString(literal) }, func(string) error {
		text.WriteString("1")
		return nil
	})
	if err != nil {
		return // checkVars reports it
	}
	switch u, err := url.Parse(text.String()); {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", hasControl(n.Text):
		r.Add(n, "bad-url", at, "url: want a URL such as https://example.net/ready")
	case u.User != nil:
		r.Add(n, "bad-url", at, "url: a user or password does not belong in an address")
	}
}

// networks reads networks in CIDR form.
func (r *reader) networks(n *document.Node, at string) []string {
	var out []string
	for i, item := range n.Items {
		if _, err := netip.ParsePrefix(item.Text); err != nil {
			r.Add(item, "bad-network", at, "%s: want a network such as 10.0.0.0/8", document.Index(at, i))
			continue
		}
		out = append(out, item.Text)
	}
	if len(out) > maxNetworks {
		r.Add(n, "too-many", at, "%s has %d networks, at most %d", at, len(out), maxNetworks)
	}
	return out
}
