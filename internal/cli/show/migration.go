package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/flow/migrate"
)

// MigrationPlan returns the steps of a plan, service instance by service instance; without any the reason none.
func MigrationPlan(p migrate.Outline, none string) (lines []string) {
	if len(p.Tasks) == 0 {
		return []string{"nothing to do: " + none}
	}
	for _, t := range p.Tasks {
		lines = append(lines, migrationTask(t))
		for _, s := range t.Steps {
			lines = append(lines, "  "+OneLine(s.Text))
		}
		for _, note := range t.Notes {
			lines = append(lines, "  note: "+OneLine(note))
		}
	}
	if len(p.Running) > 0 {
		lines = append(lines, "the application broker runs: scale it to 0 replicas before --apply: Deployment "+strings.Join(p.Running, ", "))
	}
	return lines
}

// migrationTask returns a task in one line.
func migrationTask(t migrate.Task) string {
	line := fmt.Sprintf("%s: %s", t.Title(), t.State)
	if t.Reason != "" {
		line += ": " + t.Reason
	}
	return OneLine(line)
}

// MigrationEnd returns how many tasks about service instances have ended in each state.
func MigrationEnd(tasks []migrate.Task) []string {
	count := map[string]int{}
	for _, t := range tasks {
		if t.Name != "" {
			count[string(t.State)]++
		}
	}
	if len(count) == 0 {
		return []string{"nothing to do"}
	}
	var parts []string
	for state, n := range count {
		parts = append(parts, fmt.Sprintf("%d %s", n, state))
	}
	slices.Sort(parts)
	return []string{"service instances: " + strings.Join(parts, ", ")}
}
