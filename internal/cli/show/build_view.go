package show

import (
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
)

// BuildHead describes a build as a whole.
type BuildHead struct {
	ID      string
	Name    string // by which commands know the build: its id, or the folder of its results
	Label   string // label of the source: shop @ 3f9c2ab
	Results string // the folder of its results
	Log     string // the command that prints a step's log, without the step
	Resumes string // resumed build, with its reused parts; "": none
	Advice  string // about the workspace; "": none
	Resume  string // the command that resumes this build; "": none
	Runner  string // remark about the runner; "": nothing
	Plan    *build.Plan
}

// NewBuildView returns the live tree on a terminal, lines elsewhere, and events for JSON.
func NewBuildView(p Printer, head BuildHead) worker.View {
	if head.Name == "" {
		head.Name = head.ID
	}
	base := &buildScene{Printer: p, head: head, board: newBuildBoard(head.Plan, time.Now())}
	switch {
	case p.JSON:
		return &buildEvents{base}
	case p.Screen != nil:
		return newBuildTree(base, p.Screen)
	}
	return &buildStory{base}
}
