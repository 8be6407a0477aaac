package resource

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Gate is a check of an environment. Exactly one of HTTP, Job and CEL is set.
type Gate struct {
	promotion.Gate
	Policy action.Policy // as of the gates of waybill.yaml
	HTTP   *pipeline.GateRequest
	Job    json.RawMessage // template of a Job: metadata and spec
	CEL    string
}

// Work returns the gate's question about a revision.
func (g Gate) Work(p Placeholders) promotion.GateWork {
	out := promotion.GateWork{Name: g.Name, CEL: p.InCEL(g.CEL),
		Timeout: time.Duration(g.Policy.Deadline), Every: time.Duration(g.Policy.Initial)}
	if g.HTTP != nil {
		out.HTTP = map[string]any{"url": p.InURL(g.HTTP.URL), "status": g.HTTP.Status}
		if g.HTTP.Body != "" {
			out.HTTP["body"] = p.In(g.HTTP.Body)
		}
	}
	if g.Job != nil {
		_ = json.Unmarshal(p.InJSON(g.Job), &out.Job) // gateJob has read it
	}
	return out
}

// gateAttemptTimeout bounds one request of a gate, and the creation of its Job.
const gateAttemptTimeout = 30 * time.Second

// leastJobTTL is the least time for which an ended Job must stay, so that its end is seen.
const leastJobTTL = 60

// gates reads the gates of an environment.
func (r *reader) gates(at string, list []v1alpha1.Gate) (out []Gate) {
	names := map[string]bool{}
	for i, g := range capped(r, at, list, maxGates) {
		at := fmt.Sprintf("%s[%d]", at, i)
		r.gateName(at+".name", g.Name, names)
		out = append(out, r.gate(at, g))
	}
	return out
}

func (r *reader) gateName(field, name string, taken map[string]bool) {
	switch {
	case !isPlainName(name):
		r.add(field, `%.100q: want 1 to 63 letters, digits, "-" and "."`, name)
	case taken[name]:
		r.add(field, "%q is named twice", name)
	}
	taken[name] = true
}

// isPlainName reports whether a gate may have a name, as in waybill.yaml.
func isPlainName(name string) bool {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.'
	}
	return len(name) <= 63 && strings.Trim(name, ".") != "" && !strings.ContainsFunc(name, odd)
}

// gate reads a gate.
func (r *reader) gate(at string, g v1alpha1.Gate) Gate {
	interval := action.Duration(r.duration(at+".interval", g.Interval, 30*time.Second, time.Second))
	failures := g.Failures
	switch {
	case failures == 0:
		failures = 3
	case failures < 0 || failures > 1000:
		r.add(at+".failures", "want 1 to 1000, found %d", failures)
	}
	deadline := action.Duration(r.duration(at+".timeout", g.Timeout, 10*time.Minute, time.Second))
	out := Gate{
		Gate: promotion.Gate{Name: g.Name,
			When: oneOf(r, at+".when", promotion.GateWhen(g.When), promotion.After, promotion.Before)},
		Policy: action.Policy{Retries: failures - 1, Initial: interval, Factor: 1, Max: interval,
			Deadline: deadline, AttemptTimeout: action.Duration(gateAttemptTimeout)},
		CEL: g.CEL,
	}
	ways := 0
	if g.HTTP != nil {
		ways++
		out.HTTP = r.gateRequest(at+".http", *g.HTTP)
	}
	if g.Job != nil {
		ways++
		out.Job = r.gateJob(at+".job.template", g.Job.Template.Raw)
	}
	if g.CEL != "" {
		ways++
		r.gateCEL(at+".cel", g.CEL)
	}
	if ways != 1 {
		r.add(at, "want exactly one of http, job and cel")
	}
	return out
}

// gateRequest reads the request of a gate.
func (r *reader) gateRequest(at string, h v1alpha1.HTTPGate) *pipeline.GateRequest {
	r.gateText(at+".url", h.URL)
	r.gateText(at+".body", h.Body)
	r.httpURL(at+".url", Placeholders{Revision: "1", Environment: "1"}.InURL(h.URL))
	out := &pipeline.GateRequest{URL: h.URL, Status: capped(r, at+".status", h.Status, maxItems), Body: h.Body}
	for i, code := range out.Status {
		if code < 100 || code > 599 {
			r.add(fmt.Sprintf("%s.status[%d]", at, i), "want 100 to 599, found %d", code)
		}
	}
	if len(out.Status) == 0 {
		out.Status = []int{200}
	}
	return out
}

// gateCEL checks an expression. The placeholders are replaced by a text that is valid in quotes only: outside of quotes, a revision
// would be code.
func (r *reader) gateCEL(field, text string) {
	before := len(r.faults)
	if r.gateText(field, text); len(r.faults) > before {
		return
	}
	if err := callback.CheckExpression(Placeholders{Revision: "'", Environment: "'"}.InCEL(text)); err != nil {
		r.add(field, "%v", err)
	}
}

// gateJob reads the template of a Job. The API server judges the rest of it when the Job is created.
func (r *reader) gateJob(at string, template json.RawMessage) json.RawMessage {
	var job struct {
		Spec struct {
			TTL      *int64 `json:"ttlSecondsAfterFinished"`
			Template struct {
				Spec struct {
					Containers []struct {
						Name string `json:"name"`
					} `json:"containers"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(template, &job); err != nil || len(job.Spec.Template.Spec.Containers) == 0 {
		r.add(at+".spec.template.spec.containers", "want the template of a Job with a container")
	}
	if ttl := job.Spec.TTL; ttl != nil && *ttl < leastJobTTL {
		r.add(at+".spec.ttlSecondsAfterFinished", "want at least %d, found %d: the end of the Job could be missed", leastJobTTL, *ttl)
	}
	r.gateText(at, string(template))
	return template
}

// gateText checks a text with placeholders.
func (r *reader) gateText(field, text string) {
	if len(text) > maxText {
		r.add(field, "%d bytes, at most %d", len(text), maxText)
		return
	}
	if name, unknown := (Placeholders{}).unknown(text); unknown {
		r.add(field, "{{%.50s}} is not known: want {{revision}} or {{environment}}", name)
	}
}

// Placeholders replaces {{revision}} and {{environment}} in the texts of gates.
type Placeholders struct {
	Revision    promotion.Revision
	Environment promotion.EnvName
}

// In returns a text with the placeholders replaced.
func (p Placeholders) In(text string) string {
	return p.replace(text, func(s string) string { return s })
}

// InURL returns a URL with the placeholders replaced. Their values are escaped for any part of it: a revision could lead
// to another address.
func (p Placeholders) InURL(text string) string {
	return p.replace(text, func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") })
}

// InCEL returns an expression of CEL with the placeholders in its quoted texts replaced. Characters that could end a text of any kind, or
// begin an escape, are escaped.
func (p Placeholders) InCEL(text string) string {
	return p.replace(text, definition.InCEL)
}

// InJSON returns JSON with the placeholders in its quoted texts replaced.
func (p Placeholders) InJSON(data json.RawMessage) json.RawMessage {
	return json.RawMessage(p.replace(string(data), func(s string) string {
		quoted, _ := json.Marshal(s) // strings always marshal
		return string(quoted[1 : len(quoted)-1])
	}))
}

func (p Placeholders) replace(text string, escape func(string) string) string {
	revision, environment := escape(string(p.Revision)), escape(string(p.Environment))
	return strings.NewReplacer("{{revision}}", revision, "{{environment}}", environment).Replace(text)
}

// unknown returns the first placeholder of a text that is not known.
func (p Placeholders) unknown(text string) (name string, found bool) {
	for {
		_, after, ok := strings.Cut(text, "{{")
		if !ok {
			return "", false
		}
		name, rest, ok := strings.Cut(after, "}}")
		if !ok {
			return "", false
		}
		if name != "revision" && name != "environment" {
			return name, true
		}
		text = rest
	}
}
