package admission

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Freeze keeps back all starts of a pipeline.
type Freeze struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero"` // zero: until a person thaws the pipeline
}

// InForce reports whether there is a freeze that has not ended on its own.
func (f *Freeze) InForce(now time.Time) bool {
	return f != nil && (f.Until.IsZero() || now.Before(f.Until))
}

// Text returns the freeze as a reason, such as `frozen by ana until Mon 09:00 UTC: "holidays"`.
func (f Freeze) Text(now time.Time) string {
	var text strings.Builder
	text.WriteString("frozen")
	if f.By != "" {
		text.WriteString(" by " + f.By)
	}
	if !f.Until.IsZero() {
		text.WriteString(" until " + clockText(f.Until, now, time.UTC))
	}
	if f.Reason != "" {
		fmt.Fprintf(&text, ": %q", f.Reason)
	}
	return text.String()
}

// CheckSet refuses another freeze of a pipeline while this one is in force, since replacing it
// would end it unseen, and one that would have ended already. f may be nil.
func (f *Freeze) CheckSet(next Freeze, pipeline string, now time.Time) error {
	switch {
	case f.InForce(now):
		return fault.New(fault.Refused, "%s is already %s", pipeline, f.Text(now)).
			WithHint("waybill pipeline thaw %s ends that freeze", pipeline)
	case !next.Until.IsZero() && !next.Until.After(now):
		return fault.New(fault.Invalid, "the freeze would end at %s, which has passed", next.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

// CheckClear refuses to thaw a pipeline in which no freeze is in force. f may be nil.
func (f *Freeze) CheckClear(pipeline string, now time.Time) error {
	if !f.InForce(now) {
		return fault.New(fault.Refused, "%s is not frozen", pipeline)
	}
	return nil
}
