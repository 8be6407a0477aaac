package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/secret"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// reserved are names of handlers that other parts bring.
var reserved = []string{"step", "service-stop", "service-restart", "build", "gate", "worker", "pull-request", "notification",
	"promotion-gate", "promotion-job", "promotion-cel", "promotion-notice", "eventflow", "environment"}

// handlerName matches the name of a handler: it is the first part of its lanes.
var handlerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// typeNames are the spellings of types, in lower case.
var typeNames = map[string]string{"webhook": TypeWebhook, "synchttp": TypeWebhook, "shell": TypeShell, "noop": TypeNoop,
	"argo": TypeArgo, "argoworkflows": TypeArgo, "cirrus": TypeCirrus}

// types are the types of handlers.
var types = []string{TypeWebhook, TypeShell, TypeArgo, TypeCirrus, TypeNoop}

// handlers reads every handler of the file.
func (r *reader) handlers(n *document.Node, c *Config) {
	if !fits(n, document.Object) {
		return
	}
	c.Handlers = map[string]Handler{}
	for _, f := range n.Fields {
		path := r.Join("handlers", f.Key)
		kind, ok := r.handlerType(f, path)
		if f.Key == SubscriberHandler && kind == TypeWebhook {
			r.completeSubscriber(f.Value, path)
		}
		if !ok || !r.Check(f.Value, document.Place{Path: path, At: f.At}, handlerKeys(kind)) {
			continue
		}
		h := handlerReader{reader: r, path: path, names: webhook.Names{Env: c.TemplateEnv}}
		c.Handlers[f.Key] = h.read(f, kind, c.Defaults)
	}
}

// handlerType returns the type whose table a handler is read by.
func (r *reader) handlerType(f document.Field, path string) (string, bool) {
	at := &document.Node{At: f.At}
	switch {
	case !handlerName.MatchString(f.Key):
		r.Add(at, "value-invalid", "", "handler %q: want a name of letters, digits, -, _ and . with at most 63 characters", f.Key)
		return "", false
	case slices.Contains(reserved, f.Key):
		r.Add(at, "value-invalid", "", "the handler's name %q is reserved", f.Key)
		return "", false
	}
	n := f.Value.Get("type")
	if n == nil || n.Kind != document.String {
		if f.Value.Kind == document.Map && n == nil {
			r.Add(at, "field-missing", path, `the field "type" is missing: webhook, shell, argo, cirrus or noop`)
			return "", false
		}
		return TypeNoop, true // the check reports the fault
	}
	known, ok := typeNames[strings.ToLower(n.Text)]
	switch {
	case !ok:
		r.Choice(n, path+".type", types)
	case f.Key == TypeNoop && known != TypeNoop:
		r.Add(n, "value-invalid", path, `the handler "noop" is of the type noop`)
	case f.Key == SubscriberHandler && known != TypeWebhook:
		r.Add(n, "value-invalid", path, `the handler "subscriber" is of the type webhook`)
	}
	return known, ok
}

// handlerReader reads one handler.
type handlerReader struct {
	*reader
	path  string
	names webhook.Names
	used  []*webhook.Template
}

func (r *handlerReader) read(f document.Field, kind string, defaults action.Policy) Handler {
	n := f.Value
	h := Handler{Name: f.Key, Type: kind, Delivery: action.AtLeastOnce, Policy: r.policy(n, r.path, defaults)}
	if text := n.Str("delivery"); text != "" {
		h.Delivery = action.Delivery(text)
	}
	h.Parameters = r.parameters(n.Get("parameters"))
	r.names.Parameters = h.Parameters.Names()
	h.Secrets = r.secrets(n.Get("secrets"))
	r.names.Secrets = h.secretNames()
	switch kind {
	case TypeWebhook:
		h.Request = r.request(n.Get("request"))
		r.unused(n.Get("secrets"), h)
	case TypeShell:
		h.Command = r.command(n.Get("command"))
	case TypeArgo:
		h.Argo = r.argo(n.Get("argoConf"))
		h.Parameters = r.argoParameters(n.Get("parameters"), h)
	case TypeCirrus:
		h.Cirrus = r.cirrus(n.Get("cirrusConf"))
		h.Parameters = cirrusParameters(h.Cirrus)
	}
	r.limits(n, &h)
	if lane := n.Get("lane"); fits(lane, document.Text) {
		var err error
		if h.lane, err = webhook.ParseLane(lane.Text, r.names); err != nil {
			r.Add(lane, "template", r.path+".lane", "%s", err)
		}
	}
	return h
}

// argo reads where workflows are made.
func (r *handlerReader) argo(n *document.Node) *Argo {
	options := n.Get("k8sOptions")
	overrides := options.Get("configOverrides")
	a := &Argo{Resume: n.Str("mode") == modeResume, Kubeconfig: r.location(options.Get("kubeconfig"), "file:"),
		Finalizer: true, InstanceID: n.Str("instanceId"),
		Context: overrides.Str("currentContext"), Namespace: overrides.Get("context").Str("namespace")}
	a.Kubeconfig = strings.TrimPrefix(a.Kubeconfig, "file:")
	if artifacts := n.Get("artifacts"); fits(artifacts, document.Text) && artifacts.Text != "" {
		a.Artifacts = artifacts.Text
		u, err := url.Parse(a.Artifacts)
		if err != nil || u.Scheme != "s3" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
			r.Add(artifacts, "value-invalid", r.path+".argoConf.artifacts", "want s3://BUCKET?endpoint=URL&region=NAME, found %q", a.Artifacts)
		}
	}
	if keep := n.Get("finalizer"); fits(keep, document.Flag) {
		a.Finalizer = strings.EqualFold(keep.Text, "true")
	}
	return a
}

// argoParameters returns the parameters of an argo handler's actions.
func (r *handlerReader) argoParameters(n *document.Node, h Handler) Parameters {
	if h.Argo.Resume {
		for _, f := range fieldsOf(n) {
			if f.Key == ResumeWorkflow || f.Key == ResumeNode {
				r.Add(&document.Node{At: f.At}, "name-taken", r.path+".parameters."+f.Key, "this says what is resumed, and cannot be an output")
			}
		}
		name := map[string]any{"type": "string", "minLength": 1}
		return append(Parameters{fixed(ResumeWorkflow, false, name), fixed(ResumeNode, false, name)}, h.Parameters...)
	}
	if n != nil {
		r.Add(n, "value-invalid", r.path+".parameters",
			"these are outputs of suspended nodes, in mode resume; a handler that makes workflows has its own")
	}
	texts := map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	return Parameters{
		fixed("template", false, map[string]any{"type": "string", "pattern": "^(cluster)?workflowtemplate/[^/]+$"}),
		fixed("parameters", true, map[string]any{"type": "object"}),
		fixed("serviceAccount", true, map[string]any{"type": "string"}),
		fixed("labels", true, texts),
		fixed("annotations", true, texts),
	}
}

// fixed returns a parameter that the handler's type declares.
func fixed(name string, optional bool, schema map[string]any) Parameter {
	p := Parameter{Name: name, Optional: optional}
	p.schema, _ = compile(name, schema) // it is written here, and tested
	return p
}

// parameters reads the schemas.
func (r *handlerReader) parameters(n *document.Node) Parameters {
	if !fits(n, document.Object) {
		return nil
	}
	var all Parameters
	for _, f := range n.Fields {
		path := r.path + ".parameters." + f.Key
		if f.Value.Kind != document.Map {
			r.Add(f.Value, "wrong-kind", path, "want a JSON Schema such as {type: string}, found %s", f.Value.Kind)
			continue
		}
		p := Parameter{Name: f.Key}
		p.document, _ = document.Plain(f.Value).(map[string]any) // it is a mapping
		var err error
		if p.schema, err = compile(f.Key, p.document); err != nil {
			r.schemaFault(f.Value, path, err)
			continue
		}
		if standard := f.Value.Get("default"); standard != nil {
			p.Default, p.Optional = document.Plain(standard), true
			for _, problem := range p.check(p.Default) {
				r.Add(standard, "value-invalid", path+".default", "%s", problem.Text)
			}
		}
		all = append(all, p)
	}
	return all
}

// secrets reads where secrets are kept.
func (r *handlerReader) secrets(n *document.Node) []secret.Source {
	if !fits(n, document.Objects) {
		return nil
	}
	var all []secret.Source
	for i, item := range n.Items {
		path := document.Index(r.path+".secrets", i)
		s := secret.Source{Name: item.Str("name"), Env: item.Str("env")}
		if ttl := item.Get("ttl"); fits(ttl, document.Scalar) {
			s.TTL = r.span(ttl, path+".ttl")
		}
		switch item.Str("type") {
		case "file":
			if s.Path = r.location(item.Get("path"), "file:"); s.Path == "" {
				r.Add(item, "field-missing", path, `a secret in a file needs its "path"`)
			}
			s.Path = strings.TrimPrefix(s.Path, "file:")
		case "env":
			if s.Env == "" {
				s.Env = s.Name
			}
		}
		if s.Name != "" && slices.ContainsFunc(all, func(o secret.Source) bool { return o.Name == s.Name }) {
			r.Add(item.Get("name"), "value-invalid", path, "there are two secrets %q", s.Name)
		}
		all = append(all, s)
	}
	return all
}

// unused warns of secrets that nothing speaks of.
func (r *handlerReader) unused(n *document.Node, h Handler) {
	if h.Request == nil || n == nil {
		return
	}
	for i, s := range h.Secrets {
		speaks := slices.ContainsFunc(r.used, func(t *webhook.Template) bool { return t.UsesName("secrets", s.Name) })
		if !speaks && !slices.Contains(h.Request.Signing, s.Name) {
			r.Problems.Add(fault.Problem{Position: n.Items[i].At, Code: "secret-unused", Warning: true,
				Scope: document.Index(r.path+".secrets", i), Text: fmt.Sprintf("nothing uses the secret %q", s.Name)})
		}
	}
}

// command reads the command of a shell handler.
func (r *handlerReader) command(n *document.Node) *Command {
	if !fits(n, document.Object) {
		return nil
	}
	c := &Command{Argv: n.Strs("argv"), Env: n.Strs("env"), ExitCodes: map[int]webhook.Verdict{}}
	codes := n.Get("exitCodes")
	if !fits(codes, document.TextMap) {
		return c
	}
	for _, f := range codes.Fields {
		path := r.path + ".command.exitCodes"
		code, err := strconv.Atoi(f.Key)
		if err != nil || code < 0 || code > 255 {
			r.Add(&document.Node{At: f.At}, "value-invalid", path, "want an exit status from 0 to 255, found %q", f.Key)
		}
		if r.Choice(f.Value, path, webhook.Verdicts()) {
			c.ExitCodes[code] = webhook.Verdict(f.Value.Text)
		}
	}
	return c
}

// policy reads the policy of a handler, or of the defaults.
func (r *reader) policy(n *document.Node, path string, p action.Policy) action.Policy {
	if backoff := n.Get("backoff"); fits(backoff, document.Object) {
		r.backoff(backoff, r.Join(path, "backoff"), &p)
	}
	if v := n.Get("attemptTimeout"); fits(v, document.Scalar) {
		p.AttemptTimeout = action.Duration(r.span(v, r.Join(path, "attemptTimeout")))
		if p.AttemptTimeout == 0 {
			r.Add(v, "value-invalid", r.Join(path, "attemptTimeout"), "an attempt must end some time")
		}
	}
	if v := n.Get("deadline"); fits(v, document.Scalar) {
		p.Deadline = 0
		if v.Text != "never" {
			p.Deadline = action.Duration(r.span(v, r.Join(path, "deadline")))
		}
	}
	return p
}

func (r *reader) backoff(n *document.Node, path string, p *action.Policy) {
	if v := n.Get("retries"); fits(v, document.Number) {
		retries, err := strconv.Atoi(v.Text)
		if err != nil || retries < 0 || retries > 1000 {
			r.Add(v, "value-invalid", path+".retries", "want a whole number from 0 to 1000, found %s", v.Text)
		}
		p.Retries = retries
	}
	for _, name := range []string{"seconds", "initial"} {
		if v := n.Get(name); fits(v, document.Scalar) {
			p.Initial = action.Duration(r.span(v, path+"."+name))
			p.Schedule = nil
		}
	}
	if v := n.Get("max"); fits(v, document.Scalar) {
		p.Max = action.Duration(r.span(v, path+".max"))
	}
	p.Factor = r.fraction(n.Get("factor"), path+".factor", p.Factor, 1, 100)
	p.Jitter = r.fraction(n.Get("jitter"), path+".jitter", p.Jitter, 0, 1)
	if v := n.Get("schedule"); fits(v, document.Scalars) {
		p.Schedule = nil
		for i, item := range v.Items {
			p.Schedule = append(p.Schedule, action.Duration(r.span(item, document.Index(path+".schedule", i))))
		}
	}
}

// fraction reads a number between two bounds.
func (r *reader) fraction(n *document.Node, path string, standard, least, most float64) float64 {
	if !fits(n, document.Number) {
		return standard
	}
	value, err := strconv.ParseFloat(n.Text, 64)
	if err != nil || !(value >= least && value <= most) {
		r.Add(n, "value-invalid", path, "want a number from %g to %g, found %s", least, most, n.Text)
		return standard
	}
	return value
}

// longestSpan keeps sums of times from overflowing: ten years.
const longestSpan = 10 * 366 * 24 * time.Hour

// span reads a duration such as 5s, 1h30m or 7d; a bare number is seconds.
func (r *reader) span(n *document.Node, path string) time.Duration {
	text := n.Text
	if n.Kind == document.Int || n.Kind == document.Float {
		text += "s"
	}
	d, err := definition.ParseDuration(text)
	if err != nil || d < 0 || d > longestSpan {
		r.Add(n, "value-invalid", path, "want a duration such as 25s or 7d, found %q", n.Text)
		return 0
	}
	return d
}
