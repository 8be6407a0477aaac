package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/service"
)

// OpenEnvironments returns the reasons of environments that are not complete, with their ends and a person's remedies.
func OpenEnvironments(open []pipeline.StepState, now time.Time) []string {
	var t table
	for _, step := range open {
		name, below, _ := strings.Cut(step.Target, "/")
		text := OneLine(step.Reason)
		if !step.Expected.IsZero() {
			text += ", until " + minuteClock(now, step.Expected)
		}
		text = waitingText(text, service.EnvironmentRemedy(name, below, "", promotion.ReasonCode(step.Who)))
		t.add(below, FirstOf(step.Who, string(step.State)), text)
	}
	return t.lines()
}

// RecordedEnvironment returns the line for a command to a pipeline of Kubernetes that was recorded.
func RecordedEnvironment(name string, intent service.Command) string {
	done := map[string]string{"hold": "held", "resume": "resumed", "retry": "to be promoted again"}[intent.Kind]
	if intent.Kind == "resume" && intent.Now {
		done = "to go on at once, whatever its window and its soak"
	}
	if done == "" {
		done = intent.Kind
	}
	at := name
	if intent.Target != "" {
		at = strings.TrimPrefix(strings.TrimPrefix(intent.Target, name), "/") + " of " + name
	}
	return at + " is " + done
}

// RolledBackEnvironment returns the line for a rollback of an environment that was requested, or would be.
func RolledBackEnvironment(d journal.Deployment, target string, dryRun bool) string {
	text := fmt.Sprintf("%s of %s ", strings.Trim(strings.TrimPrefix(target, d.Pipeline), "/"), d.Pipeline)
	if dryRun {
		return text + "would go back to " + d.Label
	}
	return text + "goes back to " + d.Label + "; the promoter starts a run of its own for that"
}

// WaitingApproval returns the need of an environment that waits for people, such as "prod waits for 1 of 2 approvals of 6.6.0".
func WaitingApproval(env promotions.EnvironmentView) string {
	a := env.Approval
	text := fmt.Sprintf("%s waits for %s of %s", env.Name, Count(a.Count-len(a.Given), "approval"), a.Revision)
	if len(a.Given) > 0 {
		text += ", has that of " + strings.Join(a.Given, ", ")
	}
	if len(a.By) > 0 {
		text += " (" + strings.Join(a.By, ", ") + " may approve)"
	}
	return text
}
