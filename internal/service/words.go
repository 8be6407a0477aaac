package service

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// stepWords are the words for a step: its name, what it does, and what it has done.
type stepWords struct{ name, doing, done string }

// wordsOf returns the words for the step with an event. A user-defined step has only its name.
func wordsOf(event string) stepWords {
	switch event {
	case pipeline.BuildCompleted:
		return stepWords{"build", "building", "built"}
	case pipeline.HostReplicated:
		return stepWords{pipeline.Replicate, "replicating", "replicated"}
	case pipeline.HostDeployed:
		return stepWords{pipeline.Deploy, "deploying", "deployed"}
	case pipeline.HostTested:
		return stepWords{pipeline.Test, "testing", "tested"}
	case pipeline.EnvPromoted:
		return stepWords{"promote", "promoting", "promoted"}
	case pipeline.StageBaked, pipeline.WaveBaked:
		return stepWords{"bake", "baking", "baked"}
	}
	if label, ok := strings.CutPrefix(event, "build-stage-received-"); ok {
		return stepWords{strings.TrimSuffix(label, "-artifact"), "receiving", "received"}
	}
	if gate, ok := strings.CutPrefix(event, pipeline.GateEvent("")); ok {
		return stepWords{"gate " + gate, "asking", "passed"}
	}
	own := strings.TrimPrefix(event, "host-")
	return stepWords{own, "running " + own, own}
}

// StepName returns the name for people of the step with an event: deploy, build, the name of a user-defined step, the label
// of an artifact.
func StepName(event string) string { return wordsOf(event).name }

// IsBuilt reports whether the step with an event is one of a build stage.
func IsBuilt(event string) bool {
	return event == pipeline.BuildCompleted || strings.HasPrefix(event, "build-stage-received-")
}

// IsBake reports whether the step with an event is a bake. Its action comes back for each round, which is not a failure.
func IsBake(event string) bool { return event == pipeline.StageBaked || event == pipeline.WaveBaked }

// stepWord returns the state of a step in one or two words.
func stepWord(run StepRun) string {
	words := wordsOf(run.Event)
	switch run.State {
	case pipeline.StateComplete:
		return words.done
	case pipeline.StateClaimed:
		if IsBake(run.Event) && run.Status == action.Backoff {
			return words.doing // between two rounds
		}
		return claimedWord(run.Status, words)
	case pipeline.StateFailed:
		return "failed"
	case pipeline.StateElided, pipeline.StateExcluded:
		return "left out"
	case pipeline.StateRunnable:
		return "next"
	}
	return "waits"
}

func claimedWord(status action.Status, words stepWords) string {
	switch status {
	case action.Running, action.Successful:
		return words.doing
	case action.Backoff:
		return "tries again"
	}
	return "queued"
}

// Took returns a duration for people: 0.2s, 42.0s, 3m04s, 2h05m, 2d4h.
func Took(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// ShortDuration returns Go's form without empty units: 10m, not 10m0s.
func ShortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Size returns a number of bytes for people, in powers of 1000: 4.1 MB.
func Size(bytes int64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, units := float64(bytes), "kMGTP"
	unit := -1
	for value >= 1000 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	return fmt.Sprintf("%.1f %cB", value, units[unit])
}

// LaneWord returns the words for people for the state of a lane.
func LaneWord(state string) string {
	if state == "half-open" {
		return "slowed to one at a time"
	}
	return state
}

// RevisionWord returns the words for people for the state of a revision.
func RevisionWord(state string) string {
	switch state {
	case journal.RevisionOpen:
		return "waits for artifacts"
	case journal.RevisionSealed:
		return "complete"
	}
	return state
}
