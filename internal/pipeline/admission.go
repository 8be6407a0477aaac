package pipeline

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// Freezes, windows and approvals are condition 8. They are asked where something begins, and
// nowhere else: what has begun on a host runs to its end, because a host between two steps is the
// worst place to stop at.

// isStart reports whether a stage or a part of it begins with the step.
func (n *node) isStart() bool {
	return n.kind == hostStart || n.event == StageStarted || n.event == GroupStarted || n.event == WaveStarted
}

// checkAdmission checks condition 8: the pipeline is not frozen, a window is open, and enough
// people have approved.
func (e *Engine) checkAdmission(t *deployment, n int32, now time.Time) block {
	at := &t.plan.nodes[n]
	if !at.isStart() {
		return block{}
	}
	if e.freeze.InForce(now) {
		return block{why: isFrozen, until: e.freeze.Until}
	}
	if t.undoes != nil { // a rollback exists to end waiting
		return block{}
	}
	if windows := t.plan.stages[at.stage].windows; len(windows) > 0 {
		if o := windows.At(now); !o.Open {
			return block{why: isClosed, until: o.Until}
		}
	}
	if !t.isApproved(at.stage) {
		return block{why: notApproved}
	}
	return block{}
}

// admissionText describes condition 8 where it keeps step n from running, and who can change it.
func (x *explanation) admissionText(n int32, b block) (text, who string) {
	e, t, p := x.e, x.t, x.t.plan
	stage := p.nodes[n].stage
	switch b.why {
	case isFrozen:
		return e.freeze.Text(x.now), "waybill pipeline thaw " + e.pipeline
	case isClosed:
		return p.stages[stage].windows.Text(x.now), ""
	}
	a := t.approvalState(stage)
	return a.String(), fmt.Sprintf("waybill approve %s %s --revision %s", e.pipeline, a.Stage, t.label)
}

// Opening reports whether the windows of a stage, by its place in the definition, are open at a
// moment. If they are closed, text says when they open, such as "window opens Mon 09:00
// Europe/Stockholm".
func (p *Graph) Opening(stage int, now time.Time) (open bool, text string) {
	windows := p.stages[stage].windows
	if len(windows) == 0 || windows.At(now).Open {
		return true, ""
	}
	return false, windows.Text(now)
}

// Frozen returns the freeze in force; nil if there is none.
func (e *Engine) Frozen(now time.Time) *admission.Freeze {
	if !e.freeze.InForce(now) {
		return nil
	}
	f := *e.freeze
	return &f
}

// SetFreeze returns the change that freezes the pipeline; see Freeze.CheckSet. At of f is ignored.
func (e *Engine) SetFreeze(f admission.Freeze, now time.Time) (Entry, error) {
	if err := e.freeze.CheckSet(f, e.pipeline, now); err != nil {
		return Entry{}, err
	}
	return e.change(FreezeSet, freezeDetail{f.By, f.Reason, f.Until.UTC()})
}

// ClearFreeze returns the change that thaws the pipeline; it is refused if no freeze is in force.
func (e *Engine) ClearFreeze(by, reason string, now time.Time) (Entry, error) {
	if err := e.freeze.CheckClear(e.pipeline, now); err != nil {
		return Entry{}, err
	}
	return e.change(FreezeCleared, freezeDetail{By: by, Reason: reason})
}

// change returns a change of the pipeline itself, at the next position.
func (e *Engine) change(event string, about any) (Entry, error) {
	text, err := json.Marshal(about)
	return Entry{Pipeline: e.pipeline, Seq: e.seq + 1, Target: e.pipeline, Event: event, Class: Change,
		Occurrence: e.notes[noteName{e.pipeline, event}] + 1, Version: e.version, Detail: text}, err
}
