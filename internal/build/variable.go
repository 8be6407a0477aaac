package build

import (
	"fmt"
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Variable is a variable as the steps of a build get it.
type Variable struct {
	Name   string         `json:"name"`
	Value  string         `json:"value"`            // its own variables replaced; *** for a password
	Secret bool           `json:"secret,omitempty"` // a password
	Source string         `json:"source"`
	At     fault.Position `json:"at,omitzero"` // zero: in no file
}

// List returns the variables by name, of each the one that wins. Variables that refer to each other
// in a circle, or grow without bound, are problems.
func (vs Variables) List() ([]Variable, fault.Problems) {
	found := map[string]Variable{}
	for _, s := range slices.Backward(vs) {
		for name, v := range s.Values {
			found[name] = Variable{Name: name, Value: v.Text, Secret: v.Secret, Source: s.Name, At: v.At}
		}
	}
	masked := vs.masked()
	size := 0
	var problems fault.Problems
	var loops metLoops
	var all []Variable
	for _, name := range slices.Sorted(maps.Keys(found)) {
		v := found[name]
		shown, _ := masked.Lookup(name)
		one := substitution{variables: masked}
		replaced, err := one.expand(shown.Text, nil)
		if err != nil && !loops.again(err) {
			problems.Add(fault.Problem{Position: v.At, Code: "variable-loop", Text: fmt.Sprintf("%s: %v", name, err)})
		}
		if size += max(len(replaced), one.grown); size > maxExpansion {
			problems.Add(fault.Problem{Position: v.At, Code: "variable-loop",
				Text: fmt.Sprintf("%s: the variables grow to more than %d bytes", name, maxExpansion)})
			return nil, problems
		}
		v.Value = replaced
		all = append(all, v)
	}
	problems.Sort()
	return all, problems
}
