package build

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// LoopError reports variables that refer to each other in a circle.
type LoopError struct {
	Names []string         // cycle of names, beginning at the first by the alphabet
	At    []fault.Position // positions of their values; zero: in no file
}

// loop returns the error for names of which each refers to the next and the last to the first.
func (vs Variables) loop(names []string) *LoopError {
	first := slices.Index(names, slices.Min(names))
	names = slices.Concat(names[first:], names[:first+1])
	e := &LoopError{Names: names}
	for _, name := range names {
		v, _ := vs.Lookup(name)
		e.At = append(e.At, v.At)
	}
	return e
}

// Error names the variables with the places of their values. It is the same wherever the circle is met.
func (e *LoopError) Error() string {
	named := slices.Clone(e.Names)
	for i, at := range e.At[:len(e.At)-1] {
		if at.Line > 0 {
			named[i] += " (" + at.String() + ")"
		}
	}
	return "these variables refer to each other in a circle: " + strings.Join(named, " → ")
}

// metLoops are the circles that were reported.
type metLoops map[string]bool

// again reports whether an error is a circle that it was given before.
func (m *metLoops) again(err error) bool {
	if _, ok := errors.AsType[*LoopError](err); !ok {
		return false
	}
	if *m == nil {
		*m = metLoops{}
	}
	before := (*m)[err.Error()]
	(*m)[err.Error()] = true
	return before
}

// mostVisits bounds the search for circles. Circles beyond it are found where they are used.
const mostVisits = 1_000_000

// Loops returns the circles among the defaults of the inputs, and among these and the variables of each environment:
// any use of these variables is an error, unless the input is given another value.
func (f *File) Loops() fault.Problems {
	s := f.searchLoops()
	s.problems.Sort()
	return s.problems
}

func (f *File) searchLoops() *loopSearch {
	sources, _ := f.inputSources(nil)
	s := &loopSearch{variables: sources}
	for _, in := range f.Inputs {
		s.visit(in.Name)
	}
	for _, e := range f.Environments {
		s.variables, s.seen = append(slices.Clip(sources), Source{Values: e.Values}), nil
		for _, name := range slices.Sorted(maps.Keys(e.Values)) {
			s.visit(name)
		}
	}
	return s
}

// loopSearch searches for circles, depth first.
type loopSearch struct {
	variables Variables
	seen      map[string]bool // true: it is open, or what it refers to
	open      []string
	visits    int
	met       metLoops
	problems  fault.Problems
}

// visit looks at a variable and at all that it refers to.
func (s *loopSearch) visit(name string) {
	v, ok := s.variables.Lookup(name)
	if s.visits++; !ok || s.visits > mostVisits {
		return
	}
	if open, seen := s.seen[name]; seen {
		if open {
			s.add(s.variables.loop(s.open[slices.Index(s.open, name):]))
		}
		return
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[name], s.open = true, append(s.open, name)
	for text, found := v.Text, true; found; {
		var inside string
		if _, inside, text, found = cutVariable(text); found && !isLiteral(inside) {
			s.visit(strings.TrimSpace(inside))
		}
	}
	s.seen[name], s.open = false, s.open[:len(s.open)-1]
}

// add reports a circle, unless it was reported, at its first value in the file.
func (s *loopSearch) add(loop *LoopError) {
	if s.met.again(loop) {
		return
	}
	at := slices.MinFunc(loop.At, func(a, b fault.Position) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	s.problems.Add(fault.Problem{Position: at, Code: "variable-loop", Text: loop.Error()})
}
