package build

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Value is the value of a variable.
type Value struct {
	Text string
	Kind document.Kind  // a value that is exactly one variable keeps its kind; Null is a String here
	At   fault.Position // where it was written; zero: in no file

	Secret bool // a password: neither stored nor shown
}

// Source is named values from one place.
type Source struct {
	Name   string // name for people, such as "environment stage"
	Values map[string]Value
}

// Variables is sources in the order of their precedence: the first that has a name wins.
type Variables []Source

// Texts makes a source of plain strings.
func Texts(name string, values map[string]string) Source {
	s := Source{Name: name, Values: map[string]Value{}}
	for k, v := range values {
		s.Values[k] = Value{Text: v, Kind: document.String}
	}
	return s
}

// Lookup finds a variable.
func (vs Variables) Lookup(name string) (Value, bool) {
	for _, s := range vs {
		if v, ok := s.Values[name]; ok {
			return v, true
		}
	}
	return Value{}, false
}

// Substitute replaces each ${name} in text by its value, whose own variables are replaced too. ${%name%} becomes a
// literal ${name}. A variable without a value stays as it is and is listed in undefined. The error is a *LoopError,
// or names the bound that was met.
func Substitute(vs Variables, text string) (replaced string, undefined []string, err error) {
	s := substitution{variables: vs}
	replaced, err = s.expand(text, nil)
	return replaced, s.undefined, err
}

// Bounds beyond which variables multiply each other. In bytes, a replacement counts as costOfOne more than its value has.
const (
	maxExpansion = 8 << 20  // to which a text may grow
	maxDocument  = 32 << 20 // to which all texts of a file together may grow
	costOfOne    = 64       // so that empty values do not multiply without end
	maxNesting   = 100      // values in values
)

type substitution struct {
	variables Variables
	undefined []string
	grown     int
}

// expand replaces the variables of text, which is the value of the last of the open names.
func (s *substitution) expand(text string, open []string) (string, error) {
	var out strings.Builder
	for {
		before, inside, after, found := cutVariable(text)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		value, err := s.value(inside, open)
		if err != nil {
			return "", err
		}
		if s.grown += len(value) + costOfOne; s.grown > maxExpansion {
			return "", fmt.Errorf("its variables grow to more than %d bytes", maxExpansion)
		}
		out.WriteString(value)
		text = after
	}
}

// cutVariable splits text at its first ${…}.
func cutVariable(text string) (before, inside, after string, found bool) {
	start := strings.Index(text, "${")
	if start < 0 {
		return text, "", "", false
	}
	length := strings.IndexByte(text[start:], '}')
	if length < 0 {
		return text, "", "", false
	}
	return text[:start], text[start+2 : start+length], text[start+length+1:], true
}

// value returns the replacement of ${inside}.
func (s *substitution) value(inside string, open []string) (string, error) {
	if isLiteral(inside) {
		return "${" + strings.TrimSuffix(strings.TrimPrefix(inside, "%"), "%") + "}", nil
	}
	name := strings.TrimSpace(inside)
	v, ok := s.variables.Lookup(name)
	if !ok {
		s.undefined = append(s.undefined, name)
		return "${" + inside + "}", nil
	}
	if i := slices.Index(open, name); i >= 0 {
		return "", s.variables.loop(open[i:])
	}
	if len(open) == maxNesting {
		return "", fmt.Errorf("its variables are nested more than %d deep", maxNesting)
	}
	return s.expand(v.Text, append(slices.Clone(open), name))
}

// isLiteral reports whether ${inside} is a literal ${…}.
func isLiteral(inside string) bool {
	return strings.HasPrefix(inside, "%") && strings.HasSuffix(inside, "%")
}

// variableName is the names that a variable without a value may have, so that it is one that is missing.
var variableName = regexp.MustCompile(`^[\pL\pN_. -]+$`)

// substituter replaces variables all over a document.
type substituter struct {
	variables Variables
	others    map[string][]string // the environments of the file that have a variable; one at most is selected
	strict    bool                // a name without a value is an error, also where the shell might know it
	problems  fault.Problems
	replaced  map[*document.Node]bool // values that came from variables, and matrices that are one combination
	grown     int                     // values that steps with a matrix have come to
	size      int                     // bytes of the texts
	plain     map[*document.Node]bool // values without variables all through, which are not copied
	loops     metLoops
}

// stages copies the root with the variables of every stage replaced; names of stages never are.
func (s *substituter) stages(root *document.Node) *document.Node {
	out := *root
	out.Fields = slices.Clone(root.Fields)
	for i, f := range out.Fields {
		if f.Key != keyInputs && f.Key != keyEnvironments {
			s.isPlain(f.Value)
			out.Fields[i].Value = s.stage(f.Value, f.Key)
		}
	}
	return &out
}

// isPlain reports whether no text in a value has a variable. If one has, it notes the lists and mappings inside in which none has.
func (s *substituter) isPlain(n *document.Node) bool {
	children, child := len(n.Items), func(i int) *document.Node { return n.Items[i] }
	plain := n.Kind != document.String || !hasVariable(n.Text)
	if n.Kind == document.Map {
		children, child = len(n.Fields), func(i int) *document.Node { return n.Fields[i].Value }
		plain = !slices.ContainsFunc(n.Fields, func(f document.Field) bool { return hasVariable(f.Key) })
	}
	for i := range children {
		switch own := s.isPlain(child(i)); {
		case own && !plain:
			s.note(child(i))
		case !own && plain:
			plain = false
			for earlier := range i {
				s.note(child(earlier))
			}
		}
	}
	return plain
}

// note notes a list or mapping without variables.
func (s *substituter) note(n *document.Node) {
	if n.Kind == document.List || n.Kind == document.Map {
		s.plain[n] = true
	}
}

func hasVariable(text string) bool { return strings.Contains(text, "${") }

// keep reports whether a value without variables is used as it is, and counts the bytes of its texts.
func (s *substituter) keep(n *document.Node) bool {
	size := textSize(n)
	if s.size+size > maxDocument {
		return false
	}
	s.size += size
	return true
}

// textSize returns the bytes of the keys and strings in a value.
func textSize(n *document.Node) (size int) {
	if n.Kind == document.String {
		size = len(n.Text)
	}
	for _, item := range n.Items {
		size += textSize(item)
	}
	for _, f := range n.Fields {
		size += len(f.Key) + textSize(f.Value)
	}
	return size
}

// stage copies a stage with its variables replaced, and each step with a matrix once for each combination.
func (s *substituter) stage(n *document.Node, scope string) *document.Node {
	if n.Kind != document.Map {
		return s.node(n, scope, false)
	}
	out, seen, own := *n, map[string]fault.Position{}, s.variables
	out.Fields = nil
	for _, f := range n.Fields {
		for i, e := range s.expand(f, scope) {
			keys := seen
			if i > 0 {
				keys = map[string]fault.Position{} // the combinations have the key in common
			}
			if e.matrix != nil {
				s.variables = append(Variables{e.source}, own...)
			}
			field := s.field(e.field, scope, false, keys)
			if e.matrix != nil {
				s.replaced[e.matrix] = true
				field.Value.Fields = append(field.Value.Fields, document.Field{Key: keyMatrix, At: e.matrix.At, Value: e.matrix})
			}
			out.Fields = append(out.Fields, field)
			s.variables = own
		}
	}
	return &out
}

// node copies n with its variables replaced, unless it has none; quiet: names without a value are left to the shell.
func (s *substituter) node(n *document.Node, scope string, quiet bool) *document.Node {
	switch n.Kind {
	case document.List:
		if s.plain[n] && s.keep(n) {
			return n
		}
		out := *n
		out.Items = make([]*document.Node, len(n.Items))
		for i, item := range n.Items {
			out.Items[i] = s.node(item, document.Index(scope, i), quiet)
		}
		return &out
	case document.Map:
		if s.plain[n] && s.keep(n) {
			return n
		}
		out := *n
		out.Fields = s.fields(n, scope, quiet)
		return &out
	case document.String:
		if !hasVariable(n.Text) && s.keep(n) {
			return n
		}
		return s.scalar(n, scope, quiet)
	}
	return n
}

func (s *substituter) fields(n *document.Node, scope string, quiet bool) []document.Field {
	out := slices.Clone(n.Fields)
	var seen map[string]fault.Position // nil: no key changes
	if slices.ContainsFunc(out, func(f document.Field) bool { return hasVariable(f.Key) }) {
		seen = map[string]fault.Position{}
	}
	for i, f := range out {
		out[i] = s.field(f, scope, quiet, seen)
	}
	return out
}

// field copies a field with its variables replaced. seen has the keys before it; nil: they are known to be others.
func (s *substituter) field(f document.Field, scope string, quiet bool, seen map[string]fault.Position) document.Field {
	key := s.text(f.Key, f.At, scope, quiet)
	if len(key) > maxName && key != f.Key {
		s.problems.Add(fault.Problem{Position: f.At, Code: "name-long", Scope: scope,
			Text: fmt.Sprintf("the name has %d bytes; at most %d are read", len(key), maxName)})
		key = f.Key
	}
	if first, ok := seen[key]; ok {
		s.problems.Add(fault.Problem{Position: f.At, Code: "key-repeated", Scope: scope,
			Text: fmt.Sprintf("the key %q is already at %d:%d", key, first.Line, first.Column)})
	}
	if seen != nil {
		seen[key] = f.At
	}
	f.Key, f.Value = key, s.node(f.Value, scope+"/"+key, quiet || key == "cmds")
	return f
}

func (s *substituter) scalar(n *document.Node, scope string, quiet bool) *document.Node {
	out := *n
	out.Text = s.text(n.Text, n.At, scope, quiet)
	if out.Text != n.Text || strings.Contains(n.Text, "${") {
		s.replaced[&out] = true
	}
	before, inside, after, found := cutVariable(n.Text)
	if found && before == "" && after == "" {
		if v, ok := s.variables.Lookup(strings.TrimSpace(inside)); ok {
			out.Kind = v.Kind
		}
	}
	return &out
}

func (s *substituter) text(text string, at fault.Position, scope string, quiet bool) string {
	if s.size > maxDocument {
		return text // the error was reported
	}
	one := substitution{variables: s.variables}
	replaced, err := one.expand(text, nil)
	s.size += max(len(replaced), one.grown)
	switch {
	case s.loops.again(err):
		return text
	case err != nil:
		s.problems.Add(fault.Problem{Position: at, Code: "variable-loop", Scope: scope, Text: err.Error()})
		return text
	case s.size > maxDocument:
		s.problems.Add(fault.Problem{Position: at, Code: "variable-loop", Scope: scope,
			Text: fmt.Sprintf("up to here the variables of the file grow to more than %d bytes", maxDocument)})
		return text
	}
	for _, name := range one.undefined {
		switch {
		case !variableName.MatchString(name) && !strings.HasPrefix(name, hashPrefix): // ${x:-y} and the like are the shell's own
		case strings.HasPrefix(name, hashPrefix) && strings.Contains(scope, "/"+keyCache+"["): // the runner replaces it
		case s.strict:
			s.problems.Add(fault.Problem{Position: at, Code: "variable-undefined", Scope: scope,
				Text: fmt.Sprintf("the variable %q has no value%s; ${%%%s%%} leaves it to the shell", name, s.inOthers(name), name)})
		case !quiet || strings.HasPrefix(name, keyMatrix+"."): // a shell cannot have it
			s.problems.Add(fault.Problem{Position: at, Code: "variable-undefined", Scope: scope, Warning: true,
				Text: fmt.Sprintf("the variable %q has no value%s, so ${%s} stays as it is", name, s.inOthers(name), name)})
		}
	}
	return replaced
}

// mostOthers bounds the environments that are named.
const mostOthers = 5

// environmentsOf returns the names of the environments that have a variable, by its name.
func environmentsOf(environments []Environment) map[string][]string {
	names := map[string][]string{}
	for _, e := range environments {
		for variable := range e.Values {
			names[variable] = append(names[variable], e.Name)
		}
	}
	return names
}

// inOthers reports which environments would give a variable a value: " but in environment prod, which is not
// selected"; "" if none would.
func (s *substituter) inOthers(name string) string {
	names := s.others[name]
	switch n := len(names); {
	case n == 0:
		return ""
	case n == 1:
		return fmt.Sprintf(" but in environment %s, which is not selected", names[0])
	case n > mostOthers:
		return fmt.Sprintf(" but in environments %s and %d more, which are not selected", strings.Join(names[:mostOthers], ", "), n-mostOthers)
	}
	return fmt.Sprintf(" but in environments %s, which are not selected", strings.Join(names, ", "))
}
