package definition

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// given are the variables that exist without being set.
var given = []string{"host", "address", "stage", "group", "revision", "release"}

// errUnclosed is about a ${ without its }.
var errUnclosed = errors.New(`"${" is not closed`)

// Expand replaces every ${name}; $${ yields a literal ${.
func Expand(text string, vars map[string]string) (string, error) {
	var out strings.Builder
	err := scan(text, func(literal string) { out.WriteString(literal) }, func(name string) error {
		value, set := vars[name]
		if !set {
			return fmt.Errorf("${%s} is not set", name)
		}
		out.WriteString(value)
		return nil
	})
	return out.String(), err
}

// ExpandCEL replaces variables in an expression of CEL. Characters of their values that could end a quoted text, or begin an escape, are escaped.
func ExpandCEL(text string, vars map[string]string) (string, error) {
	quoted := make(map[string]string, len(vars))
	for name, value := range vars {
		quoted[name] = InCEL(value)
	}
	return Expand(text, quoted)
}

// InCEL returns a text as it is written in quotes of any kind in CEL.
func InCEL(text string) string {
	var out strings.Builder
	for _, c := range text {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
			out.WriteRune(c)
		default:
			fmt.Fprintf(&out, `\U%08x`, c)
		}
	}
	return out.String()
}

// maxExpanded bounds the bytes of texts in one JSON value after their variables are replaced.
const maxExpanded = 256 << 10

// ExpandJSON replaces variables in the texts of a JSON value, but not in the keys of its objects.
// Numbers keep their digits.
func ExpandJSON(raw json.RawMessage, vars map[string]string) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	left := maxExpanded
	expanded, err := expandValue(value, vars, &left)
	if err != nil {
		return nil, err
	}
	return json.Marshal(expanded)
}

// expandValue returns a decoded JSON value with its variables replaced. It takes the bytes of its
// texts from left.
func expandValue(value any, vars map[string]string, left *int) (any, error) {
	var err error
	switch v := value.(type) {
	case string:
		if *left -= expandedSize(v, vars); *left < 0 {
			return nil, fmt.Errorf("its texts have more than %d bytes with their variables replaced", maxExpanded)
		}
		return Expand(v, vars)
	case []any:
		for i := range v {
			if v[i], err = expandValue(v[i], vars, left); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range v {
			if v[name], err = expandValue(v[name], vars, left); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// expandedSize returns how many bytes Expand makes of a text.
func expandedSize(text string, vars map[string]string) int {
	size := 0
	_ = scan(text, func(literal string) { size += len(literal) }, func(name string) error { // Expand reports the fault
		size += len(vars[name])
		return nil
	})
	return size
}

// scan calls literal and use for the parts of a text, in order.
func scan(text string, literal func(string), use func(name string) error) error {
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			literal(text)
			return nil
		}
		if i > 0 && text[i-1] == '$' {
			literal(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		literal(text[:i])
		name, rest, closed := strings.Cut(text[i+2:], "}")
		if !closed {
			return errUnclosed
		}
		if err := use(name); err != nil {
			return err
		}
		text = rest
	}
}

func (r *reader) vars(n *document.Node, at string) map[string]string {
	if n == nil || n.Kind != document.Map || len(n.Fields) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, f := range n.Fields {
		switch {
		case !variable.MatchString(f.Key):
			r.Add(&document.Node{At: f.At}, "bad-name", at, `variable %q: letters, digits and "_" only`, f.Key)
		case slices.Contains(given, f.Key):
			r.Add(&document.Node{At: f.At}, "bad-name", at, "${%s} is set by Waybill: choose another name", f.Key)
		default:
			out[f.Key] = f.Value.Text
		}
	}
	return out
}

// unset is one use of a variable that some hosts or gates do not set.
type unset struct {
	node  *document.Node
	name  string
	users []string // such as host prod/east/elm
}

// checkVars reports uses of variables that some host, or the stage of a gate, does not set (row 13).
func (r *reader) checkVars(root *document.Node, d *pipeline.Definition) {
	c := varCheck{r: r, missing: map[*document.Node]map[string]*unset{}}
	for i := range d.Stages {
		s := &d.Stages[i]
		stage := root.Get("stages").Items[i]
		for j := range s.Groups {
			g := &s.Groups[j]
			group := groupNode(stage, j)
			for k := range g.Hosts {
				h := &g.Hosts[k]
				levels := []*document.Node{root, stage, group, hostNode(group, k)}
				vars := merged(d.Vars, s.Vars, g.Vars, h.Vars)
				for _, name := range given {
					vars[name] = ""
				}
				c.check(uses(levels), vars, "host "+s.Name+"/"+g.Name+"/"+cmp.Or(h.Name, h.URL))
			}
		}
		for j := range s.Gates {
			vars := merged(d.Vars, s.Vars, map[string]string{"stage": s.Name, "revision": ""})
			c.check(gateUses(stage.Get("gates").Items[j]), vars, "gate "+s.Name+"/"+s.Gates[j].Name)
			if s.Environment != nil {
				r.gateExpression(stage.Get("gates").Items[j].Get("cel"), s.Gates[j].Name, maps.Clone(vars))
			}
			r.gateAddress(stage.Get("gates").Items[j].Get("http").Get("url"), s.Gates[j].HTTP, vars)
			if h := s.Gates[j].Handler; h != nil && h.Parameters != nil {
				r.handlerSize(stage.Get("gates").Items[j].Get("handler").Get("parameters"), h.Parameters, vars)
			}
		}
	}
	c.report()
}

// longestLabel bounds the bytes of a revision's label.
const longestLabel = 200

// handlerSize reports parameters that are too big once their variables are replaced.
func (r *reader) handlerSize(n *document.Node, raw json.RawMessage, vars map[string]string) {
	vars["revision"] = strings.Repeat("r", longestLabel)
	var value any
	left := maxExpanded
	if json.Unmarshal(raw, &value) != nil {
		return // it was written by this program
	}
	if _, err := expandValue(value, vars, &left); left < 0 {
		r.Add(n, "too-long", "", "parameters: %v", err)
	}
}

// gateUses returns the scalars of a gate that are expanded.
func gateUses(gate *document.Node) []*document.Node {
	request := gate.Get("http")
	nodes := present(request.Get("url"), request.Get("body"), gate.Get("cel"))
	if run := gate.Get("job").Get("run"); run != nil {
		nodes = append(nodes, run.Items...)
	}
	return append(nodes, texts(gate.Get("handler").Get("parameters"))...)
}

// texts returns the strings of a value, without the keys of mappings.
func texts(n *document.Node) []*document.Node {
	if n == nil {
		return nil
	}
	if n.Kind == document.String {
		return []*document.Node{n}
	}
	var out []*document.Node
	for _, item := range n.Items {
		out = append(out, texts(item)...)
	}
	for _, f := range n.Fields {
		out = append(out, texts(f.Value)...)
	}
	return out
}

// unclosed is the name that varCheck gives a ${ without its }. No variable has it.
const unclosed = "}"

type varCheck struct {
	r       *reader
	order   []*unset
	missing map[*document.Node]map[string]*unset
}

func (c *varCheck) check(nodes []*document.Node, vars map[string]string, user string) {
	for _, n := range nodes {
		err := scan(n.Text, func(string) {}, func(name string) error {
			if _, set := vars[name]; !set {
				c.add(n, name, user)
			}
			return nil
		})
		if err != nil {
			c.add(n, unclosed, user)
		}
	}
}

func (c *varCheck) add(n *document.Node, name, user string) {
	if c.missing[n] == nil {
		c.missing[n] = map[string]*unset{}
	}
	u := c.missing[n][name]
	if u == nil {
		u = &unset{node: n, name: name}
		c.missing[n][name] = u
		c.order = append(c.order, u)
	}
	u.users = append(u.users, user)
}

func (c *varCheck) report() {
	for _, u := range c.order {
		switch more := len(u.users) - 1; {
		case u.name == unclosed:
			c.r.Add(u.node, "unclosed", "", "%s in %q", errUnclosed, u.node.Text)
		case more == 0:
			c.r.Add(u.node, "not-set", "", "${%s} is not set for %s", u.name, u.users[0])
		default:
			c.r.Add(u.node, "not-set", "", "${%s} is not set for %s and %d more", u.name, u.users[0], more)
		}
	}
}

// present returns the nodes that are there.
func present(nodes ...*document.Node) []*document.Node {
	return slices.DeleteFunc(nodes, func(n *document.Node) bool { return n == nil })
}

// uses returns the scalars that a host expands, each taken from the innermost level that has it.
func uses(levels []*document.Node) []*document.Node {
	var out []*document.Node
	for _, path := range [][]string{{"service", "exec"}, {"service", "hooks", "before"}, {"service", "hooks", "after"}} {
		if n := innermost(levels, path...); n != nil {
			out = append(out, n.Items...)
		}
	}
	out = append(out, envUses(levels)...)
	if secrets := innermost(levels, "service", "secrets"); secrets != nil {
		for _, f := range secrets.Fields {
			if file := f.Value.Get("file"); file != nil {
				out = append(out, file)
			}
		}
	}
	lists := []*document.Node{innermost(levels[:2], "test"), innermost(levels[:2], "steps"), innermost(levels, "service", "ready", "checks")}
	for _, list := range lists {
		for _, item := range items(list) {
			out = append(out, checkUses(item)...)
		}
	}
	return out
}

// checkUses returns the scalars of a check, or of an own step, that a host expands.
func checkUses(n *document.Node) (out []*document.Node) {
	for _, field := range []string{"http", "tcp", "body"} {
		if text := n.Get(field); text != nil {
			out = append(out, text)
		}
	}
	if run := n.Get("run"); run != nil {
		out = append(out, run.Items...)
	}
	if headers := n.Get("headers"); headers != nil {
		for _, f := range headers.Fields {
			out = append(out, f.Value)
		}
	}
	return out
}

// envUses returns the values of env in force on a host that have a variable, one per name.
func envUses(levels []*document.Node) []*document.Node {
	var out []*document.Node
	for i, level := range levels {
		env := level.Get("service").Get("env")
		if env == nil {
			continue
		}
		for _, f := range env.Fields {
			overridden := func(inner *document.Node) bool { return inner.Get("service").Get("env").Get(f.Key) != nil }
			if strings.Contains(f.Value.Text, "${") && !slices.ContainsFunc(levels[i+1:], overridden) {
				out = append(out, f.Value)
			}
		}
	}
	return out
}

func innermost(levels []*document.Node, path ...string) *document.Node {
	for _, level := range slices.Backward(levels) {
		n := level
		for _, key := range path {
			n = n.Get(key)
		}
		if n != nil {
			return n
		}
	}
	return nil
}

// merged returns the variables of the levels, outermost first.
func merged(levels ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, level := range levels {
		maps.Copy(out, level)
	}
	return out
}
