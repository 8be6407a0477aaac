package pipeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/cron"
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
	if e.freeze.isInForce(now) {
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
		return openingText(p.stages[stage].windows, x.now), ""
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
	return false, openingText(windows, now)
}

// openingText describes when closed windows open, such as "window opens Mon 09:00
// Europe/Stockholm", and why a Deny closes them.
func openingText(windows cron.Windows, now time.Time) string {
	o := windows.At(now)
	zone := windows[0].Zone
	for _, w := range slices.Backward(windows) {
		if w.Kind == cron.Allow {
			zone = w.Zone
		}
	}
	text := "window opens " + clockText(o.Until, now, zone)
	if !o.Opens {
		text = "no window opens within " + searched(o.Until.Sub(now))
	}
	if o.By != nil && o.By.Reason != "" {
		text += fmt.Sprintf(": %q", o.By.Reason)
	}
	return text
}

// searched describes how far ahead no window opens. Without a next start of an Allow, the search has seen
// all of its years.
func searched(length time.Duration) string {
	switch {
	case length < 0 || length >= cron.Horizon:
		return "five years"
	case length < 48*time.Hour:
		return fmt.Sprintf("%d hours", int(length.Hours()))
	}
	return fmt.Sprintf("%d days", int(length.Hours()/24))
}

// NeverOpens reports whether some windows never open, and describes it. Their schedules repeat, so it looks
// at a few years from a fixed moment.
func NeverOpens(windows []Window) (text string, never bool) {
	list, _, err := openings(windows)
	if err != nil || len(list) == 0 {
		return "", false
	}
	at := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	if o := list.At(at); o.Opens {
		return "", false
	}
	return openingText(list, at), true
}

// clockText returns a later moment in a time zone, such as "Mon 09:00 Europe/Stockholm". It has the
// date where the day of the week says too little.
func clockText(at, now time.Time, zone *time.Location) string {
	form := "Mon 15:04 "
	switch local := at.In(zone); {
	case local.Year() != now.In(zone).Year() && at.Sub(now) >= 6*24*time.Hour:
		form = "Mon 2 Jan 2006 15:04 "
	case at.Sub(now) >= 6*24*time.Hour:
		form = "Mon 2 Jan 15:04 "
	}
	return at.In(zone).Format(form) + zone.String()
}

// openings reads windows. at is the field path of the first one that cannot be read.
func openings(windows []Window) (list cron.Windows, at string, err error) {
	for i, w := range windows {
		c := cron.Window{Kind: w.Kind, Length: time.Duration(w.Duration), Reason: w.Reason}
		if c.Start, err = cron.Parse(w.Schedule); err != nil {
			return nil, fmt.Sprintf("windows[%d].schedule", i), err
		}
		if c.Zone, err = cron.LoadZone(w.Timezone); err != nil {
			return nil, fmt.Sprintf("windows[%d].timezone", i), err
		}
		list = append(list, c)
	}
	return list, "", nil
}
