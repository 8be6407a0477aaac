// Package jsonpath evaluates JSONPath (RFC 9535) with a bound on the work.
//
// A short path may select, or look at, far more nodes than a document has: each descendant segment
// multiplies them by the depth, each list of selectors by its length, and a filter looks at whole
// subtrees again. So Select counts the nodes that it looks at and gives up at a limit, whatever the
// path and the document are. Documents are as encoding/json decodes them; numbers may be
// json.Number.
//
// A Path selects nodes. A Filter is an expression alone, the text in brackets after ? in RFC 9535, and accepts a node
// or does not. Files of swoop have filters with &, |, =~ and in, which the standard does not know: ParseFilter
// rewrites them. The library of JSONPath parses both; the nodes are selected and counted here.
package jsonpath

import (
	"errors"
	"fmt"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// maxText bounds the bytes of a path.
const maxText = 4096

// maxDepth bounds the depth of a descendant segment or a filter: both recurse.
const maxDepth = 1000

// Errors of Select.
var (
	errTooMuchWork = errors.New("looks at too many nodes")
	errTooDeep     = fmt.Errorf("looks more than %d levels deep", maxDepth)
)

// Path is a compiled path. Make it with Parse.
type Path struct {
	query  *spec.PathQuery
	leaves leaves
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
	p := &Path{query: path.Query(), leaves: leaves{}}
	p.leaves.addQuery(p.query)
	return p, nil
}

func (p *Path) String() string { return p.query.String() }

// Singular reports whether the path has names and indexes only, so that it selects one node at
// most.
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

// Select returns the nodes that the path selects, and takes those that it looks at from left. Where more would have
// to be looked at, it returns an error and left is negative. Parts that the path does not read cost nothing.
func (p *Path) Select(document any, left *float64) ([]any, error) {
	e := evaluation{leaves: p.leaves, root: document, left: left}
	nodes, err := e.query(p.query.Segments(), document)
	if err != nil {
		return nil, fmt.Errorf("%s %w", p, err)
	}
	return nodes, nil
}
