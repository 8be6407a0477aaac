package pipeline

import (
	"encoding/json"
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

// isInForce reports whether there is a freeze that has not ended by itself.
func (f *Freeze) isInForce(now time.Time) bool {
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

// Frozen returns the freeze in force; nil if there is none.
func (e *Engine) Frozen(now time.Time) *Freeze {
	if !e.freeze.isInForce(now) {
		return nil
	}
	f := *e.freeze
	return &f
}

// SetFreeze returns the change that freezes the pipeline. It is refused while another freeze is in
// force, since replacing that one would end it unseen. At of f is ignored.
func (e *Engine) SetFreeze(f Freeze, now time.Time) (Entry, error) {
	switch {
	case e.freeze.isInForce(now):
		return Entry{}, fault.New(fault.Refused, "%s is already %s", e.pipeline, e.freeze.Text(now)).WithHint("waybill pipeline thaw %s ends that freeze", e.pipeline)
	case !f.Until.IsZero() && !f.Until.After(now):
		return Entry{}, fault.New(fault.Invalid, "the freeze would end at %s, which has passed", f.Until.UTC().Format(time.RFC3339))
	}
	return e.change(FreezeSet, freezeDetail{f.By, f.Reason, f.Until.UTC()})
}

// ClearFreeze returns the change that thaws the pipeline; it is refused if no freeze is in force.
func (e *Engine) ClearFreeze(by, reason string, now time.Time) (Entry, error) {
	if !e.freeze.isInForce(now) {
		return Entry{}, fault.New(fault.Refused, "%s is not frozen", e.pipeline)
	}
	return e.change(FreezeCleared, freezeDetail{By: by, Reason: reason})
}

// change returns a change of the pipeline itself, at the next position.
func (e *Engine) change(event string, about any) (Entry, error) {
	text, err := json.Marshal(about)
	return Entry{Pipeline: e.pipeline, Seq: e.seq + 1, Target: e.pipeline, Event: event, Class: Change,
		Occurrence: e.notes[noteName{e.pipeline, event}] + 1, Version: e.version, Detail: text}, err
}
