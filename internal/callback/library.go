package callback

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// pathLibrary has the comparisons of JSONPath (RFC 9535, 2.3.5.2.2) as CEL functions, for translated filters. Their
// arguments may be missing: what CEL would call an error is a node that is not there.
type pathLibrary struct{}

func (pathLibrary) LibraryName() string { return "waybill.jsonpath" }

func (pathLibrary) ProgramOptions() []cel.ProgramOption { return nil }

func (pathLibrary) CompileOptions() []cel.EnvOption {
	options := []cel.EnvOption{
		unary("jp.exists", func(v ref.Val) bool { return there(v) }),
		unary("jp.holds", func(v ref.Val) bool { return v == types.True }),
		cel.Function("jp.nodes", cel.Overload("jp_nodes", []*cel.Type{cel.DynType}, cel.ListType(cel.DynType),
			cel.OverloadIsNonStrict(), cel.UnaryBinding(nodes))),
	}
	for name, compare := range map[string]func(a, b ref.Val) bool{
		"jp.eq": equal,
		"jp.ne": func(a, b ref.Val) bool { return !equal(a, b) },
		"jp.lt": less,
		"jp.le": func(a, b ref.Val) bool { return less(a, b) || equal(a, b) },
		"jp.gt": func(a, b ref.Val) bool { return less(b, a) },
		"jp.ge": func(a, b ref.Val) bool { return less(b, a) || equal(a, b) },
	} {
		options = append(options, cel.Function(name, cel.Overload(name+"_any_any", []*cel.Type{cel.DynType, cel.DynType}, cel.BoolType,
			cel.OverloadIsNonStrict(), cel.BinaryBinding(func(a, b ref.Val) ref.Val { return types.Bool(compare(a, b)) }))))
	}
	return options
}

func unary(name string, test func(ref.Val) bool) cel.EnvOption {
	return cel.Function(name, cel.Overload(name+"_any", []*cel.Type{cel.DynType}, cel.BoolType, cel.OverloadIsNonStrict(),
		cel.UnaryBinding(func(v ref.Val) ref.Val { return types.Bool(test(v)) })))
}

func there(v ref.Val) bool { return !types.IsUnknownOrError(v) }

// equal compares values, or that both are missing.
func equal(a, b ref.Val) bool {
	if !there(a) || !there(b) {
		return !there(a) && !there(b)
	}
	return a.Equal(b) == types.True
}

// less orders numbers, and texts; nothing else has an order.
func less(a, b ref.Val) bool {
	if !there(a) || !there(b) || !(number(a) && number(b)) && !(a.Type() == types.StringType && b.Type() == types.StringType) {
		return false
	}
	comparer, ok := a.(traits.Comparer)
	return ok && comparer.Compare(b) == types.IntNegOne
}

func number(v ref.Val) bool {
	return v.Type() == types.DoubleType || v.Type() == types.IntType || v.Type() == types.UintType
}

// nodes are the children of a list or an object; anything else has none.
func nodes(v ref.Val) ref.Val {
	switch v := v.(type) {
	case traits.Lister:
		return v
	case traits.Mapper:
		var values []ref.Val
		for it := v.Iterator(); it.HasNext() == types.True; {
			values = append(values, v.Get(it.Next()))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, values)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, nil)
}
