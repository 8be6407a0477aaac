package show

import (
	"time"

	"github.com/waybill-dev/waybill/internal/build"
)

// buildEvent is one line of `waybill run -o json`.
type buildEvent struct {
	Event    string          `json:"event"` // build, status, output, artifact, tests, end
	At       time.Time       `json:"at"`
	Build    string          `json:"buildId,omitempty"`
	Results  string          `json:"results,omitempty"`
	Steps    int             `json:"steps,omitempty"`
	StepID   int             `json:"stepId,omitempty"`
	Step     string          `json:"step,omitempty"` // stage/step
	Status   build.Status    `json:"status,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	ExitCode *int            `json:"exitCode,omitempty"`
	Text     string          `json:"text,omitempty"`
	Stream   string          `json:"stream,omitempty"` // stream of output: stdout, stderr, or waybill
	Artifact *build.Artifact `json:"artifact,omitempty"`
	Tests    *build.TestFile `json:"tests,omitempty"` // without the results of tests that passed or were skipped
}

// buildEvents writes a build as events, one JSON document a line.
type buildEvents struct{ *buildScene }

// print writes an event; a reader that is gone misses it, the results have it all.
func (v *buildEvents) print(step int, e buildEvent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.head.Plan.Step(step); p != nil {
		e.StepID, e.Step = step, p.Path()
	}
	if e.At.IsZero() {
		e.At = time.Now().UTC()
	}
	_ = v.Line(e)
}

func (v *buildEvents) Begin() {
	v.print(0, buildEvent{Event: "build", Build: v.head.ID, Results: v.head.Results, Steps: len(v.head.Plan.Steps)})
}

func (v *buildEvents) Status(step int, u build.Update) {
	if step > 0 {
		v.print(step, buildEvent{Event: "status", At: u.Timestamp, Status: u.Status, Reason: u.Reason, ExitCode: u.ExitCode})
	}
}

func (v *buildEvents) Output(step int, entries []build.Entry) {
	for i, entry := range entries {
		v.mu.Lock()
		lines := v.board.output(step, entries[i:i+1])
		v.mu.Unlock()
		for _, line := range lines {
			v.print(step, buildEvent{Event: "output", At: entry.At, Text: line, Stream: entry.Stream()})
		}
	}
}

func (v *buildEvents) Artifact(step int, a build.Artifact) {
	v.print(step, buildEvent{Event: "artifact", Artifact: &a})
}

func (v *buildEvents) Tests(step int, files []build.TestFile) {
	for _, f := range notable(files) {
		v.print(step, buildEvent{Event: "tests", Tests: &f})
	}
}

func (v *buildEvents) End(result build.Status) {
	if result != "" {
		v.print(0, buildEvent{Event: "end", Build: v.head.ID, Status: result})
	}
}
