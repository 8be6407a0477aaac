package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// line is one row of a deployment's board: a build, an artifact or a host.
type line struct {
	stage  string // name of the stage
	name   string // build, amd64, east/elm
	state  service.RunState
	word   string // finished, deploying, waits
	detail string // the finished steps and a remark
	took   time.Duration
}

// boardLines returns every row of a deployment, in the order of its definition.
func boardLines(v service.DeploymentView) []line {
	var lines []line
	for _, stage := range v.Stages {
		if v.Archive != "" { // its steps are only in its log
			lines = append(lines, line{stage: stage.Name, state: stage.State, word: string(stage.State), took: stage.EndedAt.Sub(stage.StartedAt)})
			continue
		}
		if stage.Kind == pipeline.BuildStage {
			lines = append(lines, buildLines(stage, v.Now)...)
			continue
		}
		lines = append(lines, stepLines(stage, true, v.Now)...)
		for _, group := range stage.Groups {
			lines = append(lines, groupLines(stage, group, v.Now)...)
		}
		lines = append(lines, stepLines(stage, false, v.Now)...)
		lines = append(lines, targetLines(v.Pipeline, stage)...)
	}
	return lines
}

// targetLines returns the rows of an environment's targets: revision and health of each.
func targetLines(pipeline string, stage service.StageRun) []line {
	if stage.Environment == nil {
		return nil
	}
	var lines []line
	for _, target := range stage.Environment.Targets {
		lines = append(lines, line{stage: stage.Name, name: service.TargetName(pipeline, target), state: stage.State, word: service.TargetHealth(target),
			detail: FirstOf(service.TargetRevision(target), "-")})
	}
	return lines
}

// groupLines returns the rows of a group: each host, and behind the hosts of a wave that bakes the wave.
func groupLines(stage service.StageRun, group service.GroupRun, now time.Time) []line {
	var lines []line
	for i, host := range group.Hosts {
		lines = append(lines, hostLine(stage, group, host, now))
		isLast := i+1 == len(group.Hosts) || group.Hosts[i+1].Wave != host.Wave
		if wave := int(host.Wave) - 1; isLast && wave >= 0 && wave < len(group.Waves) {
			for _, step := range group.Waves[wave].Steps {
				lines = append(lines, stepLine(stage, group.Name+"/"+group.Waves[wave].Name, step, now))
			}
		}
	}
	return lines
}

// stepLine returns the row of a step that is not of a host.
func stepLine(stage service.StageRun, name string, step service.StepRun, now time.Time) line {
	l := line{stage: stage.Name, name: name, state: stepState(step), word: step.Word, detail: stepRemark(step, now)}
	if step.State == pipeline.StateClaimed || step.State == pipeline.StateComplete {
		l.took = stepTook(step, now)
	}
	return l
}

// stepLines returns the rows of a stage's own steps before its hosts, or behind them: its gates and its bake.
func stepLines(stage service.StageRun, before bool, now time.Time) []line {
	var lines []line
	for _, step := range stage.Steps {
		if step.Before == before {
			lines = append(lines, stepLine(stage, step.Name, step, now))
		}
	}
	return lines
}

// buildLines returns the row of the build until it has artifacts, then a row for each artifact.
func buildLines(stage service.StageRun, now time.Time) []line {
	var build time.Duration
	var lines []line
	for _, step := range stage.Steps {
		l := line{stage: stage.Name, name: strings.TrimPrefix(step.Name, "artifact "), state: stepState(step),
			word: step.Word, detail: stepRemark(step, now)}
		switch {
		case step.Event == pipeline.BuildCompleted && step.State == pipeline.StateComplete:
			build = stepTook(step, now)
			if len(stage.Steps) > 1 {
				continue
			}
			l.took = build
		case step.Event == pipeline.BuildCompleted:
			l.took = stepTook(step, now)
		case step.Artifact != nil:
			l.detail = artifactText(step.Artifact.Size, step.Artifact.Digest)
			l.took = build
		}
		lines = append(lines, l)
	}
	return lines
}

// artifactText returns an artifact's size and the beginning of its digest.
func artifactText(size int64, digest string) string {
	return fmt.Sprintf("%s sha256:%s", service.Size(size), digest[:min(8, len(digest))])
}

// Artifact returns an artifact in one line.
func Artifact(a pipeline.RevisionArtifact) string {
	return fmt.Sprintf("artifact %s  %s", a.Label, artifactText(a.Size, a.Digest))
}

// hostLine returns one host with the steps of its chain.
func hostLine(stage service.StageRun, group service.GroupRun, host service.HostRun, now time.Time) line {
	l := line{stage: stage.Name, name: group.Name + "/" + host.Name, state: host.State, word: string(host.State)}
	var parts, out []string
	for _, step := range host.Steps {
		switch step.State {
		case pipeline.StateComplete:
			parts = append(parts, doneText(step, now))
		case pipeline.StateClaimed, pipeline.StateFailed:
			l.word = step.Word
			if remark := stepRemark(step, now); remark != "" {
				parts = append(parts, remark)
			}
			if step.State == pipeline.StateClaimed {
				l.took = stepTook(step, now)
			}
		case pipeline.StateExcluded:
			out = append(out, step.Name)
		}
	}
	l.detail = hostDetail(host, strings.Join(parts, " "), out)
	return l
}

// hostDetail returns the work done on a host, the names of the steps that are left out, and why it waits or is
// skipped. A skipped host has no steps but those that are left out, so its reason is complete.
func hostDetail(host service.HostRun, done string, out []string) string {
	var parts []string
	if done != "" {
		parts = append(parts, done)
	}
	if len(out) > 0 && (host.State != service.RunSkipped || host.Reason == "") {
		parts = append(parts, strings.Join(out, ", ")+" left out")
	}
	if (host.State == service.RunWaiting || host.State == service.RunSkipped) && host.Reason != "" {
		parts = append(parts, host.Reason)
	}
	return strings.Join(parts, "; ")
}

// doneText returns a finished step with how long it took: deployed 6.0s.
func doneText(step service.StepRun, now time.Time) string {
	text := step.Word + " " + service.Took(stepTook(step, now))
	if step.On != "" {
		if step.On != step.Target {
			text = step.Word // it took no time here
		}
		text += " (" + onceText(step.On) + ")"
	}
	if remark := doneRemark(step); remark != "" {
		text += " (" + remark + ")"
	}
	return text
}

// onceText names the host that runs a step for its stage, by its path: once, on all/elm.
func onceText(host string) string {
	parts := strings.Split(host, "/")
	return "once, on " + strings.Join(parts[max(0, len(parts)-2):], "/")
}

// doneRemark returns the output of a finished step when it took several attempts, else "".
func doneRemark(step service.StepRun) string {
	switch {
	case step.Attempt < 2:
		return ""
	case step.Output == "":
		return attemptText(step)
	default:
		return OneLine(step.Output) + "; " + attemptText(step)
	}
}

// attemptText returns "attempt 2 of 3", or that the attempt cost none.
func attemptText(step service.StepRun) string {
	if step.Spent == 0 && step.Attempt > 1 {
		return fmt.Sprintf("attempt %d, none counted", step.Attempt)
	}
	if step.Attempts > 0 && step.Attempt <= step.Attempts {
		return fmt.Sprintf("attempt %d of %d", step.Attempt, step.Attempts)
	}
	return fmt.Sprintf("attempt %d", step.Attempt)
}

// stepRemark returns the remark about a step that is not done: its attempt, its last error, when it resumes.
func stepRemark(step service.StepRun, now time.Time) string {
	switch {
	case step.State == pipeline.StateFailed:
		return FirstOf(step.Error, step.Reason)
	case step.State == pipeline.StateClaimed && service.IsBake(step.Event):
		return FirstOf(step.Error, step.Output) // why a round was not made, or how far it is
	case step.Status == action.Backoff && step.Error != "":
		return failedAttempt(step, step.Attempt, now)
	case step.State == pipeline.StateClaimed && step.Event == pipeline.EnvPromoted:
		return FirstOf(step.Output, step.Error)
	case step.State == pipeline.StateClaimed:
		return liveRemark(step)
	case step.State == pipeline.StateWaiting:
		return step.Reason
	}
	return ""
}

// liveRemark returns the attempt at a step when it is not the first, and its last error.
func liveRemark(step service.StepRun) string {
	var parts []string
	if step.Attempt > 1 {
		parts = append(parts, attemptText(step))
	}
	if step.Error != "" {
		parts = append(parts, OneLine(step.Error))
	}
	return strings.Join(parts, ": ")
}

// endedAttempts returns how many attempts of a live step have ended; 0 when it is not live.
func endedAttempts(step service.StepRun) int {
	switch {
	case step.State != pipeline.StateClaimed:
		return 0
	case step.Status == action.Running:
		return step.Attempt - 1
	default:
		return step.Attempt
	}
}

// failedAttempt returns why an attempt failed, and when the next one begins.
func failedAttempt(step service.StepRun, attempt int, now time.Time) string {
	text := fmt.Sprintf("attempt %d failed: %s", attempt, OneLine(step.Error))
	switch {
	case step.Spent == 0:
		text = fmt.Sprintf("attempt %d was cut off and does not count: %s", attempt, OneLine(step.Error))
	case step.Spent < attempt:
		text = fmt.Sprintf("attempt %d failed, %d of %d counted: %s", attempt, step.Spent, step.Attempts, OneLine(step.Error))
	case step.Attempts > 0 && attempt <= step.Attempts:
		text = fmt.Sprintf("attempt %d of %d failed: %s", attempt, step.Attempts, OneLine(step.Error))
	}
	if step.RunAt.After(now) {
		text += "; again in " + service.Took(step.RunAt.Sub(now))
	}
	return text
}

// stepTook returns how long a step ran, or has run so far.
func stepTook(step service.StepRun, now time.Time) time.Duration {
	switch {
	case step.StartedAt.IsZero():
		return 0
	case step.EndedAt.IsZero():
		return now.Sub(step.StartedAt)
	default:
		return step.EndedAt.Sub(step.StartedAt)
	}
}

// stepState returns the row's state for a build's step.
func stepState(step service.StepRun) service.RunState {
	switch step.State {
	case pipeline.StateComplete:
		return service.RunFinished
	case pipeline.StateClaimed:
		return service.RunRunning
	case pipeline.StateFailed:
		return service.RunFailed
	case pipeline.StateElided, pipeline.StateExcluded:
		return service.RunSkipped
	default:
		return service.RunWaiting
	}
}

// FirstOf returns the first text that is not empty, in one line.
func FirstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return OneLine(text)
		}
	}
	return ""
}

// OneLine returns the first line of a text, marked when there are more lines. After a first line that ends with a colon it
// adds the last one.
func OneLine(text string) string {
	text = strings.TrimSpace(text)
	first, rest, more := strings.Cut(text, "\n")
	first = strings.TrimSpace(first)
	switch {
	case !more:
		return first
	case strings.HasSuffix(first, ":"):
		return first + " " + strings.TrimSpace(rest[strings.LastIndex(rest, "\n")+1:])
	default:
		return first + " …"
	}
}
