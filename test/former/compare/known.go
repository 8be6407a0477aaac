package main

// known are the answers in which today's engine differs on purpose, each with the reason.
var known = []struct {
	field  string // the type and the field, such as Decision.Blocked
	then   string // what the earlier engine answers; "": whatever it is
	reason string
}{}

// added are fields that the earlier engine has not, each with the reason why nothing is lost by not comparing it.
var added = map[string]string{
	"Work.Environment":  "stages with an environment; nil for every other step",
	"Stage.Environment": "likewise; nil for every other stage",
	"Gate.CEL":          "expressions over the targets of an environment; empty for every other gate",
}

// isKnown reports whether a difference of a field is on purpose.
func isKnown(field string, d difference) bool {
	for _, k := range known {
		if k.field == field && (k.then == "" || k.then == d.then) {
			return true
		}
	}
	return false
}
