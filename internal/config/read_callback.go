package config

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/jsonpath"
	"github.com/waybill-dev/waybill/internal/trigger"
)

// The types of callbacks.
const (
	single     = "single"
	perFeature = "perFeature"
)

// callbackKeys returns the keys of one callback.
func callbackKeys() []document.Key {
	return []document.Key{
		{Name: "handler", Shape: document.Text, Help: "what runs; or process"},
		{Name: "process", Shape: document.Text, Help: "a process that is started; or handler"},
		{Name: "type", Shape: document.Text, Default: single, Help: "single, or perFeature: one for each element of $.output.features"},
		{Name: "when", Shape: document.Texts, Help: "end states of the job; !x: all but x"},
		{Name: "featureFilter", Shape: document.Text,
			Help: "CEL over input, output, workflow and feature, or a JSONPath filter with @: which features"},
		{Name: "parameters", Shape: document.Object, Help: "by name: {path: $.output.x} or {value: x}"},
		{Name: "enabled", Shape: document.Flag, Default: "true", Help: "false: kept and checked, never planned"},
	}
}

// parameterKeys returns the keys of one parameter of a callback.
func parameterKeys() []document.Key {
	return []document.Key{
		{Name: "path", Shape: document.Text, Help: "a JSONPath (RFC 9535) into input, output, workflow and feature"},
		{Name: "itemsFrom", Shape: document.Text, Help: "a list in the document under path, of which filter keeps some: $.features"},
		{Name: "filter", Shape: document.Text, Help: "as featureFilter, with the item as feature"},
		{Name: "value", Shape: document.Anything},
	}
}

// templates checks the keys of the top-level callbacks, which workflows bring in by anchors: they may be partial.
func (r *reader) templates(n *document.Node) {
	if !fits(n, document.Object) {
		return
	}
	for _, f := range n.Fields {
		r.Check(f.Value, document.Place{Path: r.Join("callbacks", f.Key), At: f.At}, callbackKeys())
	}
}

// callbacks reads the callbacks of every process, once all processes are known.
func (r *reader) callbacks(root *document.Node, c *Config) {
	for _, f := range fieldsOf(root.Get("workflows")) {
		w, ok := c.Processes[f.Key]
		if n := f.Value.Get("callbacks"); ok && fits(n, document.Object) {
			for _, one := range n.Fields {
				place := document.Place{Path: r.Join("workflows", f.Key) + ".callbacks." + one.Key, At: one.At}
				w.Callbacks = append(w.Callbacks, r.callback(one, place, root, c)...)
			}
			c.Processes[f.Key] = w
		}
	}
}

// callback reads one callback; it returns none if the callback has no target.
func (r *reader) callback(f document.Field, place document.Place, root *document.Node, c *Config) []callback.Callback {
	if !handlerName.MatchString(f.Key) {
		r.Add(&document.Node{At: f.At}, "value-invalid", "",
			"callback %q: want a name of letters, digits, -, _ and . with at most 63 characters", f.Key)
	}
	if !r.reports(f.Value, place) {
		return nil
	}
	cr := callbackReader{reader: r, path: place.Path, at: f.At, node: f.Value, root: root, config: c}
	return cr.read(f.Key)
}

// reports checks a callback's keys. Faults of keys that an anchor of the top level brought in were reported there.
func (r *reader) reports(n *document.Node, place document.Place) bool {
	before := len(r.Problems)
	ok := r.Check(n, place, callbackKeys())
	reported := r.Problems[:before]
	fresh := slices.DeleteFunc(slices.Clone(r.Problems[before:]), func(p fault.Problem) bool {
		return slices.ContainsFunc(reported, func(o fault.Problem) bool { return o.Position == p.Position && o.Code == p.Code })
	})
	r.Problems = append(reported, fresh...)
	return ok
}

// callbackReader reads one callback, or target and parameters of a trigger.
type callbackReader struct {
	*reader
	path    string
	at      fault.Position
	node    *document.Node
	root    *document.Node
	config  *Config
	ofEvent bool // paths lead into an event, whose extensions have any name
}

func (r *callbackReader) read(name string) []callback.Callback {
	n := r.node
	cb := callback.Callback{Name: name, PerFeature: r.perFeature(n.Get("type"))}
	if v := n.Get("enabled"); fits(v, document.Flag) {
		cb.Disabled = !strings.EqualFold(v.Text, "true")
	}
	cb.When = r.when(n.Get("when"))
	cb.Filter = r.filter(n.Get("featureFilter"), cb.PerFeature)
	h, ok := r.target(&cb)
	cb.Parameters = r.parameters(n.Get("parameters"), cb.PerFeature, h)
	if !ok {
		return nil
	}
	return []callback.Callback{cb}
}

func (r *callbackReader) perFeature(n *document.Node) bool {
	return fits(n, document.Text) && (!r.Choice(n, r.path+".type", []string{single, perFeature}) || n.Text == perFeature)
}

func (r *callbackReader) when(n *document.Node) (e callback.Ends) {
	if n == nil || n.Kind == document.List && len(n.Items) == 0 {
		r.Add(&document.Node{At: r.at}, "field-missing", r.path, `the field "when" is missing: %s`, strings.Join(callback.EndNames(), ", "))
		return e
	}
	if !fits(n, document.Texts) {
		return e
	}
	for i, item := range n.Items {
		if err := e.Add(item.Text); err != nil {
			name := strings.ToLower(strings.TrimPrefix(item.Text, "!"))
			r.Problems.Add(fault.Problem{Position: item.At, Code: "value-unknown", Scope: document.Index(r.path+".when", i),
				Text: err.Error(), Suggestion: fault.Nearest(name,
					slices.DeleteFunc(callback.EndNames(), func(known string) bool { return known == name }))})
		}
	}
	if e.Forgets() {
		r.Problems.Add(fault.Problem{Position: n.At, Code: "when-exhausted", Scope: r.path + ".when", Warning: true,
			Text: "failed does not include jobs that ran out of retries: add retries_exhausted, or !retries_exhausted if that is meant"})
	}
	return e
}

func (r *callbackReader) filter(n *document.Node, perFeature bool) *callback.Filter {
	if !fits(n, document.Text) || strings.TrimSpace(n.Text) == "" {
		return nil
	}
	path := r.path + ".featureFilter"
	if !perFeature {
		r.Add(n, "value-invalid", path, "a filter needs type: perFeature")
	}
	return r.expression(n, path)
}

// expression reads a filter; nil when it cannot be read.
func (r *callbackReader) expression(n *document.Node, path string) *callback.Filter {
	f, err := callback.ParseFilter(n.Text)
	if err != nil {
		r.Add(n, "filter", path, "%s", err)
	}
	return f
}

// items reads which items of the document under a path are kept; nil: all.
func (r *callbackReader) items(n *document.Node, path string, whole *jsonpath.Path) *callback.Items {
	from, filter := n.Get("itemsFrom"), n.Get("filter")
	if from == nil && filter == nil {
		return nil
	}
	if !fits(from, document.Text) || !fits(filter, document.Text) {
		r.Add(n, "field-missing", path, `"itemsFrom" and "filter" come together`)
		return nil
	}
	if whole != nil && !whole.Singular() {
		r.Add(n.Get("path"), "value-invalid", path+".path", "with itemsFrom a path selects one node, by names and indexes only")
	}
	list, err := callback.ParsePath(from.Text)
	switch {
	case err != nil:
		r.Add(from, "value-invalid", path+".itemsFrom", "%s", err)
		return nil
	case !list.Singular():
		r.Add(from, "value-invalid", path+".itemsFrom", "want the list itself, by names and indexes only, such as $.features")
		return nil
	}
	return &callback.Items{From: list, Filter: r.expression(filter, path+".filter")}
}

// target reads the target. It returns the zero Handler if the parameters are not known.
func (r *callbackReader) target(cb *callback.Callback) (Handler, bool) {
	handler, process := r.node.Get("handler"), r.node.Get("process")
	switch {
	case fits(handler, document.Text) && fits(process, document.Text):
		r.Add(process, "value-invalid", r.path, `it has "handler" and "process"; only one of them runs`)
	case fits(process, document.Text):
		return Handler{}, r.process(process, cb)
	case fits(handler, document.Text):
		w := workflowReader{handlerReader: handlerReader{reader: r.reader, path: r.path}}
		h := w.handlerOf(handler, r.root.Get("handlers"), r.config)
		cb.Target = callback.Target{Handler: h.Name, Prepare: h.Prepare, Optional: h.optional}
		return h, h.Name != ""
	case handler == nil && process == nil:
		r.Add(&document.Node{At: r.at}, "field-missing", r.path, `the field "handler" or "process" is missing`)
	}
	return Handler{}, false
}

// process reads the process that is chained; it may be defined further down in the file.
func (r *callbackReader) process(n *document.Node, cb *callback.Callback) bool {
	processes := r.config.Processes
	if w, ok := processes[n.Text]; ok {
		cb.Target = callback.Target{Handler: w.Handler(), Process: n.Text, Prepare: func(inputs json.RawMessage) (action.Action, error) {
			return processes[n.Text].Prepare(inputs)
		}}
		return true
	}
	var known []string
	for _, f := range fieldsOf(r.root.Get("workflows")) {
		known = append(known, f.Key)
	}
	if !slices.Contains(known, n.Text) { // else its faults are reported there
		r.unknownName(n, r.path+".process", "process", known)
	}
	return false
}

// optional reports whether a parameter has a default.
func (h Handler) optional(name string) bool {
	i := slices.IndexFunc(h.Parameters, func(p Parameter) bool { return p.Name == name })
	return i >= 0 && h.Parameters[i].Optional
}

// fixedParameters reports whether the handler knows which parameters there are.
func (h Handler) fixedParameters() bool { return h.takesInputs() || h.Type == TypeArgo }

func (r *callbackReader) parameters(n *document.Node, perFeature bool, h Handler) []callback.Parameter {
	var all []callback.Parameter
	if fits(n, document.Object) {
		for _, f := range n.Fields {
			path := r.path + ".parameters." + f.Key
			if r.Check(f.Value, document.Place{Path: path, At: f.At}, r.parameterKeys()) {
				all = append(all, r.parameter(f, path, perFeature, h))
			}
		}
	}
	for _, p := range h.Parameters {
		named := slices.ContainsFunc(all, func(o callback.Parameter) bool { return o.Name == p.Name })
		if h.fixedParameters() && !p.Optional && !named {
			r.Add(&document.Node{At: r.at}, "parameter-missing", r.path, "the parameter %q of the handler %s is missing", p.Name, h.Name)
		}
	}
	return all
}

// parameterKeys returns the keys of a parameter.
func (r *callbackReader) parameterKeys() []document.Key {
	if r.ofEvent {
		return eventParameterKeys()
	}
	return parameterKeys()
}

func (r *callbackReader) parameter(f document.Field, path string, perFeature bool, h Handler) callback.Parameter {
	p := callback.Parameter{Name: f.Key}
	i := slices.IndexFunc(h.Parameters, func(o Parameter) bool { return o.Name == f.Key })
	if i < 0 && h.fixedParameters() {
		r.Problems.Add(fault.Problem{Position: f.At, Code: "parameter-unknown", Scope: path,
			Text: "the handler " + h.Name + " has no such parameter", Suggestion: fault.Nearest(f.Key, h.Parameters.Names())})
	}
	at, value := f.Value.Get("path"), f.Value.Get("value")
	switch {
	case (at == nil) == (value == nil):
		r.Add(&document.Node{At: f.At}, "field-missing", path, `want "path" or "value"`)
	case fits(at, document.Text):
		p.Path = r.nodes(at, path+".path", perFeature)
		if !r.ofEvent {
			p.Items = r.items(f.Value, path, p.Path)
		}
	case f.Value.Get("itemsFrom") != nil || f.Value.Get("filter") != nil:
		r.Add(f.Value, "value-invalid", path, `"itemsFrom" and "filter" need a "path"`)
	case value != nil:
		p.Value = document.Plain(value)
		if i >= 0 {
			for _, problem := range h.Parameters[i].check(p.Value) {
				r.Add(value, "value-invalid", path+".value", "%s", problem.Text)
			}
		}
	}
	return p
}

// nodes reads a path, and checks that it leads into a document that exists.
func (r *callbackReader) nodes(n *document.Node, path string, perFeature bool) *jsonpath.Path {
	parse := callback.ParsePath
	if r.ofEvent {
		parse = trigger.ParsePath
	}
	found, err := parse(n.Text)
	if err != nil {
		r.Add(n, "value-invalid", path, "%s", err)
		return nil
	}
	name := found.First()
	switch {
	case r.ofEvent, name == "", slices.Contains(callback.Documents(), name) && (name != "feature" || perFeature):
	case name == "feature":
		r.Add(n, "value-invalid", path, "$.feature is there with type: perFeature only")
	default:
		r.Problems.Add(fault.Problem{Position: n.At, Code: "value-unknown", Scope: path,
			Text:       "document " + strconv.Quote(name) + " not found: want one of " + strings.Join(callback.Documents(), ", "),
			Suggestion: fault.Nearest(name, callback.Documents())})
	}
	return found
}

// Callbacks returns the callbacks of the process that an action is a job of.
func (c *Config) Callbacks(a action.Action) []callback.Callback {
	if a.Kind != KindJob {
		return nil
	}
	return c.Processes[a.Name].Callbacks
}

// fieldsOf returns the fields of a mapping; any other node has none.
func fieldsOf(n *document.Node) []document.Field {
	if !fits(n, document.Object) {
		return nil
	}
	return n.Fields
}
