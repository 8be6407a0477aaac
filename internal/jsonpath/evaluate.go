package jsonpath

import (
	"cmp"

	"github.com/theory/jsonpath/spec"
)

// evaluation is one Select, or one question to a filter.
type evaluation struct {
	leaves leaves
	root   any
	left   *float64 // nodes that may still be looked at
}

func (e *evaluation) spend(nodes float64) error {
	if *e.left -= nodes; *e.left < 0 {
		return errTooMuchWork
	}
	return nil
}

// query returns the nodes that segments select, beginning at a node.
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

// segment appends the nodes that a segment selects of a node. level counts how deep a descendant
// segment is.
func (e *evaluation) segment(s *spec.Segment, node any, selected []any, level int) ([]any, error) {
	if level > maxDepth {
		return nil, errTooDeep
	}
	var err error
	for _, selector := range s.Selectors() {
		if filter, ok := selector.(*spec.FilterSelector); ok {
			selected, err = e.filter(filter, node, selected)
		} else {
			some := selector.Select(node, e.root)
			selected, err = append(selected, some...), e.spend(float64(1+len(some)))
		}
		if err != nil {
			return nil, err
		}
	}
	if !s.IsDescendant() {
		return selected, nil
	}
	for child := range children(node) {
		if selected, err = e.segment(s, child, selected, level+1); err != nil {
			return nil, err
		}
	}
	return selected, nil
}

// filter appends the children of a node that a filter accepts.
func (e *evaluation) filter(filter *spec.FilterSelector, node any, selected []any) ([]any, error) {
	for child := range children(node) {
		yes, err := e.accepts(filter.LogicalOr, child)
		if err != nil {
			return nil, err
		}
		if yes {
			selected = append(selected, child)
		}
	}
	return selected, nil
}

// accepts reports whether one of the alternatives holds for a node.
func (e *evaluation) accepts(or spec.LogicalOr, node any) (bool, error) {
	if err := e.spend(1); err != nil {
		return false, err
	}
	for _, and := range or {
		if yes, err := e.all(and, node); yes || err != nil {
			return yes, err
		}
	}
	return false, nil
}

// all reports whether all expressions hold for a node.
func (e *evaluation) all(and spec.LogicalAnd, node any) (bool, error) {
	for _, expression := range and {
		if yes, err := e.holds(expression, node); !yes || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (e *evaluation) holds(expression spec.BasicExpr, node any) (bool, error) {
	switch x := expression.(type) {
	case *spec.ParenExpr:
		return e.accepts(x.LogicalOr, node)
	case *spec.NotParenExpr:
		yes, err := e.accepts(x.LogicalOr, node)
		return !yes, err
	case *spec.ExistExpr:
		return e.exists(x.PathQuery, node)
	case *spec.NonExistExpr:
		yes, err := e.exists(x.PathQuery, node)
		return !yes, err
	}
	one := e.leaves[expression]
	cost, err := one.cost(node, e.root, *e.left)
	if err = cmp.Or(err, e.spend(cost)); err != nil {
		return false, err
	}
	return one.selector.Eval(node, e.root), nil
}

// exists reports whether a query selects anything.
func (e *evaluation) exists(q *spec.PathQuery, node any) (bool, error) {
	if e.leaves[q].absolute {
		node = e.root
	}
	nodes, err := e.query(q.Segments(), node)
	return len(nodes) > 0, err
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
