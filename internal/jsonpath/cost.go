package jsonpath

import (
	"encoding/json"
	"math"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/theory/jsonpath/spec"
)

// leaves has the known state of the expressions that the library keeps to itself, by the expression: a comparison or
// function, or a query in a filter. It is complete once the text is parsed, and only read afterwards.
type leaves map[any]*leaf

// leaf is the known cost of one expression.
type leaf struct {
	absolute bool                 // whether a query begins at the root
	selector *spec.FilterSelector // evaluates the comparison or function
	fixed    float64              // cost whatever the node is, in nodes
	compares bool                 // two sides, not the arguments of another function
	queries  []singular
	// Of a function whose argument selects several nodes.
	several bool
	roots   float64 // queries that begin at the root
	repeats float64 // descendant segments and filters
	commas  float64
	pattern *pattern // pattern of a function that matches a text; nil: any other expression
}

// pattern is the regular expression of a function.
type pattern struct {
	size float64 // size of the program that a literal compiles to; 0: the text comes from the document
}

// singular is a query for one node.
type singular struct {
	absolute bool
	names    []any // string or int
}

// addQuery adds the filters in a query.
func (l leaves) addQuery(q *spec.PathQuery) {
	l[q] = &leaf{absolute: strings.HasPrefix(q.String(), "$")}
	for _, s := range q.Segments() {
		for _, selector := range s.Selectors() {
			if filter, ok := selector.(*spec.FilterSelector); ok {
				l.addFilter(filter.LogicalOr)
			}
		}
	}
}

// addFilter adds the expressions of a filter.
func (l leaves) addFilter(or spec.LogicalOr) {
	for _, and := range or {
		for _, expression := range and {
			switch x := expression.(type) {
			case *spec.ParenExpr:
				l.addFilter(x.LogicalOr)
			case *spec.NotParenExpr:
				l.addFilter(x.LogicalOr)
			case *spec.ExistExpr:
				l.addQuery(x.PathQuery)
			case *spec.NonExistExpr:
				l.addQuery(x.PathQuery)
			default:
				one := leafOf(spec.Filter(spec.And(expression)).String()[1:])
				one.selector = spec.Filter(spec.And(expression))
				l[expression] = one
			}
		}
	}
}

// Costs of regular expressions, in nodes. Matching takes steps: at most one for each character of
// the text and each instruction of the program. A literal is compiled once.
const (
	stepCost    = 1.0 / 16
	compileCost = 200    // and one for each instruction
	rangeCost   = 4      // cost of compiling one range of a class of characters; a class such as \p{L} has hundreds
	maxProgram  = 10_000 // instructions
	maxForeign  = 256    // bytes of a regular expression that comes from the document: to parse one takes time, too
)

// The parts of an expression as the library prints it. tokens matches its texts and its singular
// queries, names the members of such a query, and lists the beginning of a list of selectors, once
// the texts are left out.
var (
	tokens = regexp.MustCompile(`"(\\.|[^"\\])*"|[@$](\[("(\\.|[^"\\])*"|-?\d+)\])*`)
	names  = regexp.MustCompile(`"(\\.|[^"\\])*"|-?\d+`)
	texts  = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	lists  = regexp.MustCompile(`\[[^\[\]]*,`)
)

// comparing matches a comparison, written as an operator or as a function of a filter.
var comparing = regexp.MustCompile(`^!?(eq|ne|lt|le|gt|ge)\(|^[^(]*$`)

// calls matches the functions that look through a whole value, also inside a comparison.
var calls = regexp.MustCompile(`\b(length|count|value|match|search)\(`)

// matching matches the functions that match a text with a regular expression.
var matching = regexp.MustCompile(`\b(match|search|matches)\(`)

// literalSize returns the size of the program that a quoted regular expression compiles to.
func literalSize(quoted string) float64 {
	text, err := strconv.Unquote(quoted)
	if err != nil {
		return maxProgram
	}
	size, _ := programSize(text)
	return size
}

// programSize returns the number of instructions that a regular expression compiles to, at most a few fewer or more;
// 1 for one that is not valid. compile is the cost of compiling it, in nodes.
func programSize(text string) (size, compile float64) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 1, compileCost
	}
	size = 1 + treeSize(tree)
	return size, compileCost + size + rangeCost*ranges(tree)
}

// ranges counts the ranges of all classes of characters.
func ranges(tree *syntax.Regexp) (n float64) {
	if tree.Op == syntax.OpCharClass {
		n = float64(len(tree.Rune) / 2)
	}
	for _, sub := range tree.Sub {
		n += ranges(sub)
	}
	return n
}

// largestProgram returns the cost of compiling the most expensive text in a document.
func largestProgram(node any) float64 {
	if text, ok := node.(string); ok {
		if len(text) > maxForeign {
			return maxProgram
		}
		_, compile := programSize(text)
		return compile
	}
	largest := 0.0
	for child := range children(node) {
		largest = max(largest, largestProgram(child))
	}
	return largest
}

func treeSize(tree *syntax.Regexp) float64 {
	size := 1.0
	if tree.Op == syntax.OpLiteral {
		size = float64(len(tree.Rune))
	}
	for _, sub := range tree.Sub {
		size += treeSize(sub)
	}
	if tree.Op == syntax.OpRepeat {
		size *= float64(max(tree.Max, tree.Min+1))
	}
	return size
}

// leafOf reads the parts that an expression reads, from its text: the library shows neither operands nor arguments.
func leafOf(text string) *leaf {
	bare := texts.ReplaceAllLiteralString(text, `""`)
	one := &leaf{fixed: 1, compares: comparing.MatchString(bare) && !calls.MatchString(bare),
		several: strings.ContainsAny(bare, "*?:") || strings.Contains(bare, "..") || lists.MatchString(bare)}
	one.commas = float64(strings.Count(bare, ","))
	one.fixed += one.commas
	if matching.MatchString(bare) {
		one.pattern = &pattern{}
		if quoted := texts.FindAllString(text, -1); strings.HasSuffix(bare, `"")`) {
			one.pattern.size = literalSize(quoted[len(quoted)-1])
		}
	}
	if one.several {
		one.roots = float64(strings.Count(bare, "$"))
		one.repeats = float64(strings.Count(bare, "..") + strings.Count(bare, "?"))
		return one
	}
	for _, token := range tokens.FindAllString(text, -1) {
		if token[0] == '"' {
			continue
		}
		q := singular{absolute: token[0] == '$'}
		for _, name := range names.FindAllString(token, -1) {
			if index, err := strconv.Atoi(name); err == nil {
				q.names = append(q.names, index)
			} else if text, err := strconv.Unquote(name); err == nil {
				q.names = append(q.names, text)
			}
		}
		one.queries = append(one.queries, q)
	}
	return one
}

// cost returns an upper bound of the nodes that the expression looks at for a node, or any number
// above limit. It looks at few more than limit itself; with an error it returns how many.
func (l *leaf) cost(node, root any, limit float64) (float64, error) {
	if l.several {
		return l.costOfSeveral(node, root, limit)
	}
	total := l.fixed
	var values []any
	for _, q := range l.queries {
		total += float64(len(q.names))
		values = append(values, q.of(node, root))
	}
	if l.compares {
		more, err := costOfComparing(values, limit)
		return total + more, err
	}
	for _, value := range values {
		total += costOfText(value)
	}
	if l.pattern != nil {
		more, err := l.pattern.cost(values)
		return total + more, err
	}
	return total, nil
}

// cost returns the cost of matching. The values are those of the queries among the arguments: first
// the text, if it is not a literal, and last the pattern, unless that is one.
func (p *pattern) cost(values []any) (float64, error) {
	size, compile := p.size, 0.0
	if size == 0 && len(values) > 0 {
		text, _ := values[len(values)-1].(string)
		if len(text) > maxForeign {
			return 0, errTooMuchWork
		}
		values = values[:len(values)-1]
		size, compile = programSize(text)
	}
	if size > maxProgram {
		return 0, errTooMuchWork
	}
	total := compile
	for _, value := range values {
		text, _ := value.(string)
		total += float64(len(text)) * size * stepCost
	}
	return math.Floor(total), nil
}

// costOfSeveral bounds the cost of an expression with a query for several nodes. Each query in it
// may select all nodes, for each descendant segment and each filter in it as often as the document
// is deep, and for n selectors in a list n times: a list has n-1 commas, and n is at most 2 to the
// power of n-1.
func (l *leaf) costOfSeveral(node, root any, limit float64) (float64, error) {
	size, depth := measure(node, limit)
	if l.roots > 0 {
		all, deepest := measure(root, limit)
		size, depth = size*math.Pow(all, l.roots), max(depth, deepest)
	}
	if depth > maxDepth {
		return size, errTooDeep
	}
	if size > limit {
		return size, nil
	}
	if l.pattern != nil { // any text may meet any pattern
		program := l.pattern.size
		if program == 0 {
			program = max(largestProgram(node), largestProgram(root))
		}
		size *= 1 + program*4*stepCost
	}
	return l.fixed + size*math.Pow(depth, l.repeats)*math.Pow(2, l.commas), nil
}

// costOfComparing bounds the cost of comparing two values. One literal or two values of different
// types need no look inside.
func costOfComparing(values []any, limit float64) (float64, error) {
	if len(values) < 2 {
		return 0, nil
	}
	if a, ok := values[0].(string); ok {
		b, _ := values[1].(string)
		return min(costOfText(a), costOfText(b)), nil
	}
	if !container(values[0]) || !container(values[1]) {
		return 0, nil
	}
	total := 0.0
	for _, value := range values {
		size, depth := measure(value, limit)
		total += size
		if depth > maxDepth {
			return total, errTooDeep
		}
	}
	return total, nil
}

func container(value any) bool {
	switch value.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

// costOfText counts a long text as several nodes.
func costOfText(value any) float64 {
	text, _ := value.(string)
	return float64(len(text) / 4)
}

// of returns the value that the query selects; nil if there is none.
func (q singular) of(node, root any) any {
	if q.absolute {
		node = root
	}
	for _, name := range q.names {
		switch name := name.(type) {
		case string:
			object, _ := node.(map[string]any)
			node = object[name]
		case int:
			list, _ := node.([]any)
			if name < 0 {
				name += len(list)
			}
			if name < 0 || name >= len(list) {
				return nil
			}
			node = list[name]
		}
	}
	return node
}

// measure returns how many nodes a document has, a long text counted as several, and how many
// levels. It stops once it has seen more nodes than limit.
func measure(node any, limit float64) (size, levels float64) {
	size = 1 + costOfText(node)
	for child := range children(node) {
		if size > limit {
			break
		}
		n, l := measure(child, limit-size)
		size, levels = size+n, max(levels, l)
	}
	return size, levels + 1
}

// MatchCost returns the cost, in nodes, of matching a text of a number of bytes, and of compiling the regular
// expression. It returns an error for an expression that is too big.
func MatchCost(bytes int, pattern string) (match, compile float64, err error) {
	if len(pattern) > maxProgram {
		return 0, 0, errTooMuchWork
	}
	size, compile := programSize(pattern)
	if size > maxProgram {
		return 0, compile, errTooMuchWork
	}
	return float64(bytes) * size * stepCost, compile + size/stepCost - size, nil
}

// Weigh takes the nodes of values from left, each as often as it occurs, and the names of members. Long
// texts, names and numbers count as several. It returns an error when fewer are left.
func Weigh(values []any, left *float64) error {
	for _, value := range values {
		if *left -= 1 + costOfText(value); *left < 0 {
			return errTooMuchWork
		}
		switch v := value.(type) {
		case json.Number:
			*left -= costOfText(string(v))
		case map[string]any:
			for name := range v {
				*left -= costOfText(name)
			}
		}
		for child := range children(value) {
			if err := Weigh([]any{child}, left); err != nil {
				return err
			}
		}
	}
	return nil
}
