package definition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// events of the built-in steps.
var events = map[string]string{
	pipeline.Replicate: pipeline.HostReplicated,
	pipeline.Deploy:    pipeline.HostDeployed,
	pipeline.Test:      pipeline.HostTested,
}

// chain collects the steps of a host.
type chain struct {
	r       *reader
	policy  action.Policy
	testing action.Policy // policy of the step test
	at      string
	steps   []pipeline.Step
	seen    map[string]*document.Node
}

// add reads one item: the name of a built-in step, or a mapping.
func (c *chain) add(n *document.Node, at string) {
	switch n.Kind {
	case document.String:
		c.builtIn(n, n.Text, at, c.inherited(n.Text))
	case document.Map:
		c.mapping(n, at)
	default:
		c.r.Add(n, "wrong-kind", at, "want the name of a step or a mapping, found %s", n.Kind)
	}
}

// inherited returns the policy that the step with a name has when it sets none itself.
func (c *chain) inherited(name string) action.Policy {
	if name == pipeline.Test {
		return c.testing
	}
	return c.policy
}

func (c *chain) builtIn(n *document.Node, name, at string, policy action.Policy) {
	event, known := events[name]
	if !known {
		c.r.Problems.Add(unknownStep(n, name))
		return
	}
	if first, twice := c.seen[name]; twice {
		c.r.Add(n, "name-repeated", at, "step %q is already in the chain on line %d", name, first.At.Line)
		return
	}
	if name == pipeline.Replicate && c.seen[pipeline.Deploy] != nil {
		c.r.Add(c.seen[pipeline.Deploy], "order", at, "deploy comes before replicate")
	}
	c.seen[name] = n
	c.steps = append(c.steps, pipeline.Step{Name: name, Event: event, Policy: policy})
}

func (c *chain) mapping(n *document.Node, at string) {
	if !c.r.Check(n, document.Place{Path: at, At: n.At}, step) {
		return
	}
	name := n.Str("name")
	policy := c.r.policy(n.Get("retry"), at+".retry", c.inherited(name))
	if slices.Contains(builtIn, name) {
		if run := n.Get("run"); run != nil {
			c.r.Add(run, "misplaced", at, "step %q is built in and runs nothing else", name)
		}
		for _, key := range []string{"env", "once"} {
			if field := n.Get(key); field != nil {
				c.r.Add(field, "misplaced", at, "%s belongs to own steps, and %q is built in", key, name)
			}
		}
		c.builtIn(n, name, at, policy)
		return
	}
	if name == "" {
		return
	}
	c.own(n, name, at, policy)
}

func (c *chain) own(n *document.Node, name, at string, policy action.Policy) {
	event := "host-" + name
	switch first, twice := c.seen[name]; {
	case !validName(name):
		c.r.Add(n.Get("name"), "bad-name", at, `step name %q: letters, digits, "-" and "." only`, name)
	case reserved(event):
		c.r.Add(n.Get("name"), "bad-name", at, "step name %q is reserved: %s is an event of Waybill", name, event)
	case twice:
		c.r.Add(n.Get("name"), "name-repeated", at, "step %q is already defined on line %d", name, first.At.Line)
		return // else the chain is reported too
	case n.Get("run") == nil && n.Get("request") == nil && n.Get("handler") == nil:
		c.r.Add(n, "field-missing", at, "step %q needs exactly one of run, request, handler", name)
	case n.Get("run") != nil && (n.Get("request") != nil || n.Get("handler") != nil):
		c.r.Add(n, "several-kinds", at, "step %q needs exactly one of run, request, handler", name)
	}
	c.seen[name] = n
	c.steps = append(c.steps, pipeline.Step{Name: name, Event: event, Run: c.r.argv(n, "run", at),
		Env: n.Get("env") == nil || isTrue(n.Get("env")), Once: isTrue(n.Get("once")), Policy: policy})
}

// reserved reports whether an own step's event would be one of Waybill's.
func reserved(event string) bool {
	return slices.Contains([]string{pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostTested, pipeline.HostStarted,
		pipeline.HostFinished, pipeline.HostFailed, pipeline.HostFailureTolerated, pipeline.HostJoined, pipeline.HostLeft,
		"host-tested", "host-finished"}, event) || strings.HasPrefix(event, "host-group-")
}

func unknownStep(n *document.Node, name string) fault.Problem {
	return fault.Problem{Position: n.At, Code: "value-unknown", Suggestion: fault.Nearest(name, builtIn),
		Text: "built-in step " + strconv.Quote(name) + " not found: want replicate, deploy, test, or {name: …, run: […]}"}
}

// checks reads the tests of a host.
func (r *reader) checks(n *document.Node, at string, timeout action.Duration) []pipeline.Check {
	var out []pipeline.Check
	for i, item := range items(n) {
		out = append(out, r.check(item, document.Index(at, i), timeout))
	}
	return out
}

func (r *reader) check(n *document.Node, at string, timeout action.Duration) pipeline.Check {
	c := pipeline.Check{HTTP: n.Str("http"), TCP: n.Str("tcp"), Body: n.Str("body"),
		Timeout: r.positive(n.Get("timeout"), at+".timeout", timeout)}
	ways := 0
	for _, key := range []string{"http", "tcp", "run"} {
		if n.Get(key) != nil {
			ways++
		}
	}
	if ways != 1 && n.Kind == document.Map {
		r.Add(n, "several-kinds", at, "%s needs exactly one of http, tcp, run", at)
	}
	if n.Get("run") != nil {
		c.Run = r.argv(n, "run", at)
		if n.Get("timeout") == nil && timeout == testTry { // a program may take long: the attempt bounds it
			c.Timeout = 0
		}
	}
	r.requestOf(n, at, &c)
	if tcp := n.Get("tcp"); tcp != nil && !strings.Contains(c.TCP, ":") {
		r.Add(tcp, "bad-address", at, "tcp: want an address such as 127.0.0.1:${port}")
	}
	return c
}

// requestOf reads the keys of a check that sends a request, and reports them where it sends none.
func (r *reader) requestOf(n *document.Node, at string, c *pipeline.Check) {
	http := n.Get("http")
	if http == nil {
		for _, key := range []string{"status", "body", "headers"} {
			if field := n.Get(key); field != nil {
				r.Add(field, "misplaced", at, "%s belongs to http", key)
			}
		}
		return
	}
	c.Status, c.Headers = r.statuses(n.Get("status"), at+".status"), r.headers(n.Get("headers"), at+".headers")
	scheme, rest, _ := strings.Cut(c.HTTP, "://")
	if scheme != "http" && scheme != "https" || strings.TrimLeft(rest, "/?#:") != rest || rest == "" {
		r.Add(http, "bad-url", at, "http: want a URL such as http://127.0.0.1:${port}/ready")
	}
}

// mostHeaders is the number of header fields that a check may send.
const mostHeaders = 32

// headers reads the header fields of a check.
func (r *reader) headers(n *document.Node, at string) map[string]string {
	if n == nil || n.Kind != document.Map || len(n.Fields) == 0 {
		return nil
	}
	if len(n.Fields) > mostHeaders {
		r.Add(n, "too-long", at, "%s has %d header fields, at most %d", at, len(n.Fields), mostHeaders)
		return nil
	}
	out := map[string]string{}
	for _, f := range n.Fields {
		switch {
		case !headerName.MatchString(f.Key):
			r.Problems.Add(fault.Problem{Position: f.At, Code: "bad-header", Scope: at,
				Text: fmt.Sprintf("%q is not the name of a header field", f.Key)})
		case hasControl(f.Value.Text):
			r.Add(f.Value, "bad-header", r.Join(at, f.Key), "the value of %s has a control character", f.Key)
		default:
			out[f.Key] = f.Value.Text
		}
	}
	return out
}

func (r *reader) statuses(n *document.Node, at string) []int {
	if n == nil || len(n.Items) == 0 {
		return []int{200}
	}
	var out []int
	for i, item := range n.Items {
		code, err := strconv.Atoi(item.Text)
		if err != nil || code < 100 || code > 599 {
			r.Add(item, "out-of-range", document.Index(at, i), "%s: want a status such as 200", document.Index(at, i))
			continue
		}
		out = append(out, code)
	}
	return out
}
