package show

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/build"
)

// buildStory prints a build line by line, for outputs that are not a terminal.
type buildStory struct{ *buildScene }

func (v *buildStory) Begin() {
	for _, line := range v.opening() {
		fmt.Fprintln(v.Out, line)
	}
}

func (v *buildStory) Status(step int, u build.Update) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.board.status(step, u)
	if p := v.head.Plan.Step(step); p != nil && u.Status.Ended() {
		fmt.Fprintln(v.Out, v.board.row(*p, v.Style, u.Timestamp, " ", p.Path()))
	}
}

func (v *buildStory) Output(step int, entries []build.Entry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, line := range v.board.output(step, entries) {
		if p := v.head.Plan.Step(step); p != nil {
			fmt.Fprintf(v.Out, "%s | %s\n", p.Path(), line)
		}
	}
}

func (v *buildStory) Artifact(step int, a build.Artifact) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.head.Plan.Step(step); p != nil && !a.OfTests() {
		fmt.Fprintf(v.Out, "%s   artifact %s  %s\n", p.Path(), artifactName(a), artifactText(a.Size, a.SHA256))
	}
}

func (v *buildStory) End(result build.Status) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, step := range v.head.Plan.Steps {
		v.board.steps[step.ID].tail = nil // its lines have been printed
		for _, line := range v.board.ending(step, v.Style, v.head.Log) {
			fmt.Fprintln(v.Out, line)
		}
	}
	if result != "" {
		for _, line := range v.closing(result) {
			fmt.Fprintln(v.Out, line)
		}
	}
}
