package callback

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// costLimit is what one evaluation of a filter may cost, in CEL's units.
const costLimit = 100_000

// Filter says which features a callback is for: a CEL expression over the documents.
type Filter struct {
	cel     string
	program cel.Program
}

// FilterError is a fault in a filter's text.
type FilterError struct {
	Offset int // of the character at fault, from 0
	Text   string
}

func (e *FilterError) Error() string { return fmt.Sprintf("at character %d: %s", e.Offset+1, e.Text) }

// ParseFilter compiles a filter. One that is a JSONPath filter, with @, ? or $ in it, is translated to CEL.
// Its error is a *FilterError.
func ParseFilter(text string) (*Filter, error) {
	expression := strings.TrimSpace(text)
	if isPath(text) {
		var err error
		if expression, err = translate(text); err != nil {
			return nil, err
		}
	}
	env, err := environment()
	if err != nil {
		return nil, &FilterError{Text: err.Error()}
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		at := first.Location
		offset := strings.Index(text, expression) + at.Column()
		for range at.Line() - 1 {
			offset += utf8.RuneCountInString(expression[:strings.IndexByte(expression, '\n')+1])
		}
		return nil, &FilterError{Offset: max(offset, 0), Text: first.Message}
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, &FilterError{Text: fmt.Sprintf("want true or false, this is of type %s", out)}
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, &FilterError{Text: err.Error()}
	}
	return &Filter{cel: expression, program: program}, nil
}

// isPath reports whether a filter is JSONPath's: it begins with ?, or speaks of @ or $ outside of texts, which CEL does not have.
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

// CEL is the expression, also of a filter that was written in another form.
func (f *Filter) CEL() string { return f.cel }

// matches asks the filter. Documents hold JSON values, numbers as json.Number.
func (f *Filter) matches(docs documents) (bool, error) {
	result, _, err := f.program.Eval(map[string]any(docs))
	if err != nil {
		return false, err
	}
	yes, ok := result.(types.Bool)
	if !ok {
		return false, fmt.Errorf("its result is of type %s, not true or false", result.Type().TypeName())
	}
	return bool(yes), nil
}

// environment is what filters may speak of.
func environment() (*cel.Env, error) {
	document := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(
		cel.CustomTypeAdapter(adapter{types.DefaultTypeAdapter}),
		cel.Variable("input", cel.DynType), cel.Variable("output", cel.DynType),
		cel.Variable("workflow", document), cel.Variable(docFeature, cel.DynType),
		cel.Lib(pathLibrary{}))
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
