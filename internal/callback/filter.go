package callback

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/waybill-dev/waybill/internal/jsonpath"
)

// costLimit bounds the cost of one evaluation of a filter: units of CEL, or nodes that a JSONPath filter looks at.
const costLimit = 100_000

// Filter selects features or items. It is an expression of CEL over the documents, or a filter of
// JSONPath.
type Filter struct {
	path    *jsonpath.Filter // nil: program
	program cel.Program
}

// FilterError is a fault in a filter's text.
type FilterError struct {
	Offset int // index of the character at fault, from 0
	Text   string
}

func (e *FilterError) Error() string { return fmt.Sprintf("at character %d: %s", e.Offset+1, e.Text) }

// ParseFilter compiles a filter. One with @, ? or $ in it is a filter of JSONPath, any other one is
// CEL. Its error is a *FilterError.
func ParseFilter(text string) (*Filter, error) {
	if isPath(text) {
		return parsePath(text)
	}
	return parseCEL(text)
}

// lists are the texts that may be written around a JSONPath filter: the list that it is for, up to the filter.
var lists = []string{"$.output.features[?", "$.features[?", "$[?"}

// parsePath compiles a JSONPath filter. @ is the feature and $ the documents.
func parsePath(text string) (*Filter, error) {
	inner := strings.TrimRight(text, blanks)
	begin, end := len(inner)-len(strings.TrimLeft(inner, blanks)), len(inner)
	around := slices.IndexFunc(lists, func(list string) bool { return strings.HasPrefix(inner[begin:], list) })
	switch {
	case around >= 0:
		begin += len(lists[around])
		end -= len("]")
	case strings.HasPrefix(inner[begin:], "?"):
		begin++
	}
	if end < begin || around >= 0 && inner[end] != ']' {
		end = len(inner)
	}
	filter, err := jsonpath.ParseFilter(inner[begin:end], Documents())
	if fault, ok := errors.AsType[*jsonpath.SyntaxError](err); ok {
		return nil, &FilterError{Offset: utf8.RuneCountInString(inner[:begin]) + fault.Offset, Text: fault.Text}
	}
	if around >= 0 && end == len(inner) {
		return nil, &FilterError{Offset: utf8.RuneCountInString(inner), Text: `want "]" at the end of the filter`}
	}
	return &Filter{path: filter}, nil
}

// blanks are the blanks of JSONPath.
const blanks = " \t\r\n"

// parseCEL compiles an expression of CEL over a job's documents.
func parseCEL(text string) (*Filter, error) {
	document := cel.MapType(cel.StringType, cel.DynType)
	program, err := compileCEL(text, cel.Variable("input", cel.DynType), cel.Variable("output", cel.DynType),
		cel.Variable("workflow", document), cel.Variable(docFeature, cel.DynType))
	if err != nil {
		return nil, err
	}
	return &Filter{program: program}, nil
}

// compileCEL compiles an expression of CEL that is true or false. Its error is a *FilterError.
func compileCEL(text string, variables ...cel.EnvOption) (cel.Program, error) {
	expression := strings.TrimSpace(text)
	env, err := cel.NewEnv(append(variables, cel.CustomTypeAdapter(adapter{types.DefaultTypeAdapter}))...)
	if err != nil {
		return nil, &FilterError{Text: err.Error()}
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, celFault(text, expression, issues.Errors()[0])
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, &FilterError{Text: fmt.Sprintf("want true or false, this is of type %s", out)}
	}
	costs := celCosts{}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.CostTracking(costs),
		cel.CustomDecoratorV2(costs.bound), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, &FilterError{Text: err.Error()}
	}
	return program, nil
}

// celFault returns the first fault in an expression, with its place in the text.
func celFault(text, expression string, first *common.Error) *FilterError {
	offset := strings.Index(text, expression) + first.Location.Column()
	for range first.Location.Line() - 1 {
		line, rest, _ := strings.Cut(expression, "\n")
		offset += utf8.RuneCountInString(line) + 1
		expression = rest
	}
	return &FilterError{Offset: max(offset, 0), Text: first.Message}
}

// isPath reports whether a filter is JSONPath's: it begins with ?, or speaks of @ or $ outside of
// texts, which CEL does not have.
func isPath(text string) bool {
	var quote rune
	escaped := false
	for i, r := range strings.TrimSpace(text) {
		switch {
		case escaped:
			escaped = false
		case quote != 0:
			escaped = r == '\\'
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case r == '@' || r == '$' || r == '?' && i == 0:
			return true
		}
	}
	return false
}

// matches reports whether the filter accepts the feature of the documents. They hold JSON values,
// numbers as json.Number.
//
// It takes its cost from left, which may become negative: the caller stops then.
func (f *Filter) matches(docs documents, left *float64) (bool, error) {
	if f.path != nil {
		one := float64(costLimit)
		yes, err := f.path.Accepts(docs[docFeature], map[string]any(docs), &one)
		*left -= costLimit - one
		return yes, err
	}
	result, details, err := f.program.Eval(map[string]any(docs))
	*left -= celNodes(details)
	if err != nil {
		return false, err
	}
	return truth(result)
}

// truth returns the result of an expression.
func truth(result ref.Val) (bool, error) {
	yes, ok := result.(types.Bool)
	if !ok {
		return false, fmt.Errorf("its result is of type %s, not true or false", result.Type().TypeName())
	}
	return bool(yes), nil
}

// adapter lets CEL read JSON as it was decoded: numbers are doubles, as in every CEL over JSON.
type adapter struct{ types.Adapter }

func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case interface{ Float64() (float64, error) }: // json.Number
		number, err := v.Float64()
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Double(number)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case documents:
		return types.NewStringInterfaceMap(a, v)
	}
	return a.Adapter.NativeToValue(value)
}
