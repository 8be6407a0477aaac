package schedule

import (
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Edit is what a new version does: rows to append with it, or refusals.
type Edit struct {
	Entries []Entry        // pipeline-defined, step-introduced, host-joined, step-excluded, …
	Refused fault.Problems // row 19 of section 2; nothing may be stored
	Words   []string       // the difference in words, such as "+ host prod/east/ivy"
	Effects []Effect       // per active deployment
}

// Effect is what an edit does to one deployment inside.
type Effect struct {
	Deployment int64     `json:"deployment"`
	Added      []StepKey `json:"added,omitempty"`
	Elided     []StepKey `json:"elided,omitempty"`
	Excluded   []StepKey `json:"excluded,omitempty"`
	Removed    []StepKey `json:"removed,omitempty"`
	Drained    []StepKey `json:"drained,omitempty"` // live work that ends without effect
	Drifting   []string  `json:"drifting,omitempty"`
	Words      []string  `json:"words,omitempty"`
}

// Loses reports whether the edit skips or loses work in the deployment, so that ship asks first.
func (f Effect) Loses() bool { return len(f.Elided)+len(f.Excluded)+len(f.Drained) > 0 }

// Edit says what applying next as the given version would do; newest is the newest registered rev_seq.
// It changes nothing.
func (e *Engine) Edit(version int, next *Plan, newest int64, now time.Time) Edit {
	row := Entry{Pipeline: e.pipeline, Seq: e.seq + 1, Target: e.pipeline, Event: PipelineDefined, Class: Change, Version: version, At: now,
		Occurrence: e.notes[noteName{e.pipeline, PipelineDefined}] + 1}
	return Edit{Entries: []Entry{row}}
}
