package jsonpath

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// Filter is a compiled filter expression. Make it with ParseFilter.
type Filter struct {
	or     spec.LogicalOr
	leaves leaves
}

// SyntaxError is a fault in the text of a filter.
type SyntaxError struct {
	Offset int // index of the character at fault, from 0
	Text   string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("at character %d: %s", e.Offset+1, e.Text) }

// ParseFilter compiles a filter: an expression as RFC 9535 has it behind ?, also with & for &&, |
// for ||, =~ and a regular expression, in and a list. @ is the node; after $ comes the name of a
// document. The error is a *SyntaxError.
func ParseFilter(text string, documents []string) (*Filter, error) {
	r := &rewriter{text: text, documents: documents}
	if err := r.rewrite(); err != nil {
		return nil, err
	}
	path, err := jsonpath.NewParser(jsonpath.WithRegistry(filterFunctions())).Parse(filterBegin + string(r.out) + "]")
	if err != nil {
		return nil, r.original(err)
	}
	f := &Filter{leaves: leaves{}}
	f.or = path.Query().Segments()[0].Selectors()[0].(*spec.FilterSelector).LogicalOr // rewrite has seen that it is one filter
	f.leaves.addFilter(f.or)
	return f, nil
}

// filterBegin makes a path of a filter, for the library.
const filterBegin = "$[?"

// position matches the end of a message of the library.
var position = regexp.MustCompile(` at position (\d+)$`)

// original returns an error of the library with its place in the text.
func (r *rewriter) original(err error) error {
	text := strings.TrimPrefix(err.Error(), "jsonpath: ")
	at := len(r.text)
	if found := position.FindStringSubmatch(text); found != nil {
		text = strings.TrimSuffix(text, found[0])
		if i, err := strconv.Atoi(found[1]); err == nil && i-1-len(filterBegin) < len(r.from) {
			at = r.from[max(i-1-len(filterBegin), 0)]
		}
	}
	if _, why, ok := strings.Cut(text, errSeveral.Error()); ok { // it names a function that the text does not have
		text = errSeveral.Error() + why
	}
	return r.fault(at, "%s", strings.TrimPrefix(text, "function matches() "))
}

// Accepts reports whether the filter holds for a node. Queries that begin with $ begin at the root.
// It takes the nodes that it looks at from left, as Select does.
func (f *Filter) Accepts(node, root any, left *float64) (bool, error) {
	e := evaluation{leaves: f.leaves, root: root, left: left}
	yes, err := e.accepts(f.or, node)
	if err != nil {
		return false, fmt.Errorf("the filter %w", err)
	}
	return yes, nil
}
