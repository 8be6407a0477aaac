package webhook

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
	"time"

	"github.com/waybill-dev/waybill/internal/secret"
)

// Request is how a handler asks its target, as configured.
type Request struct {
	URL             *Template
	Method          string
	Headers         []Header
	Body            *Template // nil: none
	Rules           []Rule
	Breaker         Breaker
	FollowRedirects bool
	Signing         []string // names of secrets, the newest first; none: unsigned
	Guard           Guard
	Proxy           Proxy
}

// Header is one header of a request.
type Header struct {
	Name  string
	Value *Template
}

// Data is what templates are filled with.
type Data struct {
	ID         string
	Attempt    int
	Parameters map[string]any
	Secrets    secret.Values
	Action     map[string]any // what else is known of the action: name, handler, createdAt, …
}

// Fields returns the data under the names that templates use. Numbers of parameters should be
// json.Number, so that they are written as they came.
func (d Data) Fields() map[string]any {
	return map[string]any{"id": d.ID, "uuid": d.ID, "attempt": d.Attempt,
		"parameters": d.Parameters, "secrets": map[string]string(d.Secrets), "action": d.Action}
}

// Call is one request, ready to be sent.
type Call struct {
	Method  string
	URL     *url.URL
	Header  http.Header
	Body    string
	MaxBody int      // bytes of the answer's body that are kept; 0: 64 KiB
	private []string // names of headers that carry a secret
	sealed  bool     // the body carries a secret
	follow  bool
}

// The name by which targets know this program, unless a handler sets another.
const (
	headerAgent = "User-Agent"
	userAgent   = "waybill"
)

// Render fills the templates and signs. Every request carries the action's id, by which its target
// recognizes a repetition. An error means that the request cannot be made from this data; it may
// quote values, so redact it.
func (r *Request) Render(d Data, now time.Time) (Call, error) {
	fields := d.Fields()
	call := Call{Method: r.Method, Header: http.Header{headerID: {d.ID}}, follow: r.FollowRedirects}
	text, err := r.URL.Render(fields)
	if err != nil {
		return call, err
	}
	if call.URL, err = parseURL(text); err != nil {
		return call, err
	}
	for _, h := range r.Headers {
		value, err := h.Value.Render(fields)
		if err != nil {
			return call, err
		}
		if strings.ContainsFunc(value, isControl) {
			return call, fmt.Errorf("header %s: its value has a line break or another control character", h.Name)
		}
		call.Header.Add(h.Name, value)
		if h.Value.Uses("secrets") {
			call.private = append(call.private, http.CanonicalHeaderKey(h.Name))
		}
	}
	if call.Header.Get(headerAgent) == "" {
		call.Header.Set(headerAgent, userAgent)
	}
	if r.Body != nil {
		if call.Body, err = r.Body.Render(fields); err != nil {
			return call, err
		}
		call.sealed = r.Body.Uses("secrets")
	}
	return call, r.sign(&call, d, now)
}

func (r *Request) sign(call *Call, d Data, now time.Time) error {
	if len(r.Signing) == 0 {
		return nil
	}
	keys := make([]Key, len(r.Signing))
	for i, name := range r.Signing {
		key, err := ParseKey(d.Secrets[name])
		if err != nil {
			return fmt.Errorf("signing secret %s: %w", name, err)
		}
		keys[i] = key
	}
	maps.Copy(call.Header, Sign(keys, d.ID, now, call.Body))
	return nil
}

// Address returns the URL that an action with these parameters goes to, as far as its lane needs
// it: what else the template speaks of is left out.
func (r *Request) Address(parameters map[string]any, secrets []string) (*url.URL, error) {
	blank := secret.Values{}
	for _, name := range secrets {
		blank[name] = "x"
	}
	d := Data{ID: "x", Parameters: parameters, Secrets: blank, Action: map[string]any{}}
	text, err := r.URL.Render(d.Fields())
	if err != nil {
		return nil, err
	}
	return parseURL(text)
}

// Get returns the call of a plain GET request. The error is about the address.
func Get(address string) (Call, error) {
	u, err := parseURL(address)
	if err != nil {
		return Call{}, err
	}
	return Call{Method: http.MethodGet, URL: u, Header: http.Header{headerAgent: {userAgent}}}, nil
}

// parseURL wants an absolute http or https address without a user.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil || !slices.Contains([]string{"http", "https"}, strings.ToLower(u.Scheme)) || u.Hostname() == "":
		return nil, fmt.Errorf("url: %q is not an address such as https://example.org/path", text)
	case numeric(u.Hostname()):
		return nil, fmt.Errorf("url: %q: the host is neither a name nor an address", text)
	case u.User != nil:
		return nil, errUserInfo
	case !isPort(u.Port()):
		return nil, fmt.Errorf("url: %q: the port is not from 1 to 65535", text)
	}
	return u, nil
}

var errUserInfo = errors.New("url: a user or password does not belong in an address; use the header Authorization")

// isPort reports whether a port that a URL names can be dialled; "" is the scheme's own.
func isPort(text string) bool {
	if text == "" {
		return true
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// CheckAddress reports the faults of the address of every request that the template makes: user info, or an address
// that is always the same and cannot be requested.
func (t *Template) CheckAddress() error {
	if userInfo(t.skeleton()) {
		return errUserInfo
	}
	if len(t.tree.Root.Nodes) != 1 || t.tree.Root.Nodes[0].Type() != parse.NodeText {
		return nil // what it is depends on data
	}
	_, err := parseURL(t.text)
	return err
}

// skeleton returns the template's text with an x in the place of each action.
func (t *Template) skeleton() string {
	var b strings.Builder
	for _, node := range t.tree.Root.Nodes {
		if text, ok := node.(*parse.TextNode); ok {
			b.Write(text.Text)
			continue
		}
		b.WriteByte('x')
	}
	return b.String()
}

// userInfo reports whether an address has something before its host.
func userInfo(address string) bool {
	_, rest, ok := strings.Cut(address, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return ok && strings.Contains(rest, "@")
}

// numeric reports a host that ends in a number and is not an address. A program that reads it in an older way
// might take it for one that the guard did not see: 127.1, 0x7f000001.
func numeric(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || last != "" && strings.Trim(last, "0123456789") == ""
}

// isControl reports whether a character may not occur in a header's value.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
