package build

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Bounds of matrices.
const (
	maxCombinations = 256     // combinations of one step, before exclude
	maxExpanded     = 200_000 // values that all steps of a file with a matrix come to
)

const (
	keyMatrix  = "matrix"
	keyExclude = "exclude"
)

// matrix lists the values by which a step is multiplied.
type matrix struct {
	axes    []axis
	exclude []*document.Node // mappings of axes to values
}

// axis is a name with its values, scalars.
type axis struct {
	name   string
	values []*document.Node
}

// matrixOf reads the matrix of a step, and reports its faults.
func matrixOf(n *document.Node, scope string, problems *fault.Problems) (m matrix) {
	add := func(at fault.Position, code, scope, format string, args ...any) {
		problems.Add(fault.Problem{Position: at, Code: code, Scope: scope, Text: fmt.Sprintf(format, args...)})
	}
	product := 1
	for _, f := range n.Fields {
		path := scope + "/" + f.Key
		if f.Value.Kind != document.List {
			add(f.Value.At, "wrong-kind", path, "want a list, found %s", f.Value.Kind)
			continue
		}
		if f.Key == keyExclude {
			m.exclude = f.Value.Items
			continue
		}
		if len(f.Value.Items) == 0 {
			add(f.Value.At, "matrix-empty", path, "the axis %q has no values", f.Key)
		}
		for i, item := range f.Value.Items {
			if !isScalar(item) {
				add(item.At, "wrong-kind", document.Index(path, i), "want a scalar, found %s", item.Kind)
			}
		}
		m.axes = append(m.axes, axis{f.Key, f.Value.Items})
		product = min(product*len(f.Value.Items), maxCombinations+1)
	}
	switch {
	case len(m.axes) == 0:
		add(n.At, "matrix-empty", scope, "the matrix has no axis, such as go: [1.25, 1.26]")
	case product > maxCombinations:
		add(n.At, "matrix-large", scope, "the matrix has more than %d combinations", maxCombinations)
	}
	m.checkExclude(scope+"/"+keyExclude, add)
	m.checkRepeated(scope, add)
	if problems.Err() == nil && len(m.combinations()) == 0 {
		add(n.At, "matrix-empty", scope, "every combination is excluded")
	}
	return m
}

// checkRepeated reports values of an axis that give two steps one name.
func (m matrix) checkRepeated(scope string, add func(at fault.Position, code, scope, format string, args ...any)) {
	for _, a := range m.axes {
		seen := map[string]bool{}
		for i, v := range a.values {
			if isScalar(v) && seen[scalarText(v)] {
				add(v.At, "matrix-repeated", document.Index(scope+"/"+a.name, i), "the axis %q has the value %s twice", a.name, scalarText(v))
			}
			seen[scalarText(v)] = true
		}
	}
}

// checkExclude reports exclusions that name something else than an axis and a scalar.
func (m matrix) checkExclude(scope string, add func(at fault.Position, code, scope, format string, args ...any)) {
	for i, item := range m.exclude {
		path := document.Index(scope, i)
		switch {
		case item.Kind != document.Map:
			add(item.At, "wrong-kind", path, "want a mapping of axes to values, found %s", item.Kind)
		case len(item.Fields) == 0:
			add(item.At, "matrix-empty", path, "the exclusion names no axis")
		}
		for _, f := range item.Fields {
			switch {
			case !slices.ContainsFunc(m.axes, func(a axis) bool { return a.name == f.Key }):
				add(f.At, "matrix-axis", path, "the matrix has no axis %q", f.Key)
			case !isScalar(f.Value):
				add(f.Value.At, "wrong-kind", path+"/"+f.Key, "want a scalar, found %s", f.Value.Kind)
			}
		}
	}
}

func isScalar(n *document.Node) bool { return n.Kind != document.List && n.Kind != document.Map }

// combinations lists the combinations that are not excluded, each with a field for each axis, the first axis slowest.
func (m matrix) combinations() (list [][]document.Field) {
	list = [][]document.Field{nil}
	for _, a := range m.axes {
		var longer [][]document.Field
		for _, c := range list {
			for _, v := range a.values {
				longer = append(longer, append(slices.Clone(c), document.Field{Key: a.name, At: v.At, Value: v}))
			}
		}
		list = longer
	}
	return slices.DeleteFunc(list, m.excludes)
}

// excludes reports whether an exclusion has only values of a combination.
func (m matrix) excludes(combination []document.Field) bool {
	return slices.ContainsFunc(m.exclude, func(e *document.Node) bool {
		for _, f := range e.Fields {
			i := slices.IndexFunc(combination, func(c document.Field) bool { return c.Key == f.Key })
			if combination[i].Value.Text != f.Value.Text {
				return false
			}
		}
		return true
	})
}

// expand returns the steps that a field of a stage comes to, each with the combination as its matrix and the variables of that; the
// field itself without a sound matrix.
func (s *substituter) expand(f document.Field, scope string) []expanded {
	at := slices.IndexFunc(f.Value.Fields, func(k document.Field) bool { return k.Key == keyMatrix })
	if at < 0 || f.Value.Kind != document.Map || f.Value.Fields[at].Value.Kind != document.Map {
		return []expanded{{field: f}}
	}
	path := scope + "/" + f.Key + "/" + keyMatrix
	var problems fault.Problems
	m := matrixOf(s.node(f.Value.Fields[at].Value, path, false), path, &problems)
	if problems.Err() != nil {
		s.problems = append(s.problems, problems...)
		return []expanded{{field: f}}
	}
	combinations := m.combinations()
	if s.grown += len(combinations) * count(f.Value); s.grown > maxExpanded {
		s.problems.Add(fault.Problem{Position: f.Value.Fields[at].At, Code: "matrix-large", Scope: path,
			Text: fmt.Sprintf("the steps of the file with a matrix come to more than %d values", maxExpanded)})
		return []expanded{{field: f}}
	}
	var out []expanded
	for _, c := range combinations {
		if n := nameLength(f.Key, c); n > maxName {
			s.problems.Add(fault.Problem{Position: f.Value.Fields[at].At, Code: "name-long", Scope: path,
				Text: fmt.Sprintf("the name of a combination has %d bytes; at most %d are read", n, maxName)})
			return []expanded{{field: f}}
		}
		step := *f.Value
		step.Fields = slices.Delete(slices.Clone(step.Fields), at, at+1)
		e := expanded{field: document.Field{Key: f.Key, At: f.At, Value: &step},
			matrix: &document.Node{Kind: document.Map, At: f.Value.Fields[at].Value.At, Fields: c},
			source: matrixSource(f.Key, c)}
		out = append(out, e)
	}
	return out
}

// expanded is a field of a stage, or one combination of it.
type expanded struct {
	field  document.Field // without the matrix
	matrix *document.Node // axes and values; nil: it has none
	source Source         // the same as variables
}

// count returns the number of values in a document.
func count(n *document.Node) int {
	total := 1
	for _, item := range n.Items {
		total += count(item)
	}
	for _, f := range n.Fields {
		total += count(f.Value)
	}
	return total
}

// nameLength returns the length in bytes of what matrixName returns.
func nameLength(step string, combination []document.Field) int {
	n := len(step) + len(" ()")
	for _, f := range combination {
		n += len(f.Key) + len("=, ") + len(f.Value.Text)
	}
	return n
}

// matrixName returns the name of a step with its combination: unit (go=1.26, db=pg).
func matrixName(step string, combination *document.Node) string {
	var parts []string
	for _, f := range combination.Fields {
		parts = append(parts, f.Key+"="+scalarText(f.Value))
	}
	return step + " (" + strings.Join(parts, ", ") + ")"
}

// matrixSource returns the values of a combination as variables.
func matrixSource(step string, combination []document.Field) Source {
	source := Source{Name: "the matrix of " + step, Values: map[string]Value{}}
	for _, v := range combination {
		source.Values[keyMatrix+"."+v.Key] = Value{Text: scalarText(v.Value), Kind: v.Value.Kind, At: v.At}
	}
	return source
}
