package show

import (
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/service"
)

// CommandPreview returns the effect of a command on a deployment.
func CommandPreview(ref service.Ref, p service.CommandPreview) []string {
	what := p.Kind
	if _, below, found := strings.Cut(p.Target, "/"); found {
		what += " of " + below
	}
	if p.Event != "" {
		what += " " + p.Event
	}
	first := fmt.Sprintf("%s: %s would be recorded", ref, what)
	verb := map[string]string{"skip": "left out", "retry": "tried again"}[p.Kind]
	if verb == "" || len(p.Steps) == 0 {
		return []string{first}
	}
	var t table
	for _, step := range p.Steps {
		_, below, _ := strings.Cut(step.Target, "/")
		t.add("  "+below, service.StepName(step.Event), string(step.State))
	}
	return append([]string{fmt.Sprintf("%s; %s would be %s", first, Count(len(p.Steps), "step"), verb)}, t.lines()...)
}

// RollbackPreview returns the effect of a rollback or a catch-up of a pipeline.
func RollbackPreview(name string, p service.RollbackPreview) []string {
	lines := []string{fmt.Sprintf("%s would get revision %s", Count(len(p.Hosts), "host"), p.Revision)}
	if p.Undoes != 0 {
		lines[0] = fmt.Sprintf("%s#%d would be undone: %s", name, p.Undoes, lines[0])
	}
	var t table
	for _, host := range p.Hosts {
		_, below, _ := strings.Cut(host.Target, "/")
		runs := "runs nothing"
		if host.Runs != nil {
			runs = fmt.Sprintf("runs %s of %s#%d", host.Runs.Label, name, host.Runs.Deployment)
		}
		if host.Lost && host.Runs != nil {
			runs = fmt.Sprintf("does not have %s of %s#%d, which the log says", host.Runs.Label, name, host.Runs.Deployment)
		}
		t.add("  "+below, runs)
	}
	lines = append(lines, t.lines()...)
	if p.Cancels {
		lines = append(lines, fmt.Sprintf("%s#%d would be canceled", name, p.Undoes))
	}
	if p.Rejects {
		lines = append(lines, fmt.Sprintf("revision %s would be rejected", p.Undone))
	}
	for _, number := range p.Holds {
		lines = append(lines, fmt.Sprintf("%s#%d would be held", name, number))
	}
	return lines
}

// DeployPreview returns the effect of a deployment of a registered revision.
func DeployPreview(p service.DeployPreview) []string {
	lines := []string{fmt.Sprintf("revision %s would be deployed by definition %d", p.Revision, p.Version)}
	var t table
	for _, stage := range p.Stages {
		has := "nothing has finished it"
		if stage.Current != nil {
			has = "has " + stage.Current.Label
		}
		if stage.Newer {
			has += ", which is newer"
		}
		if stage.Waits {
			has += "; waits for approval or a window"
		}
		t.add("  "+stage.Stage, has)
	}
	return append(lines, t.lines()...)
}
