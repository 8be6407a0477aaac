package callback

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/waybill-dev/waybill/internal/jsonpath"
)

// What takes time in CEL, in nodes that are looked at, of about 50 ns each.
const (
	unitNodes  = 4     // a unit of CEL
	valueNodes = 4     // a value that is compared
	textBytes  = 8     // bytes of a text that count as one node
	maxPattern = 1_000 // bytes of a regular expression from a document
)

// countedUnits is the number of CEL units from which on counting one more takes an evaluation as long as a node: CEL
// keeps what it has counted in a loop on a stack, and searches that.
const countedUnits = 2000

// maxNumber bounds the characters of a number in a document: it is parsed wherever it is compared.
const maxNumber = 1000

// nodesOf returns the cost of reading all of a value.
func nodesOf(value any) float64 {
	cost := float64(valueNodes)
	switch v := value.(type) {
	case string:
		cost += float64(len(v) / textBytes)
	case json.Number:
		cost += float64(len(v) / textBytes)
	case map[string]any:
		for name, one := range v {
			cost += float64(len(name)/textBytes) + nodesOf(one)
		}
	case []any:
		for _, one := range v {
			cost += nodesOf(one)
		}
	case []ref.Val:
		for _, one := range v {
			cost += nodesOf(one.Value())
		}
	}
	return cost
}

// CheckNumbers returns the fault of a document with a number that is too long to be compared often; nil without one. Numbers are
// json.Number.
func CheckNumbers(document any) error {
	if hasLongNumber(document) {
		return fmt.Errorf("has a number of more than %d characters", maxNumber)
	}
	return nil
}

// hasLongNumber reports whether a document has a number with more than maxNumber characters.
func hasLongNumber(value any) bool {
	switch v := value.(type) {
	case json.Number:
		return len(v) > maxNumber
	case map[string]any:
		for _, one := range v {
			if hasLongNumber(one) {
				return true
			}
		}
	case []any:
		for _, one := range v {
			if hasLongNumber(one) {
				return true
			}
		}
	}
	return false
}

// celNodes returns the cost of an evaluation, in nodes.
func celNodes(details *cel.EvalDetails) float64 {
	units := float64(costLimit)
	if cost := details.ActualCost(); cost != nil {
		units = float64(*cost)
	}
	counted := min(units, costLimit) // one call may cost far more than the limit, and is the last
	return units*unitNodes + counted*counted/countedUnits
}

// celCosts charges the calls of a CEL filter. CEL itself counts a regular expression by the length of its text, and a
// comparison of two lists, the size of a text and conversions as one unit. It has the regular expressions that are
// literals: complete once the filter is compiled, and only read afterwards.
type celCosts map[string]bool

// boundedMatches is the name of CEL's matches in a compiled filter.
const boundedMatches = "matches within a limit"

// bound replaces matches by a function that compiles a literal once and looks at nothing when the
// match costs more than a filter may.
func (c celCosts) bound(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || call.Function() != overloads.Matches || len(call.Args()) != 2 {
		return i, nil
	}
	var literal *regexp.Regexp // nil: the pattern is of a document
	if constant, ok := call.Args()[1].(interpreter.InterpretableConst); ok {
		text, _ := constant.Value().Value().(string)
		compiled, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		c[text] = true
		literal = compiled
	}
	return interpreter.NewCall(call.ID(), boundedMatches, call.OverloadID(), call.Args(), func(values ...ref.Val) ref.Val {
		text, isText := values[0].Value().(string)
		pattern, arePatterns := values[1].Value().(string)
		if !isText || !arePatterns {
			return types.MaybeNoSuchOverloadErr(values[0])
		}
		if _, err := c.ofMatch(text, pattern); err != nil {
			return types.WrapErr(fmt.Errorf("the filter %w", err))
		}
		if literal != nil {
			return types.Bool(literal.MatchString(text))
		}
		compiled, err := regexp.Compile(pattern)
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Bool(compiled.MatchString(text))
	}), nil
}

// ofMatch returns the cost of a match, in nodes. Its error is why nothing is matched; then it returns the cost of
// that answer.
func (c celCosts) ofMatch(text, pattern string) (float64, error) {
	literal := c[pattern]
	if !literal && len(pattern) > maxPattern {
		return 0, fmt.Errorf("has a regular expression of %d bytes from a document; at most %d are allowed", len(pattern), maxPattern)
	}
	match, compile, err := jsonpath.MatchCost(len(text), pattern)
	if literal {
		compile = 0
	}
	if err == nil && match > costLimit*unitNodes {
		return compile, errors.New("matches a text that is too long for its regular expression")
	}
	return match + compile, err
}

// CallCost returns the cost of a call, in units of CEL; nil where CEL knows. It goes by the function, since documents
// have no types and CEL finds the overload only when it calls it.
func (c celCosts) CallCost(function, _ string, arguments []ref.Val, _ ref.Val) *uint64 {
	if len(arguments) == 0 {
		return nil
	}
	first, last := arguments[0], arguments[len(arguments)-1]
	var nodes float64
	switch function {
	case boundedMatches:
		text, _ := first.Value().(string)
		pattern, _ := last.Value().(string)
		nodes, _ = c.ofMatch(text, pattern) // the call has reported its error
	case overloads.Size, overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertDouble, overloads.TypeConvertBool,
		overloads.TypeConvertString, overloads.TypeConvertBytes, overloads.TypeConvertDuration, overloads.TypeConvertTimestamp,
		operators.Add, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		nodes = textNodes(first) + textNodes(last)
	case operators.Equals, operators.NotEquals:
		nodes = min(textNodes(first), textNodes(last))
		if isNested(first) && isNested(last) {
			nodes = nodesOf(first.Value()) + nodesOf(last.Value())
		}
	case operators.In:
		nodes = costOfIn(first, last)
	default:
		return nil
	}
	units := 1 + uint64(nodes/unitNodes)
	return &units
}

// costOfIn returns the cost of comparing a value with each element of a list.
func costOfIn(one, list ref.Val) float64 {
	elements, ok := list.(traits.Lister)
	if !ok {
		return 0 // a map
	}
	if isNested(one) {
		return nodesOf(list.Value())
	}
	size, _ := elements.Size().Value().(int64)
	return float64(size) * (valueNodes + textNodes(one))
}

// textNodes returns the cost of reading a text or bytes; 0 for any other value.
func textNodes(value ref.Val) float64 {
	if v, ok := value.(types.Bytes); ok {
		return float64(len(v) / textBytes)
	}
	text, _ := value.(types.String)
	return float64(len(text) / textBytes)
}

// isNested reports whether a value is a list or a map.
func isNested(value ref.Val) bool {
	_, isSized := value.(traits.Sizer)
	_, contains := value.(traits.Container)
	return isSized && contains
}
