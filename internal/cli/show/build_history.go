package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/service"
)

// BuildHistory returns every status of a build and its steps with its time, how long it lasted, and its reason; of a
// step that has not begun its needs.
func BuildHistory(d BuildDocument, now time.Time) []string {
	var t table
	end := now
	if !d.EndedAt.IsZero() {
		end = d.EndedAt
	}
	addUpdates(&t, "build", d.Updates[0], end)
	for _, step := range d.Plan.Steps {
		updates := d.Updates[step.ID]
		if len(updates) == 0 {
			t.add("", "", step.Path(), string(build.Pending), "waits for "+waiting(d, step))
		}
		addUpdates(&t, step.Path(), updates, end)
	}
	return append([]string{""}, t.lines()...)
}

// addUpdates adds a row for each status.
func addUpdates(t *table, name string, updates []build.Update, end time.Time) {
	for i, u := range updates {
		took := ""
		switch {
		case i+1 < len(updates):
			took = service.Took(updates[i+1].Timestamp.Sub(u.Timestamp))
		case !u.Status.Ended():
			took = service.Took(end.Sub(u.Timestamp))
		}
		text := OneLine(u.Reason)
		if u.Attempt > 1 && i > 0 && updates[i-1].Attempt != u.Attempt {
			text = fmt.Sprintf("attempt %d  %s", u.Attempt, text)
		}
		t.add(u.Timestamp.Local().Format("15:04:05.000"), took, name, string(u.Status), text)
	}
}

// waiting names the reason why a step does not begin.
func waiting(d BuildDocument, step build.PlanStep) string {
	var open []string
	for _, id := range step.After {
		if updates := d.Updates[id]; len(updates) == 0 || !updates[len(updates)-1].Status.Ended() {
			open = append(open, d.Plan.Step(id).Path())
		}
	}
	switch len(open) {
	case 0:
		return "a place among the steps that run at a time"
	case 1, 2, 3:
		return strings.Join(open, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(open[:3], ", "), len(open)-3)
}
