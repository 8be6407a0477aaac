package build

import (
	"maps"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// VarsFileName is the name of a file of variables beside a build's file, or above it.
const VarsFileName = ".wharf-vars.yml"

// keyVars is the root key of a file of variables.
const keyVars = "vars"

// ParseVars reads the documents of a file of variables. Of two documents with one variable the later
// wins.
func ParseVars(name string, documents []*document.Node) (Source, fault.Problems) {
	r := &reader{}
	r.Separator = "/"
	out := Source{Name: name, Values: map[string]Value{}}
	for _, root := range documents {
		r.Check(root, document.Place{At: root.At}, []document.Key{{Name: keyVars, Shape: document.Anything}})
		switch vars := root.Get(keyVars); {
		case vars == nil || vars.Kind == document.Null:
		case vars.Kind != document.Map:
			r.Add(vars, "wrong-kind", keyVars, "want a mapping of variables, found %s", vars.Kind)
		default:
			maps.Copy(out.Values, r.values(vars, keyVars))
		}
	}
	r.Problems.Sort()
	return out, r.Problems
}
