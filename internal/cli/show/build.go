package show

import (
	"fmt"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/server"
)

// BuildSummary is one build for `waybill build list` and `waybill build show`.
type BuildSummary struct {
	ID        string       `json:"buildId"`
	Status    build.Status `json:"status"`
	Reason    string       `json:"reason,omitempty"`
	Source    string       `json:"source,omitempty"`
	Steps     int          `json:"steps"`
	StartedAt time.Time    `json:"startedAt"`
	EndedAt   time.Time    `json:"endedAt,omitzero"`
	Results   string       `json:"results"`
}

// BuildDocument is `waybill build show -o json`.
type BuildDocument struct {
	BuildSummary
	Plan      *build.Plan              `json:"plan"`
	Updates   map[int][]results.Update `json:"updates"`
	Artifacts []results.Artifact       `json:"artifacts"`
}

// Builds returns the rows of a list of builds. shorten returns a path as it is shown.
func Builds(all []BuildSummary, shorten func(string) string, now time.Time) []string {
	var t table
	t.add("BUILD", "STATUS", "STEPS", "STARTED", "TOOK", "OF")
	for _, s := range all {
		duration := "-"
		if !s.EndedAt.IsZero() {
			duration = server.Took(s.EndedAt.Sub(s.StartedAt))
		}
		t.add(s.ID, string(s.Status), strconv.Itoa(s.Steps), Ago(now, s.StartedAt), duration, shorten(s.Source))
	}
	return t.lines()
}

// Build returns a build with its steps and artifacts. name is what the user called it.
func Build(d BuildDocument, name string, s Style, now time.Time) []string {
	board := newBuildBoard(d.Plan, d.StartedAt)
	for id, updates := range d.Updates {
		for _, u := range updates {
			board.status(id, u)
		}
	}
	head := fmt.Sprintf("build %s %s", d.ID, d.Status)
	if d.Reason != "" {
		head += ": " + OneLine(d.Reason)
	}
	lines := append([]string{head + "   results: " + d.Results}, board.rows(s, now, "…")...)
	for _, artifact := range d.Artifacts {
		lines = append(lines, fmt.Sprintf("   artifact %s  %s", artifact.Name, artifactText(artifact.Size, artifact.SHA256)))
	}
	return append(lines, fmt.Sprintf("logs: waybill build log %s [STAGE/STEP]", name))
}
