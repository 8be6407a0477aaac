package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"

	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/trigger"
)

// Trigger has one entry of triggers: a handler or process for events.
type Trigger struct {
	trigger.Trigger
	Keys    [][sha256.Size]byte // digests of access tokens for this trigger alone
	Backlog int                 // live actions above which events are refused; default 10000
}

// Bounds of triggers.
const (
	defaultBacklog = 10_000
	mostBacklog    = 1_000_000
)

// triggerKeys returns the keys of one trigger.
func triggerKeys() []document.Key {
	return []document.Key{
		{Name: "filter", Shape: document.Object, Help: "exact, prefix, suffix, all, any or not: which events; default: all events"},
		{Name: "handler", Shape: document.Text, Help: "what runs; or process"},
		{Name: "process", Shape: document.Text, Help: "a process that is started; or handler"},
		{Name: "parameters", Shape: document.Object, Help: "by name: {path: $.data.x} or {value: x}"},
		{Name: "keys", Shape: document.Texts, Help: "SHA-256 digests of access tokens for this trigger alone, in hexadecimal digits"},
		{Name: "backlog", Shape: document.Number, Default: strconv.Itoa(defaultBacklog), Help: "live actions above which events are refused"},
	}
}

// eventParameterKeys returns the keys of one parameter of a trigger.
func eventParameterKeys() []document.Key {
	return []document.Key{
		{Name: "path", Shape: document.Text, Help: "a JSONPath (RFC 9535) into the event: $.data.id, $.source"},
		{Name: "value", Shape: document.Anything},
	}
}

// triggers reads every trigger of the file, after its handlers and processes.
func (r *reader) triggers(root *document.Node, c *Config) {
	n := root.Get("triggers")
	if !fits(n, document.Object) {
		return
	}
	c.Triggers = map[string]Trigger{}
	for _, f := range n.Fields {
		if !handlerName.MatchString(f.Key) {
			r.Add(&document.Node{At: f.At}, "value-invalid", "",
				"trigger %q: want a name of letters, digits, -, _ and . with at most 63 characters", f.Key)
			continue
		}
		path := r.Join("triggers", f.Key)
		if r.Check(f.Value, document.Place{Path: path, At: f.At}, triggerKeys()) {
			c.Triggers[f.Key] = r.trigger(f, path, root, c)
		}
	}
}

// trigger reads one trigger. Its target and parameters are read as those of a callback are.
func (r *reader) trigger(f document.Field, path string, root *document.Node, c *Config) Trigger {
	n := f.Value
	cr := callbackReader{reader: r, path: path, at: f.At, node: n, root: root, config: c, ofEvent: true}
	var target callback.Callback
	h, _ := cr.target(&target)
	t := Trigger{Trigger: trigger.Trigger{Name: f.Key, Target: target.Target}, Backlog: defaultBacklog}
	for _, p := range cr.parameters(n.Get("parameters"), false, h) {
		t.Parameters = append(t.Parameters, trigger.Parameter{Name: p.Name, Path: p.Path, Value: p.Value})
	}
	t.Filter = r.eventFilter(n.Get("filter"), path)
	t.Keys = r.keyDigests(n.Get("keys"), path+".keys")
	if v := n.Get("backlog"); fits(v, document.Number) {
		var err error
		if t.Backlog, err = strconv.Atoi(v.Text); err != nil || t.Backlog < 1 || t.Backlog > mostBacklog {
			r.Add(v, "value-invalid", path+".backlog", "want a whole number from 1 to %d, found %s", mostBacklog, v.Text)
		}
	}
	return t
}

// eventFilter reads a filter, whose faults it reports at their places; nil: every event.
func (r *reader) eventFilter(n *document.Node, path string) *trigger.Filter {
	if !fits(n, document.Object) {
		return nil
	}
	filter, err := trigger.ParseFilter(document.Plain(n))
	faults, _ := errors.AsType[trigger.Faults](err)
	for _, f := range faults {
		r.Problems.Add(fault.Problem{Position: filterPlace(n, f), Code: "filter", Scope: path + "." + f.At(), Text: f.Text,
			Suggestion: f.Suggestion})
	}
	return filter
}

// filterPlace returns the position of a filter's fault: of its value, or of its key.
func filterPlace(n *document.Node, f trigger.Fault) fault.Position {
	at := n.At
	for i, step := range f.Path {
		switch step := step.(type) {
		case int:
			n = n.Items[step]
			at = n.At
		case string:
			field := n.Fields[slices.IndexFunc(n.Fields, func(one document.Field) bool { return one.Key == step })]
			n, at = field.Value, field.Value.At
			if f.Key && i == len(f.Path)-1 {
				at = field.At
			}
		}
	}
	return at
}

// keyDigests reads digests of tokens.
func (r *reader) keyDigests(n *document.Node, path string) (digests [][sha256.Size]byte) {
	if !fits(n, document.Texts) {
		return nil
	}
	if len(n.Items) > mostTokens {
		r.Add(n, "value-invalid", path, "%d keys, at most %d", len(n.Items), mostTokens)
		return nil
	}
	for i, item := range n.Items {
		if notDigest(item.Text) {
			r.Add(item, "value-invalid", document.Index(path, i), "want a digest of 64 hex digits: printf %%s TOKEN | sha256sum")
			continue
		}
		raw, _ := hex.DecodeString(item.Text) // notDigest has read it
		digest := [sha256.Size]byte(raw)
		if digest == sha256.Sum256(nil) {
			r.Add(item, "value-invalid", document.Index(path, i), "it is the digest of an empty text, as of a variable that is not set")
			continue
		}
		digests = append(digests, digest)
	}
	return digests
}
