package show

import "github.com/waybill-dev/waybill/internal/build"

// BuildVariables returns the rows of a list of variables. Values are last, since they may be long.
func BuildVariables(all []build.Variable) []string {
	var t table
	t.add("VARIABLE", "FROM", "VALUE")
	for _, v := range all {
		t.add(v.Name, v.Source, v.Value)
	}
	return t.lines()
}
