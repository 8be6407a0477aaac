package server

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/schedule"
)

// stepWords are a step's name, what it is doing, and what it has done.
type stepWords struct{ name, doing, done string }

// wordsOf is the three words for an event; own steps have none but their name.
func wordsOf(event string) stepWords {
	switch event {
	case schedule.BuildCompleted:
		return stepWords{"build", "building", "built"}
	case schedule.HostReplicated:
		return stepWords{schedule.Replicate, "replicating", "replicated"}
	case schedule.HostDeployed:
		return stepWords{schedule.Deploy, "deploying", "deployed"}
	case schedule.HostTested:
		return stepWords{schedule.Test, "testing", "tested"}
	}
	if label, ok := strings.CutPrefix(event, "build-stage-received-"); ok {
		return stepWords{strings.TrimSuffix(label, "-artifact"), "receiving", "received"}
	}
	own := strings.TrimPrefix(event, "host-")
	return stepWords{own, "running " + own, own}
}

// StepName is how people call the step with this event: deploy, build, the own step's name, an artifact's label.
func StepName(event string) string { return wordsOf(event).name }

// word says in one or two words where a step stands.
func word(run StepRun) string {
	words := wordsOf(run.Event)
	switch run.State {
	case schedule.Complete:
		return words.done
	case schedule.Claimed:
		return claimedWord(run.Status, words)
	case schedule.Broken:
		return "failed"
	case schedule.Elided, schedule.Excluded:
		return "left out"
	case schedule.CanRun:
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
