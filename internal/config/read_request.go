package config

import (
	"errors"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/jsonpath"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// token matches methods and the names of headers (RFC 9110).
var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// fixedHeaders are set by the sender of the request.
var fixedHeaders = []string{"content-length", "transfer-encoding", "connection", "webhook-id", "webhook-timestamp", "webhook-signature"}

// request reads a webhook's request.
func (r *handlerReader) request(n *document.Node) *webhook.Request {
	if !fits(n, document.Object) {
		return nil
	}
	path := r.path + ".request"
	q := &webhook.Request{Method: http.MethodPost}
	q.URL = r.url(n.Get("url"), path)
	q.Body = r.template(n.Get("body"), path, "body")
	if m := n.Get("method"); fits(m, document.Text) {
		if q.Method = strings.ToUpper(m.Text); !token.MatchString(q.Method) || q.Method == http.MethodConnect {
			r.Add(m, "value-invalid", path+".method", "want a method such as POST, found %q", m.Text)
		}
	}
	if h := n.Get("headers"); fits(h, document.TextMap) {
		q.Headers = r.headers(h, path+".headers")
	}
	if rules := n.Get("responses"); fits(rules, document.Objects) {
		for i, item := range rules.Items {
			q.Rules = append(q.Rules, r.rule(item, document.Index(path+".responses", i)))
		}
	}
	q.FollowRedirects = n.Str("followRedirects") != "" && strings.EqualFold(n.Str("followRedirects"), "true")
	q.Signing = r.signing(n.Get("signing"), path+".signing")
	if nets := n.Get("allowNetworks"); fits(nets, document.Texts) {
		q.Guard = r.guard(nets, path+".allowNetworks")
	}
	if p := n.Get("proxy"); fits(p, document.Text) {
		var err error
		if q.Proxy, err = webhook.ParseProxy(p.Text); err != nil {
			r.Add(p, "value-invalid", path+".proxy", "%s", err)
		}
	}
	if q.URL == nil {
		return nil
	}
	return q
}

// url compiles the address of the request; nil if it is missing or cannot be compiled.
func (r *handlerReader) url(n *document.Node, path string) *webhook.Template {
	t := r.template(n, path, "url")
	if t == nil {
		return nil
	}
	if err := t.CheckAddress(); err != nil {
		r.Add(n, "value-invalid", path+".url", "%s", strings.TrimPrefix(err.Error(), "url: "))
	} else if !t.HostKnown() {
		r.Add(n, "template", path+".url", "the host may depend on parameters and env only")
	}
	return t
}

// template compiles a text of the request; nil if it is missing or cannot be compiled.
func (r *handlerReader) template(n *document.Node, path, field string) *webhook.Template {
	if !fits(n, document.Text) {
		return nil
	}
	t, err := webhook.ParseTemplate(field, n.Text, r.names)
	if err != nil {
		r.Add(n, "template", path+"."+field, "%s", strings.TrimPrefix(err.Error(), field+", "))
		return nil
	}
	r.used = append(r.used, t)
	return t
}

func (r *handlerReader) headers(n *document.Node, path string) []webhook.Header {
	var all []webhook.Header
	for _, f := range n.Fields {
		at := &document.Node{At: f.At}
		switch {
		case !token.MatchString(f.Key):
			r.Add(at, "value-invalid", path, "%q is not a valid header name", f.Key)
		case slices.Contains(fixedHeaders, strings.ToLower(f.Key)):
			r.Add(at, "value-invalid", path, "the header %s is set by Waybill", f.Key)
		}
		if value := r.template(f.Value, path, f.Key); value != nil {
			all = append(all, webhook.Header{Name: f.Key, Value: value})
		}
	}
	return all
}

func (r *handlerReader) rule(n *document.Node, path string) webhook.Rule {
	rule := webhook.Rule{Result: webhook.Verdict(n.Str("result"))}
	if code := n.Get("statusCode"); code != nil {
		for _, item := range append([]*document.Node{code}, code.Items...) {
			if item.Kind == document.List {
				continue
			}
			if err := rule.Status.Add(item.Text); err != nil && fits(item, document.Scalar) {
				r.Add(item, "value-invalid", path+".statusCode", "%s", err)
			}
		}
	}
	if m := n.Get("message"); fits(m, document.Text) {
		var err error
		if rule.Message, err = regexp.Compile(m.Text); err != nil {
			r.Add(m, "value-invalid", path+".message", "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
	}
	if p := n.Get("jsonPath"); fits(p, document.Text) {
		var err error
		if rule.Path, err = jsonpath.Parse(p.Text); err != nil {
			r.Add(p, "value-invalid", path+".jsonPath", "%s", err)
		}
	}
	if n.Get("statusCode") == nil && n.Get("message") == nil && n.Get("jsonPath") == nil {
		r.Add(n, "field-missing", path, "a rule without statusCode, message or jsonPath matches every answer")
	}
	return rule
}

func (r *handlerReader) signing(n *document.Node, path string) []string {
	list := n.Get("secrets")
	if !fits(list, document.Texts) {
		return nil
	}
	for i, item := range list.Items {
		if !slices.Contains(r.names.Secrets, item.Text) {
			r.unknownName(item, document.Index(path+".secrets", i), "secret", r.names.Secrets)
		}
	}
	return n.Strs("secrets")
}

func (r *reader) guard(n *document.Node, path string) webhook.Guard {
	var g webhook.Guard
	for i, item := range n.Items {
		prefix, err := netip.ParsePrefix(item.Text)
		if err != nil {
			r.Add(item, "value-invalid", document.Index(path, i), "want a network such as 10.0.0.0/8, found %q", item.Text)
			continue
		}
		g.Allow = append(g.Allow, prefix.Masked())
	}
	return g
}

// schemaFault reports where a schema is wrong.
func (r *handlerReader) schemaFault(n *document.Node, path string, err error) {
	invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		r.Add(n, "schema", path, "%s", strings.ReplaceAll(err.Error(), "parameter:", ""))
		return
	}
	broken, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err)
	if !ok {
		r.Add(n, "schema", path, "%s", invalid.Err)
		return
	}
	// The schema of schemas has alternatives, each with a fault of its own; the deepest place is the one that is meant.
	deepest := broken
	for _, leaf := range leaves(broken) {
		if len(leaf.InstanceLocation) > len(deepest.InstanceLocation) || deepest == broken {
			deepest = leaf
		}
	}
	at := n
	for _, part := range deepest.InstanceLocation {
		if below := child(at, part); below != nil {
			at, path = below, path+"."+part
		}
	}
	r.Add(at, "schema", path, "%s", words(deepest))
}

// child returns a key's value, or a list's item.
func child(n *document.Node, part string) *document.Node {
	if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(n.Items) {
		return n.Items[i]
	}
	return n.Get(part)
}
