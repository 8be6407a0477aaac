package jsonpath

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/theory/jsonpath/registry"
	"github.com/theory/jsonpath/spec"
)

// functions returns the functions of the standard. match and search are replaced: those of the
// library panic on an argument that selects nothing, and compile a literal pattern for every node.
func functions() *registry.Registry {
	all := registry.New()
	*all.Get("match") = *patternFunction("match", func(text string) (*regexp.Regexp, error) { return standardPattern(`\A(?:` + text + `)\z`) })
	*all.Get("search") = *patternFunction("search", standardPattern)
	return all
}

// filterFunctions returns the functions of the standard and those that a rewritten filter has for
// its comparisons.
func filterFunctions() *registry.Registry {
	all := functions()
	matches := patternFunction("matches", regexp.Compile)
	for _, f := range append(comparisonFunctions(), matches) {
		if err := all.Register(f.Name(), f.ReturnType(), f.Validate, f.Evaluate); err != nil {
			panic(err) // two functions have one name
		}
	}
	return all
}

// errSeveral is the fault of a comparison whose side may select several nodes.
var errSeveral = errors.New("only one node or value can be compared")

// comparisonFunctions returns the operators of RFC 9535, 2.3.5.2.2, and in.
func comparisonFunctions() []*spec.FuncExtension {
	var all []*spec.FuncExtension
	for name, holds := range map[string]func(a, b any) bool{
		"eq": equal,
		"ne": func(a, b any) bool { return !equal(a, b) },
		"lt": less,
		"le": func(a, b any) bool { return less(a, b) || equal(a, b) },
		"gt": func(a, b any) bool { return less(b, a) },
		"ge": func(a, b any) bool { return less(b, a) || equal(a, b) },
	} {
		validate := func(arguments []spec.FuncExprArg) error {
			if slices.ContainsFunc(arguments, func(a spec.FuncExprArg) bool { return !a.ConvertsTo(spec.FuncValue) }) {
				return errSeveral
			}
			return nil
		}
		all = append(all, spec.Extension(name, spec.FuncLogical, validate, func(arguments []spec.PathValue) spec.PathValue {
			return spec.Logical(holds(valueOf(arguments[0]), valueOf(arguments[1])))
		}))
	}
	return append(all, spec.Extension("in", spec.FuncLogical, anyArguments, func(arguments []spec.PathValue) spec.PathValue {
		one := valueOf(arguments[0])
		return spec.Logical(slices.ContainsFunc(arguments[1:], func(other spec.PathValue) bool { return equal(one, valueOf(other)) }))
	}))
}

// anyArguments accepts the arguments of in: its left side has no value when it selects several
// nodes.
func anyArguments([]spec.FuncExprArg) error { return nil }

// nothing is the value of a query that selects no node. It equals itself alone.
type nothing struct{}

// valueOf returns the JSON value of an argument.
func valueOf(argument spec.PathValue) any {
	if v, ok := argument.(*spec.ValueType); ok && v != nil {
		return v.Value()
	}
	return nothing{}
}

// equal compares two values as RFC 9535 does: numbers by their value, wherever they are.
func equal(a, b any) bool {
	switch x := a.(type) {
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, equal)
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return a == b
}

// less orders numbers and texts. Nothing else has an order.
func less(a, b any) bool {
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		return ok && x < y
	}
	x, isNumber := number(a)
	y, both := number(b)
	return isNumber && both && x < y
}

// number returns the value of a number: of a document, a literal or a function.
func number(value any) (float64, bool) {
	switch v := value.(type) {
	case json.Number:
		f, _ := v.Float64() // one that is too big is infinite
		return f, true
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	}
	return 0, false
}

// patternFunction returns a function that matches a text with a regular expression. It is false if
// either is not a text, and if the expression is not valid; matches, which is not of the standard,
// refuses the latter where it is a literal.
func patternFunction(name string, compile func(string) (*regexp.Regexp, error)) *spec.FuncExtension {
	literals := map[string]*regexp.Regexp{} // written while the text is parsed, read afterwards
	validate := func(arguments []spec.FuncExprArg) error {
		if len(arguments) != 2 || slices.ContainsFunc(arguments, func(a spec.FuncExprArg) bool { return !a.ConvertsTo(spec.FuncValue) }) {
			return errors.New("takes two arguments, each of one node or value")
		}
		literal, ok := arguments[1].(*spec.LiteralArg)
		if !ok {
			return nil
		}
		text, _ := literal.Value().(string)
		pattern, err := compile(text)
		if err != nil && name == "matches" {
			return err
		}
		literals[text] = pattern
		return nil
	}
	return spec.Extension(name, spec.FuncLogical, validate, func(arguments []spec.PathValue) spec.PathValue {
		text, ok := valueOf(arguments[0]).(string)
		expression, isText := valueOf(arguments[1]).(string)
		if !ok || !isText {
			return spec.LogicalFalse
		}
		pattern, known := literals[expression]
		if !known {
			pattern, _ = compile(expression)
		}
		return spec.Logical(pattern != nil && pattern.MatchString(text))
	})
}

// standardPattern compiles a regular expression of RFC 9485: its dot matches neither a line feed
// nor a carriage return.
func standardPattern(text string) (*regexp.Regexp, error) {
	tree, err := syntax.Parse(text, syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil, err
	}
	dot, err := syntax.Parse(`[^\n\r]`, syntax.Perl)
	if err != nil {
		return nil, err
	}
	replaceDots(tree, dot)
	return regexp.Compile(tree.String())
}

func replaceDots(tree, dot *syntax.Regexp) {
	if tree.Op == syntax.OpAnyChar {
		*tree = *dot
	}
	for _, sub := range tree.Sub {
		replaceDots(sub, dot)
	}
}
