package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/service"
)

// Promotion returns the state of a pipeline of Kubernetes: its run, and each environment with its targets.
func Promotion(v promotions.View, s Style, now time.Time) []string {
	clock := func(at time.Time) string { return minuteClock(now, at) }
	head := fmt.Sprintf("%s   %s %s", s.bold(v.Pipeline), v.App.Kind, v.App.Name)
	if v.Run != nil {
		head += "   " + runText(*v.Run, now)
	}
	t := table{Style: s}
	t.add("ENVIRONMENT", "TARGET", "REVISION", "HEALTH", "STATE")
	for _, env := range v.Environments {
		var state []string
		for _, sentence := range service.EnvironmentSentences(env, now) {
			state = append(state, OneLine(sentence.String(clock)))
		}
		addEnvironment(&t, v.Pipeline, env, state)
	}
	lines := []string{head}
	if len(v.Environments) > 0 {
		lines = append(lines, t.lines()...)
		lines = append(lines, unknownTargets(v, s)...)
	}
	if v.Suspended {
		lines = append(lines, s.warn("suspended:")+" nothing is promoted")
	}
	if v.Freeze != nil {
		lines = append(lines, s.warn(v.Freeze.Text(now)))
	}
	if v.Starving {
		lines = append(lines, s.warn("starving:")+" the last runs were superseded, and none was finished")
	}
	for _, c := range service.PromotionFaults(v) {
		lines = append(lines, s.bad(c.Reason+":")+" "+OneLine(c.Message))
	}
	return lines
}

// runText returns a run, such as "run 12: 6.6.0 (was 6.5.4)   started 14:02, 18m ago".
func runText(run promotions.RunView, now time.Time) string {
	text := fmt.Sprintf("run %d: %s", run.Number, run.Revision)
	if run.Was != "" {
		text += " (was " + run.Was + ")"
	}
	verb, at := "started", run.StartedAt
	if run.End != promotion.Running {
		verb, at = string(run.End), run.EndedAt
	}
	return fmt.Sprintf("%s   %s %s, %s ago", text, verb, minuteClock(now, at), service.Elapsed(now.Sub(at)))
}

// minuteClock returns a moment in the time zone of this machine: hours and minutes, with the date when it is not today's.
func minuteClock(now, then time.Time) string {
	then, now = then.Local(), now.Local()
	if then.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return then.Format("15:04")
	}
	return then.Format("2006-01-02 15:04")
}

// addEnvironment adds the rows of an environment: one for each target, and one for each sentence about it.
func addEnvironment(t *table, pipeline string, env promotions.EnvironmentView, state []string) {
	for i := range max(len(env.Targets), len(state)) {
		row := make([]string, 5)
		if i == 0 {
			row[0] = env.Name
		}
		if i < len(env.Targets) {
			target := env.Targets[i]
			row[1], row[2], row[3] = service.TargetName(pipeline, target), dash(service.TargetRevision(target)),
				service.TargetHealth(target)
		}
		if i < len(state) {
			row[4] = state[i]
		}
		t.add(row...)
	}
}

// unknownTargets returns the cause of each target whose state is not known.
func unknownTargets(v promotions.View, s Style) (lines []string) {
	for _, env := range v.Environments {
		for _, target := range env.Targets {
			if target.Reason != "" && target.Message != "" {
				lines = append(lines, s.warn(env.Name+" "+service.TargetName(v.Pipeline, target)+":")+" "+OneLine(target.Message))
			}
		}
	}
	return lines
}

// promotionText returns the stages column, and the last run, of a pipeline of Kubernetes in a list.
func promotionText(v promotions.View) (environments, last string) {
	var names []string
	for _, env := range v.Environments {
		names = append(names, env.Name)
	}
	if v.Run == nil {
		return strings.Join(names, ","), "-"
	}
	state := "active"
	if v.Run.End != promotion.Running {
		state = string(v.Run.End)
	}
	return strings.Join(names, ","), fmt.Sprintf("%s %s %s", service.Ref{Pipeline: v.Pipeline, Number: v.Run.Number}, v.Run.Revision, state)
}
