package show

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// story turns a deployment's log into lines, for outputs that are not a terminal.
type story struct {
	layout
	pipeline              string
	stageWidth, nameWidth int
	began                 map[pipeline.StepKey]time.Time // claims, for durations
	done                  map[string][]string            // per host: what is over, for its last line
}

// newStory returns a story whose columns fit a deployment.
func newStory(v service.DeploymentView, s Style) *story {
	t := &story{layout: layout{Style: s}, pipeline: v.Pipeline,
		began: map[pipeline.StepKey]time.Time{}, done: map[string][]string{}}
	for _, row := range boardLines(v) {
		t.stageWidth = max(t.stageWidth, utf8.RuneCountInString(s.shortName(row.stage)))
		t.nameWidth = max(t.nameWidth, utf8.RuneCountInString(s.shortName(row.name)))
	}
	return t
}

// wordPair is a step while it runs and when it is done.
type wordPair struct{ doing, done string }

// words returns the words for a step's event: deploying, deployed. A step of the definition's own has its name.
func words(event string) wordPair {
	switch event {
	case pipeline.BuildCompleted:
		return wordPair{"building", "built"}
	case pipeline.HostReplicated:
		return wordPair{"replicating", "replicated"}
	case pipeline.HostDeployed:
		return wordPair{"deploying", "deployed"}
	case pipeline.HostTested:
		return wordPair{"testing", "tested"}
	case pipeline.StageBaked, pipeline.WaveBaked:
		return wordPair{"baking", "baked"}
	}
	if gate, ok := strings.CutPrefix(event, pipeline.GateEvent("")); ok {
		return wordPair{"asking " + gate, "passed " + gate}
	}
	name := strings.TrimPrefix(event, "host-")
	return wordPair{"running " + name, name}
}

// entryDetail has the parts of entries' details that are shown to people.
type entryDetail struct {
	Event   string `json:"event"` // event of the step that a note is about
	Text    string `json:"text"`
	Error   string `json:"error"`
	Reason  string `json:"reason"`
	By      string `json:"by"`
	Until   string `json:"until"`
	Digest  string `json:"digest"`
	Size    int64  `json:"size"`
	Attempt int    `json:"attempt"`
	Spent   int    `json:"spent"`
	On      string `json:"on"` // the host that ran a step which runs once
}

func detailOf(e pipeline.Entry) entryDetail {
	var d entryDetail
	_ = json.Unmarshal(e.Detail, &d) // what does not fit is ignored here
	return d
}

// line returns the line of an entry, or "".
func (t *story) line(e pipeline.Entry) string {
	if e.Class == pipeline.Fact {
		return t.factLine(e, detailOf(e))
	}
	return t.noteLine(e, detailOf(e))
}

// factLine returns the line of something completed.
func (t *story) factLine(e pipeline.Entry, d entryDetail) string {
	switch e.Event {
	case pipeline.HostFinished:
		return t.row(e.Target, t.good("finished"), strings.Join(t.done[e.Target], " "), 0)
	case pipeline.PipelineStarted, pipeline.PipelineFinished, pipeline.StageStarted, pipeline.StageFinished,
		pipeline.GroupStarted, pipeline.GroupFinished, pipeline.WaveStarted, pipeline.WaveFinished, pipeline.HostStarted:
		return ""
	}
	if label, ok := artifactLabel(e.Event); ok {
		text := ""
		if d.Digest != "" {
			text = artifactText(d.Size, d.Digest)
		}
		return t.row(e.Target+"/"+label, t.good("received"), text, 0)
	}
	key := pipeline.StepKey{Deployment: e.Deployment, Target: e.Target, Event: e.Event}
	spent := time.Duration(0)
	if began, ok := t.began[key]; ok {
		spent = e.At.Sub(began)
	}
	word := words(e.Event).done
	took := service.Took(spent)
	if d.On != "" {
		took = "(" + onceText(d.On) + ")"
	}
	t.done[e.Target] = append(t.done[e.Target], word+" "+took)
	if service.IsBake(e.Event) {
		d.Attempt = 0 // it is one of many rounds
	}
	remark := remarkOf(d)
	if d.On != "" {
		remark = onceText(d.On)
	}
	if id, _, kept := service.KeptOutput(e.Detail); kept {
		remark = strings.TrimSpace(remark + " output: waybill action show " + id.String())
	}
	return t.row(e.Target, word, remark, spent)
}

// remarkOf returns the output of a completed step, with its attempt when it was not the first.
func remarkOf(d entryDetail) string {
	parts := make([]string, 0, 2)
	if d.Text != "" {
		parts = append(parts, d.Text)
	}
	switch {
	case d.Attempt > 1 && d.Spent == 0:
		parts = append(parts, fmt.Sprintf("(attempt %d, none counted)", d.Attempt))
	case d.Attempt > 1:
		parts = append(parts, fmt.Sprintf("(attempt %d)", d.Attempt))
	}
	return strings.Join(parts, " ")
}

// noteLine returns the line of a note.
func (t *story) noteLine(e pipeline.Entry, d entryDetail) string {
	switch e.Event {
	case pipeline.StepClaimed:
		t.began[pipeline.StepKey{Deployment: e.Deployment, Target: e.Target, Event: d.Event}] = e.At
		return t.row(e.Target, t.busy(words(d.Event).doing), "", 0)
	case pipeline.StepReported:
		return t.row(e.Target, t.busy(words(d.Event).doing), OneLine(d.Error), 0)
	case pipeline.StepFailed:
		return t.row(e.Target, t.bad("failed"), words(d.Event).doing+": "+FirstOf(d.Error, d.Reason, "no reason given"), 0)
	case pipeline.StepCanceled:
		return t.row(e.Target, t.warn("canceled"), words(d.Event).doing, 0)
	case pipeline.HostFailureTolerated:
		return t.row(e.Target, t.warn("tolerated"), FirstOf(d.Reason, "this host is left as it is"), 0)
	case pipeline.StepExcluded, pipeline.StepSkipped:
		return t.row(e.Target, t.warn("left out"), FirstOf(d.Reason, d.Event), 0)
	case pipeline.AlarmRaised:
		return t.row(e.Target, t.bad("alarm"), who(d), 0)
	case pipeline.RetryRequested:
		return t.row(e.Target, "retried", who(d), 0)
	case pipeline.HoldSet:
		return t.row(e.Target, t.warn("held"), who(d), 0)
	case pipeline.HoldCleared:
		return t.row(e.Target, "resumed", who(d), 0)
	case pipeline.UntilSet:
		if d.Until == "" {
			return t.row(e.Target, "resumed", who(d), 0)
		}
		return t.row(e.Target, t.warn("until "+d.Until), who(d), 0)
	}
	return ""
}

// who returns the person behind an entry, and the reason.
func who(d entryDetail) string {
	text := ""
	if d.By != "" {
		text = "by " + d.By
	}
	if d.Reason != "" {
		text += fmt.Sprintf(": %q", d.Reason)
	}
	return strings.TrimPrefix(text, ": ")
}

// row returns one line in the columns of the deployment's board.
func (t *story) row(target, word, detail string, d time.Duration) string {
	stage, name := placeOf(t.pipeline, target)
	text := fmt.Sprintf("  %-*s  %-*s  %s", t.stageWidth, t.shortName(stage), t.nameWidth, t.shortName(name), word)
	if detail != "" {
		text += "  " + detail
	}
	return t.withDuration(text, d)
}

// placeOf splits a target into its stage and the rest.
func placeOf(pipelineName, target string) (stage, name string) {
	rest := strings.TrimPrefix(strings.TrimPrefix(target, pipelineName), "/")
	stage, name, _ = strings.Cut(rest, "/")
	return stage, name
}

// artifactLabel returns the label in the event of an artifact's arrival.
func artifactLabel(event string) (label string, ok bool) {
	rest, ok := strings.CutPrefix(event, "build-stage-received-")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "-artifact")
}
