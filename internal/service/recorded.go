package service

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// RecordedCommand is a command on a deployment, or a freeze, a thaw or a take-over of a host of its
// pipeline, as the log has it.
type RecordedCommand struct {
	At     time.Time `json:"at"`
	Target string    `json:"target"`
	Event  string    `json:"event"` // event of the entry, such as hold-set
	By     string    `json:"by,omitempty"`
	Text   string    `json:"text"` // text for people, such as: held by ana: checking dashboards
}

// mostCommands bounds the commands on a deployment, and the freezes and the like of a pipeline, that are kept for
// views.
const mostCommands = 50

// applyCommand keeps the newest commands on a deployment, and under 0 those on the pipeline.
func (m *marks) applyCommand(row pipeline.Entry) {
	var detail struct{ Event, By, Reason, Until string }
	verb := commandVerb(row.Event)
	if verb == "" || json.Unmarshal(row.Detail, &detail) != nil {
		return
	}
	if row.Event == pipeline.UntilSet && detail.Until == "" {
		verb = "let go through every stage"
	}
	for _, more := range []string{detail.Event, detail.Until} {
		if more != "" {
			verb += " " + more
		}
	}
	text := verb
	if detail.By != "" {
		text += " by " + detail.By
	}
	if detail.Reason != "" {
		text += ": " + detail.Reason
	}
	kept := append(m.commands[row.Deployment], RecordedCommand{At: row.At, Target: row.Target, Event: row.Event, By: detail.By, Text: text})
	m.commands[row.Deployment] = kept[max(0, len(kept)-mostCommands):]
}

// commandVerb returns what a person did with an entry; "" for an entry of another kind.
func commandVerb(event string) string {
	switch event {
	case pipeline.RetryRequested:
		return "retried"
	case pipeline.StepSkipped:
		return "skipped"
	case pipeline.HoldSet:
		return "held"
	case pipeline.HoldCleared:
		return "resumed"
	case pipeline.UntilSet:
		return "stops behind"
	case pipeline.ApprovalGiven:
		return "approved"
	case pipeline.ApprovalRejected:
		return "rejected"
	case pipeline.AlarmRaised:
		return "alarm raised"
	case pipeline.PipelineCanceled:
		return "canceled"
	case pipeline.FreezeSet:
		return "frozen"
	case pipeline.FreezeCleared:
		return "thawed"
	case pipeline.ServiceTakenOver:
		return "host taken over"
	}
	return ""
}

// commandsOn returns the commands on a deployment and, from its creation to its end, on its
// pipeline, oldest first.
func (m *marks) commandsOn(d pipeline.DeploymentState) []RecordedCommand {
	list := append([]RecordedCommand{}, m.commands[d.Deployment]...)
	for _, c := range m.commands[0] {
		if !c.At.Before(d.CreatedAt) && (d.EndedAt.IsZero() || !c.At.After(d.EndedAt)) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b RecordedCommand) int { return a.At.Compare(b.At) })
	return list
}
