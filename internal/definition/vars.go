package definition

import (
	"cmp"
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
			vars := merged(d.Vars, s.Vars, map[string]string{"stage": "", "revision": ""})
			request := stage.Get("gates").Items[j].Get("http")
			c.check(present(request.Get("url"), request.Get("body")), vars, "gate "+s.Name+"/"+s.Gates[j].Name)
		}
	}
	c.report()
}

type varCheck struct {
	r       *reader
	order   []*unset
	missing map[*document.Node]map[string]*unset // "" is an unclosed ${
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
			c.add(n, "", user)
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
		case u.name == "":
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
			for _, field := range []string{"http", "tcp", "body"} {
				if n := item.Get(field); n != nil {
					out = append(out, n)
				}
			}
			if run := item.Get("run"); run != nil {
				out = append(out, run.Items...)
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
