package build

import (
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// atItsLevel adds to a problem about a key that has no meaning where it is the level where it has one: a key of a step may be inside of
// the step's type by an indentation too many.
func (r *reader) atItsLevel(p fault.Problem, path, key string) fault.Problem {
	belongs := ""
	switch parts := strings.Split(path, "/"); {
	case len(parts) < 2 || parts[0] == keyInputs || parts[0] == keyEnvironments:
	case len(parts) == 3 && document.Find(r.keys, key) != nil:
		belongs = fmt.Sprintf("it is a key of the step, beside %s", parts[2])
	case document.Find(stageTable(), key) != nil:
		belongs = "it is a key of the stage, beside its steps"
	case len(parts) == 2:
		belongs = r.fieldOf(key)
	}
	if belongs != "" {
		p.Text, p.Suggestion = p.Text+"; "+belongs, ""
	}
	return p
}

// fieldOf reports which step types have a field; "" if none has.
func (r *reader) fieldOf(key string) string {
	var types []string
	for _, t := range r.types {
		if document.Find(t.Keys, key) != nil {
			types = append(types, t.Name)
		}
	}
	if len(types) == 0 {
		return ""
	}
	return "it is a field of " + strings.Join(types, ", ")
}
