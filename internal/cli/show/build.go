package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/service"
)

// BuildSummary is one build for `waybill build list` and `waybill build show`.
type BuildSummary struct {
	ID      string       `json:"buildId"`
	Status  build.Status `json:"status"`
	Reason  string       `json:"reason,omitempty"`
	Source  string       `json:"source,omitempty"`
	Branch  string       `json:"branch,omitempty"`
	Commit  string       `json:"commit,omitempty"`
	Subject string       `json:"subject,omitempty"`
	// Deployment names the deployment that the build belongs to, such as shop#7.
	Deployment string    `json:"deployment,omitempty"`
	RerunOf    string    `json:"rerunOf,omitempty"`
	Steps      int       `json:"steps"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
	Lost       bool      `json:"-"` // its worker died before it ended
	Results    string    `json:"results"`
}

// BuildDocument is `waybill build show -o json`.
type BuildDocument struct {
	BuildSummary
	Plan      *build.Plan            `json:"plan"`
	Updates   map[int][]build.Update `json:"updates"`
	Artifacts []build.Artifact       `json:"artifacts"`

	Tests map[int][]build.TestFile `json:"tests"` // by step
}

// Builds returns the rows of a list of builds. shorten returns a path as it is shown.
func Builds(all []BuildSummary, shorten func(string) string, now time.Time) []string {
	var t table
	t.add("BUILD", "STATUS", "STEPS", "STARTED", "TOOK", "BRANCH", "OF")
	for _, s := range all {
		started, duration := "-", "-"
		if !s.StartedAt.IsZero() { // else it had no worker
			started = Ago(now, s.StartedAt)
			if !s.EndedAt.IsZero() {
				duration = service.Took(s.EndedAt.Sub(s.StartedAt))
			}
		}
		steps := strconv.Itoa(s.Steps)
		if s.Steps == 0 && !s.Status.Ended() { // they are not known yet
			steps = "-"
		}
		t.add(s.ID, string(s.Status), steps, started, duration, dash(s.Branch), shorten(s.Source))
	}
	return t.lines()
}

// listedTests is the number of failed tests of a step that `waybill build show` lists; its JSON has all.
const listedTests = 1000

// Build returns a build with its steps, failed tests and artifacts. name is the user's name for it.
func Build(d BuildDocument, name string, s Style, now time.Time) []string {
	board := d.board()
	head := fmt.Sprintf("build %s %s", d.ID, d.Status)
	if d.Reason != "" {
		head += ": " + OneLine(d.Reason)
	}
	if d.Results != "" {
		head += "   results: " + d.Results
	}
	lines := []string{head}
	if d.Commit != "" {
		lines = append(lines, OneLine(strings.Join(strings.Fields(d.Source+" "+d.Branch+" @ "+d.Commit+" "+d.Subject), " ")))
	}
	if d.Deployment != "" {
		lines = append(lines, "of the deployment "+d.Deployment+": waybill deployment show "+d.Deployment)
	}
	for i, row := range board.rows(s, now, "…", 0) {
		lines = append(append(lines, row), board.testLines(d.Plan.Steps[i].ID, s, listedTests)...)
	}
	for _, artifact := range d.Artifacts {
		if artifact.OfTests() {
			continue
		}
		lines = append(lines, fmt.Sprintf("   artifact %s  %s", artifactName(artifact), artifactText(artifact.Size, artifact.SHA256)))
	}
	return append(lines, fmt.Sprintf("logs: waybill build log %s [STAGE/STEP]", name))
}

// BuildEnd returns the lines of `waybill run` at a build's end: the steps that failed or have notable tests, with
// these.
func BuildEnd(d BuildDocument, s Style) (lines []string) {
	board := d.board()
	for _, step := range d.Plan.Steps {
		lines = append(lines, board.ending(step, s, "")...)
	}
	return lines
}

// board holds the known state of the build.
func (d BuildDocument) board() *buildBoard {
	board := newBuildBoard(d.Plan, d.StartedAt)
	board.lost = d.Lost || d.Status.Ended()
	for id, updates := range d.Updates {
		for _, u := range updates {
			board.status(id, u)
		}
	}
	for id, files := range d.Tests {
		if row := board.steps[id]; row != nil { // else it has begun since the plan was read
			row.tests = files
		}
	}
	return board
}

// BuildArtifacts returns the rows of a list of the artifacts of a build's steps.
func BuildArtifacts(p *build.Plan, all []build.Artifact) []string {
	if len(all) == 0 {
		return []string{"the build has no artifacts"}
	}
	var t table
	t.add("ID", "STEP", "SIZE", "SHA-256", "NAME")
	for _, artifact := range all {
		t.add(strconv.Itoa(artifact.ID), StepPath(p, artifact.Step), service.Size(artifact.Size),
			artifact.SHA256[:min(12, len(artifact.SHA256))], artifactName(artifact))
	}
	return t.lines()
}

// StepPath returns stage/step, or the number of a step that the plan lacks: another build engine may have begun it since the plan was read.
func StepPath(p *build.Plan, id int) string {
	if step := p.Step(id); step != nil {
		return step.Path()
	}
	return strconv.Itoa(id)
}

// artifactName returns a name without characters that would break its line.
func artifactName(a build.Artifact) string {
	return strings.ReplaceAll(build.Printable(a.Name, nil), "\n", " ")
}

// ArtifactText returns the size and the beginning of the digest of an artifact.
func ArtifactText(size int64, digest string) string { return artifactText(size, digest) }
