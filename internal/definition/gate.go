package definition

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/address"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Bounds of a stage's gates. Every gate before the hosts comes before every group.
const (
	maxGates    = 20
	maxFailures = 1000
	maxNetworks = 100
	maxGateArgs = 100
	maxGateText = 32 << 10 // bytes of the arguments or the parameters of a gate, as written

	maxHandlerName = 63
)

// ownHandlers are handlers that server.yaml cannot have. The configuration lists the same names.
var ownHandlers = []string{"step", "service-stop", "service-restart", "build", "gate", "worker", "pull-request",
	"notification", "promotion-gate", "promotion-job", "promotion-cel", "promotion-notice", "eventflow", "environment", "subscriber"}

// gateTimeout bounds one request of a gate.
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

// gateWays are the keys of a gate's request.
var gateWays = []string{"http", "job", "cel", "handler"}

// gate reads one gate. An answer that does not pass it spends an attempt, no answer at all spends
// none, and the deadline ends it.
func (r *reader) gate(n *document.Node, at, name string) pipeline.Gate {
	interval := r.positive(n.Get("interval"), at+".interval", action.Duration(30*time.Second))
	g := pipeline.Gate{Name: name, When: pipeline.GateWhen(orDefault(n.Str("when"), string(pipeline.After))),
		Policy: action.Policy{Retries: r.whole(n.Get("failures"), at+".failures", 3, 1, maxFailures) - 1, Initial: interval,
			Factor: 1, Max: interval,
			Deadline: r.positive(n.Get("timeout"), at+".timeout", action.Duration(10*time.Minute))}}
	g.Policy.AttemptTimeout = g.Policy.Deadline
	ways := 0
	for _, key := range gateWays {
		if n.Get(key) != nil {
			ways++
		}
	}
	if ways != 1 && n.Kind == document.Map {
		r.Add(n, "several-kinds", at, "gate %q needs exactly one of http, job, cel, handler", name)
	}
	if request := n.Get("http"); request != nil {
		g.HTTP, g.Policy.AttemptTimeout = r.gateRequest(request, at+".http"), gateTimeout
	}
	if job := n.Get("job"); job != nil {
		g.Job = &pipeline.GateJob{Run: r.argv(job, "run", at+".job")}
		r.bounded(job.Get("run"), at+".job.run", maxGateArgs, maxGateText)
	}
	if cel := n.Get("cel"); cel != nil {
		if g.CEL = cel.Text; len(g.CEL) > maxGateText {
			r.Add(cel, "too-long", at+".cel", "%s.cel has %d bytes, at most %d", at, len(g.CEL), maxGateText)
		}
		g.Policy.AttemptTimeout = gateTimeout
	}
	if handler := n.Get("handler"); handler != nil {
		g.Handler = r.gateHandler(handler, at+".handler")
	}
	return g
}

// gateRequest reads the request of a gate.
func (r *reader) gateRequest(n *document.Node, at string) *pipeline.GateRequest {
	request := &pipeline.GateRequest{URL: n.Str("url"), Status: r.statuses(n.Get("status"), at+".status"), Body: n.Str("body")}
	if u := n.Get("url"); u != nil && u.Kind == document.String {
		r.gateURL(u, at)
	}
	if nets := n.Get("allowNetworks"); nets != nil && nets.Kind == document.List {
		request.AllowNetworks = r.networks(nets, at+".allowNetworks")
	}
	return request
}

// gateHandler reads the action of a gate. Handlers that Waybill brings are for its own actions: their parameters name
// the host to change.
func (r *reader) gateHandler(n *document.Node, at string) *pipeline.GateHandler {
	h := &pipeline.GateHandler{Name: n.Str("name")}
	if slices.Contains(ownHandlers, h.Name) {
		r.Add(n.Get("name"), "bad-name", at, "handler %q is for Waybill's own actions", h.Name)
	} else if len(h.Name) > maxHandlerName {
		r.Add(n.Get("name"), "too-long", at, "the name of a handler has at most %d bytes", maxHandlerName)
	}
	if parameters := n.Get("parameters"); parameters != nil && parameters.Kind == document.Map {
		h.Parameters, _ = json.Marshal(document.Plain(parameters)) // what was read as YAML can be written as JSON
		if len(h.Parameters) > maxGateText {
			r.Add(parameters, "too-long", at, "%s.parameters has %d bytes, at most %d", at, len(h.Parameters), maxGateText)
		}
	}
	return h
}

// bounded reports a list of too many texts, or of too long ones.
func (r *reader) bounded(n *document.Node, at string, items, bytes int) {
	if n == nil {
		return
	}
	total := 0
	for _, item := range n.Items {
		total += len(item.Text)
	}
	if len(n.Items) > items || total > bytes {
		r.Add(n, "too-long", at, "%s has %d texts of %d bytes together, at most %d of %d", at, len(n.Items), total, items, bytes)
	}
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

// gateAddress reports an address in a URL that no request is sent to, whatever happens until then. The meaning of a
// name is known only when the gate sends its request.
func (r *reader) gateAddress(n *document.Node, request *pipeline.GateRequest, vars map[string]string) {
	if request == nil || n == nil {
		return
	}
	text, err := Expand(request.URL, vars)
	if err != nil {
		return // checkVars reports it
	}
	u, err := url.Parse(text)
	if err != nil {
		return // gateURL reports it, or the gate, when a variable is the revision
	}
	at, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return // a name
	}
	var allow []netip.Prefix
	for _, text := range request.AllowNetworks {
		allow = append(allow, netip.MustParsePrefix(text)) // networks has read it
	}
	if err := address.Check(at, allow); err != nil {
		r.Add(n, "address-refused", "", "%s", err)
	}
}

// gateExpression reports an expression that cannot be compiled. The revision is replaced by a text that is valid in quotes only: outside
// of quotes, its label would be code.
func (r *reader) gateExpression(n *document.Node, gate string, vars map[string]string) {
	if n == nil || len(n.Text) > maxGateText || r.expression == nil {
		return
	}
	vars["revision"] = "'"
	text, err := ExpandCEL(n.Text, vars)
	if err != nil {
		return // checkVars reports it
	}
	if err := r.expression(text); err != nil {
		r.Add(n, "bad-expression", "", "cel of gate %q: %v", gate, err)
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
