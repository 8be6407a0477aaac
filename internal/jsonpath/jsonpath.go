// Package jsonpath evaluates JSONPath (RFC 9535) with a bound on the work.
//
// A short path may select, or look at, far more nodes than a document has: each descendant segment multiplies them by
// the depth, each list of selectors by its length, and a filter looks at whole subtrees again. So Select counts the
// nodes that it looks at and gives up at a limit, whatever the path and the document are. Documents are as
// encoding/json decodes them; numbers may be json.Number.
package jsonpath

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/registry"
	"github.com/theory/jsonpath/spec"
)

// maxText is how many bytes a path may have.
const maxText = 4096

// maxDepth is how deep a descendant segment or a filter may go: both recurse.
const maxDepth = 1000

// Errors of Select.
var (
	errTooMuchWork = errors.New("looks at too many nodes")
	errTooDeep     = fmt.Errorf("looks more than %d levels deep", maxDepth)
)

// Path is a compiled path. Make it with Parse.
type Path struct {
	query *spec.PathQuery
}

// Parse compiles a path.
func Parse(text string) (*Path, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("a JSONPath of %d bytes: want at most %d", len(text), maxText)
	}
	path, err := jsonpath.NewParser(jsonpath.WithRegistry(functions())).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a valid JSONPath: %s", text, strings.TrimPrefix(err.Error(), "jsonpath: "))
	}
	return &Path{query: path.Query()}, nil
}

// functions returns the functions of the standard. The library's match and search panic on an argument that is not there.
func functions() *registry.Registry {
	all := registry.New()
	for _, name := range []string{"match", "search"} {
		known := all.Get(name)
		original := *known
		*known = *spec.Extension(name, original.ReturnType(), original.Validate, func(arguments []spec.PathValue) spec.PathValue {
			if slices.Contains(arguments, nil) {
				return spec.LogicalFalse
			}
			return original.Evaluate(arguments)
		})
	}
	return all
}

func (p *Path) String() string { return p.query.String() }

// Singular reports whether the path has names and indexes only, so that it selects one node at most.
func (p *Path) Singular() bool { return p.query.Singular() != nil }

// First returns the name that the path begins with; "" when it begins otherwise.
func (p *Path) First() string {
	segments := p.query.Segments()
	if len(segments) == 0 || segments[0].IsDescendant() || len(segments[0].Selectors()) != 1 {
		return ""
	}
	name, _ := segments[0].Selectors()[0].(spec.Name)
	return string(name)
}

// Names returns the names and indexes of a singular path, from the root on: string or int.
func (p *Path) Names() []any {
	var names []any
	for _, s := range p.query.Segments() {
		switch one := s.Selectors()[0].(type) {
		case spec.Name:
			names = append(names, string(one))
		case spec.Index:
			names = append(names, int(one))
		}
	}
	return names
}

// Select returns the nodes that the path selects, and takes those that it looks at from left. Where more would have to be
// looked at, it returns an error and left is negative. What the path does not look at costs nothing.
func (p *Path) Select(document any, left *float64) ([]any, error) {
	e := evaluation{root: document, left: left}
	nodes, err := e.query(p.query.Segments(), document)
	if err != nil {
		return nil, fmt.Errorf("%s %w", p, err)
	}
	return nodes, nil
}

// evaluation is one Select.
type evaluation struct {
	root    any
	deepest float64  // levels of what filters look at
	left    *float64 // nodes that may still be looked at
}

func (e *evaluation) spend(nodes float64) error {
	if *e.left -= nodes; *e.left < 0 {
		return errTooMuchWork
	}
	return nil
}

// query returns what segments select, beginning at a node.
func (e *evaluation) query(segments []*spec.Segment, from any) ([]any, error) {
	nodes := []any{from}
	for _, s := range segments {
		var selected []any
		for _, node := range nodes {
			var err error
			if selected, err = e.segment(s, node, selected, 1); err != nil {
				return nil, err
			}
		}
		nodes = selected
	}
	return nodes, nil
}

// segment appends what a segment selects of a node. level counts how deep a descendant segment has gone.
func (e *evaluation) segment(s *spec.Segment, node any, selected []any, level int) ([]any, error) {
	if level > maxDepth {
		return nil, errTooDeep
	}
	for _, selector := range s.Selectors() {
		filter, filters := selector.(*spec.FilterSelector)
		if !filters {
			some := selector.Select(node, e.root)
			if err := e.spend(float64(1 + len(some))); err != nil {
				return nil, err
			}
			selected = append(selected, some...)
			continue
		}
		for child := range children(node) {
			cost := e.cost(filter.LogicalOr, child)
			if e.deepest > maxDepth {
				return nil, errTooDeep
			}
			if err := e.spend(cost); err != nil {
				return nil, err
			}
			if filter.Eval(child, e.root) {
				selected = append(selected, child)
			}
		}
	}
	if !s.IsDescendant() {
		return selected, nil
	}
	for child := range children(node) {
		var err error
		if selected, err = e.segment(s, child, selected, level+1); err != nil {
			return nil, err
		}
	}
	return selected, nil
}

// children yields the elements of a list or the values of an object.
func children(node any) func(yield func(any) bool) {
	return func(yield func(any) bool) {
		switch node := node.(type) {
		case []any:
			for _, child := range node {
				if !yield(child) {
					return
				}
			}
		case map[string]any:
			for _, child := range node {
				if !yield(child) {
					return
				}
			}
		}
	}
}

// cost returns an upper bound of the nodes that a filter looks at for one node. The filter itself is evaluated by the
// library, which does not count.
func (e *evaluation) cost(or spec.LogicalOr, node any) float64 {
	total := 1.0
	for _, and := range or {
		for _, expression := range and {
			total += e.costOf(expression, node)
		}
	}
	return total
}

func (e *evaluation) costOf(expression spec.BasicExpr, node any) float64 {
	switch x := expression.(type) {
	case *spec.ParenExpr:
		return e.cost(x.LogicalOr, node)
	case *spec.NotParenExpr:
		return e.cost(x.LogicalOr, node)
	case *spec.ExistExpr:
		if x.Singular() != nil {
			return float64(len(x.Segments()))
		}
	case *spec.NonExistExpr:
		if x.Singular() != nil {
			return float64(len(x.Segments()))
		}
	}
	return e.costOfText(expression.String(), node)
}

// patternCost is what compiling a regular expression costs, in nodes. The library compiles it for every node.
const patternCost = 200

// quoted matches texts and names as expressions print them; lists matches the beginning of a list of selectors, once
// these are left out.
var (
	quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	lists  = regexp.MustCompile(`\[[^\[\]]*,`)
)

// costOfText bounds the cost of an expression that can be seen only as text. Where it selects one node it compares that
// node, or matches it: at most all there is at the node, or at the root. Else each query in it may select all nodes, for
// each descendant segment and each filter in it as often as the document is deep, and for n selectors in a list n times:
// a list has n-1 commas, and n is at most 2 to the power of n-1.
func (e *evaluation) costOfText(text string, node any) float64 {
	text = quoted.ReplaceAllLiteralString(text, `""`)
	size, depth := e.measure(node)
	fixed := 0.0
	if strings.Contains(text, "(") {
		fixed = patternCost
	}
	several := strings.ContainsAny(text, "*?:") || strings.Contains(text, "..") || lists.MatchString(text)
	if roots := strings.Count(text, "$"); roots > 0 && (several || strings.Contains(text, "(") || !strings.Contains(text, "@")) {
		all, deepest := e.measure(e.root)
		if !several {
			return fixed + size + all
		}
		size, depth = size*math.Pow(all, float64(roots)), max(depth, deepest)
	}
	if !several {
		return fixed + size
	}
	repeats := float64(strings.Count(text, "..") + strings.Count(text, "?"))
	return fixed + size*math.Pow(depth, repeats)*math.Pow(2, float64(strings.Count(text, ",")))
}

// measure is the function measure; it keeps the most levels.
func (e *evaluation) measure(node any) (size, levels float64) {
	size, levels = measure(node)
	e.deepest = max(e.deepest, levels)
	return size, levels
}

// measure returns how many nodes a document has, a long text counted as several, and how many levels.
func measure(node any) (size, levels float64) {
	if text, ok := node.(string); ok {
		return 1 + float64(len(text)/4), 1
	}
	for child := range children(node) {
		n, l := measure(child)
		size, levels = size+n, max(levels, l)
	}
	return size + 1, levels + 1
}
