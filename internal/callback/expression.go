package callback

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
)

// Targets is the variable of an Expression: the list of the objects that it is about.
const Targets = "targets"

// Expression is an expression of CEL over objects of Kubernetes. It has the functions and the bounds of a filter. Safe for concurrent use.
type Expression struct{ program cel.Program }

// ParseExpression compiles an expression. Its error is a *FilterError.
func ParseExpression(text string) (*Expression, error) {
	program, err := compileCEL(text, cel.Variable(Targets, cel.ListType(cel.DynType)))
	if err != nil {
		return nil, err
	}
	return &Expression{program}, nil
}

// CheckExpression returns the *FilterError of an expression that cannot be compiled; nil if it can.
func CheckExpression(text string) error {
	_, err := ParseExpression(text)
	return err
}

// Holds reports whether the expression is true of the objects, which hold JSON values. An error, such as for a missing field or for too
// much work, depends on the objects.
func (e *Expression) Holds(objects []any) (bool, error) {
	result, _, err := e.program.Eval(map[string]any{Targets: objects})
	if err != nil {
		// The package's errors call the expression a filter.
		return false, fmt.Errorf("%s", strings.Replace(err.Error(), "the filter ", "the expression ", 1))
	}
	return truth(result)
}
