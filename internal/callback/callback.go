package callback

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
)

// Kind is the kind of planned actions, except chained jobs.
const Kind = "callback"

// Callback is one configured callback of a process.
type Callback struct {
	Name       string
	Target     Target
	PerFeature bool    // one per element of $.output.features
	When       Ends    // ends of the job that it follows
	Filter     *Filter // filter of features; nil: all
	Parameters []Parameter
	Disabled   bool // kept and checked, never planned
}

// Target is the work that a callback starts.
type Target struct {
	Handler string // handler of the work
	Process string // chained process; "": the handler itself is called
	// Prepare makes the action of these parameters; its error names their fault.
	Prepare func(parameters json.RawMessage) (action.Action, error)
	// Optional reports whether a parameter may be left out.
	Optional func(parameter string) bool
}

// Ends is a set of end states. It has the named states and, if any state is negated, all states
// that are not negated. The zero value is empty.
type Ends struct{ named, negated statuses }

type statuses uint16

func (s statuses) has(one action.Status) bool { return s>>one&1 == 1 }

// Add adds the end state that a text names, in any case, or its negation with !.
func (e *Ends) Add(text string) error {
	name, negated := strings.CutPrefix(text, "!")
	var status action.Status
	for s := action.Successful; s <= action.RetriesExhausted; s++ {
		if strings.EqualFold(name, s.String()) {
			status = s
		}
	}
	switch {
	case status == 0:
		return fmt.Errorf("%q is not an end state", text)
	case negated && e.named.has(status), !negated && e.negated.has(status):
		return fmt.Errorf("%s contradicts !%[1]s", strings.ToLower(status.String()))
	case negated:
		e.negated |= 1 << status
	default:
		e.named |= 1 << status
	}
	return nil
}

// EndNames lists the end states as files write them.
func EndNames() []string {
	var names []string
	for s := action.Successful; s <= action.RetriesExhausted; s++ {
		names = append(names, strings.ToLower(s.String()))
	}
	return names
}

// Has reports whether an end is in the set.
func (e Ends) Has(status action.Status) bool {
	return status.Ended() && (e.named.has(status) || e.negated != 0 && !e.negated.has(status))
}

// Forgets reports whether the set has failed but not retries-exhausted, and does not negate the
// latter: probably an oversight of its author.
func (e Ends) Forgets() bool {
	return e.Has(action.Failed) && !e.Has(action.RetriesExhausted) && !e.negated.has(action.RetriesExhausted)
}
