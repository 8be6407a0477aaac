package show

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// reasonWidth is the number of columns that a list gives to an error or a reason.
const reasonWidth = 60

// Actions returns the rows of a list of actions.
func Actions(found []queue.ActionState, now time.Time) []string {
	var t table
	t.add("ACTION", "NAME", "STATUS", "ATTEMPT", "CREATED", "ERROR")
	for _, x := range found {
		t.add(x.ID.String(), ActionName(x), strings.ToLower(x.Thread.Status.String()), attemptsText(x.Thread.Status, x.Thread.Spent, x.Policy.Attempts()),
			Ago(now, x.EnqueuedAt), cut(OneLine(x.Error), reasonWidth))
	}
	return t.lines()
}

// ActionName returns the name of an action; for a step it begins with the deployment.
func ActionName(x queue.ActionState) string {
	if x.Step == nil {
		return FirstOf(x.Name, x.Handler)
	}
	return fmt.Sprintf("%s %s", service.Ref{Pipeline: x.Step.Pipeline, Number: x.Step.Deployment},
		FirstOf(x.Name, x.Step.Event+" "+x.Step.Target))
}

// attemptsText returns the number of an attempt and the most attempts, 1/3, or the number alone if most is 0. An attempt that runs or
// succeeded is the one after those that were spent.
func attemptsText(status action.Status, spent, most int) string {
	switch status {
	case action.Pending, action.Queued:
		return "-"
	case action.Running, action.Successful:
		spent++
	}
	if most == 0 {
		return strconv.Itoa(spent)
	}
	return fmt.Sprintf("%d/%d", spent, most)
}

// ActionHead returns the first line about an action.
func ActionHead(x queue.ActionState) string {
	return fmt.Sprintf("%s  %s  lane %s", x.ID, ActionName(x), x.Lane)
}

// Action returns an action with its events, its output, and the actions that it created.
func Action(x service.ActionView, now time.Time) []string {
	lines := []string{ActionHead(x.ActionState) + "  created " + Clock(now, x.EnqueuedAt)}
	for _, e := range x.Events {
		lines = append(lines, ActionEvent(e, x))
	}
	if x.Limit != nil {
		lines = append(lines, "waits: "+whyLane(*x.Limit, now))
	}
	if text := strings.TrimSpace(x.Error); strings.Contains(text, "\n") {
		lines = append(lines, "error:")
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, "  "+line)
		}
	}
	for _, c := range x.Children {
		lines = append(lines, fmt.Sprintf("asked for: %s  %s %s  %s", c.ID, c.Kind, FirstOf(c.Name, c.Handler),
			strings.ToLower(c.Status.String())))
	}
	if len(x.Output) > 0 && string(x.Output) != "null" {
		lines = append(lines, "output: "+string(x.Output))
	}
	if x.Ref != "" {
		lines = append(lines, "where: "+x.Ref)
	}
	return lines
}

// StepOutput returns the output of an own step, as its attempt kept it.
func StepOutput(seen json.RawMessage) []string {
	var kept step.StepOutput
	if json.Unmarshal(seen, &kept) != nil {
		return nil
	}
	lines := []string{"printed on " + kept.Host + ":"}
	for _, line := range kept.Lines {
		lines = append(lines, "  "+line)
	}
	return lines
}

// ActionEvent returns one event of an action: seq, time, status, attempts, and a remark. The remark of a success is
// the action's output.
func ActionEvent(e action.Event, x service.ActionView) string {
	attempts := attemptsText(e.Status, e.Spent, x.Policy.Attempts())
	if attempts == "-" {
		attempts = ""
	}
	remark := eventRemark(e)
	if e.Status == action.Successful {
		remark = FirstOf(service.TextOf(x.Output), remark)
	}
	return fmt.Sprintf("%3d  %s  %-10s  %3s  %s", e.Seq, e.At.Local().Format("15:04:05.000"), e.Status, attempts, dash(remark))
}

// eventRemark returns the instance that began an attempt, or the failure and the time of the next attempt.
func eventRemark(e action.Event) string {
	text := FirstOf(e.Error, e.Code)
	switch {
	case e.Status == action.Running:
		return e.Source
	case e.Status != action.Backoff:
		return text
	}
	next := "next attempt now"
	if wait := e.Until.Sub(e.At); wait > 0 {
		next = fmt.Sprintf("next attempt %s (in %s)", Clock(e.At, e.Until), wait.Round(100*time.Millisecond))
	}
	if text == "" {
		return next
	}
	return text + "; " + next
}

// tickForm is the form of a tick's time. The time zone is in another column.
const tickForm = "Mon 2006-01-02 15:04"

// Schedules returns the rows of a list of schedules.
func Schedules(views []service.ScheduleView) []string {
	var t table
	t.add("SCHEDULE", "CRON", "DOES", "LAST", "NEXT")
	for _, v := range views {
		t.add(v.Name, v.Cron+" "+v.Timezone, does(v), lastTick(v), nextTicks(v.Next))
	}
	return t.lines()
}

// does returns the handler or the process that a schedule names.
func does(v service.ScheduleView) string {
	if v.Process != "" {
		return "process " + v.Process
	}
	return v.Handler
}

// lastTick returns the last tick of a schedule, how its action is, and how many actions wait.
func lastTick(v service.ScheduleView) string {
	text := "-"
	if v.Last != nil {
		text = v.Last.At.Format(tickForm) + " " + strings.ToLower(v.Last.Status.String())
	}
	if v.Waiting > 0 {
		text += fmt.Sprintf(", %d waiting", v.Waiting)
	}
	return text
}

func nextTicks(ticks []time.Time) string {
	texts := make([]string, len(ticks))
	for i, at := range ticks {
		texts[i] = at.Format(tickForm)
	}
	return strings.Join(texts, ", ")
}
