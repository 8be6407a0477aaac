package show

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/service"
)

// mostRemarks bounds the remarks about the workspace that are shown.
const mostRemarks = 10

// buildScene is the state that the views share.
type buildScene struct {
	Printer
	head  BuildHead
	mu    sync.Mutex
	board *buildBoard

	remarks []string // about the workspace
}

// Remark remembers remarks about the workspace, up to a few lines; the log of step 0 has all.
func (v *buildScene) Remark(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.remarks) < mostRemarks {
		v.remarks = append(v.remarks, "   "+v.Style.faint(OneLine(text)))
	}
}

// Tests remembers the reports of a step's files.
func (v *buildScene) Tests(step int, files []build.TestFile) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.board.steps[step].tests = notable(files)
}

// opening returns the lines above the tree.
func (v *buildScene) opening() []string {
	var lines []string
	if v.head.Runner != "" && len(v.head.Plan.Steps) > 0 {
		lines = append(lines, v.head.Runner)
	}
	if len(v.head.Plan.Steps) == 0 {
		return append(lines, v.nothing())
	}
	lines = append(lines, fmt.Sprintf("build %s   %s   %s   results: %s", v.head.Name, v.head.Label,
		Count(len(v.head.Plan.Steps), "step"), v.head.Results))
	if v.head.Advice != "" {
		lines = append(lines, "   "+v.Style.faint(v.head.Advice))
	}
	if v.head.Resumes != "" {
		lines = append(lines, fmt.Sprintf("build %s %s", v.head.Name, v.head.Resumes))
	}
	return lines
}

// nothing says why no stage is left.
func (v *buildScene) nothing() string {
	if len(v.head.Plan.Stages) > 0 {
		return "nothing to run: the stages have no steps"
	}
	if v.head.Plan.Environment == "" {
		return "nothing to run: every stage wants an environment, and none is selected (--environment)"
	}
	return fmt.Sprintf("nothing to run: no stage is for the environment %s", v.head.Plan.Environment)
}

// closing returns the last lines.
func (v *buildScene) closing(result build.Status) []string {
	lines := slices.Clone(v.remarks)
	word := string(result)
	switch {
	case result == build.Completed:
		word = v.Style.good(word)
	case result == build.Skipped:
		word = v.Style.faint(word)
	default:
		word = v.Style.bad(word)
		switch {
		case v.head.Resume == "":
		case result == build.Canceled:
			lines = append(lines, "   resume it:   "+v.head.Resume)
		default:
			lines = append(lines, "   fix it, then resume:   "+v.head.Resume)
		}
	}
	return append(lines, fmt.Sprintf("build %s %s in %s", v.head.Name, word, service.Took(time.Since(v.board.began))))
}
