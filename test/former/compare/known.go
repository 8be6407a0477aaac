package main

// known are the answers in which today's engine differs on purpose, each with the reason.
var known = []struct {
	field  string // the type and the field, such as Decision.Blocked
	then   string // what the earlier engine answers; "": whatever it is
	reason string
}{
	{"StepState.At", `"0001-01-01T00:00:00Z"`, "an edit keeps when a step was claimed or has failed; the earlier engine forgot it"},
	{"Error.Hint", "deploy the revision again: `waybill deployment create`", "a person who cancels or holds what has ended does not want it back"},
	{"PlanStep.Critical", "", "work without a duration cannot be shorter, so it is not critical; the earlier engine searched through it for minutes"},
}

// added are fields that the earlier engine has not, each with the reason why nothing is lost by not comparing it.
var added = map[string]string{
	"StepState.Expected": "Explain leaves it out; the server fills it in from a plan",
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
