package show

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
)

// tailLines is the number of lines of a failed step that are shown at the end: enough for a trace with its message,
// and few enough for most screens.
const tailLines = 30

// longestLine bounds the bytes of a line that are held until its end comes. Then they are shown as a line.
const longestLine = 1 << 20

// tailColumns bounds the columns that are shown of each of a step's last lines.
const tailColumns = 2000

// shortestName is the number of columns that long names of steps keep on the narrowest terminal.
const shortestName = 20

// buildBoard is the known state of a running build. Its owner holds the lock.
type buildBoard struct {
	plan  *build.Plan
	steps map[int]*buildRow
	began time.Time
	lost  bool // the worker died: steps that have not ended never will
}

// buildRow is one step.
type buildRow struct {
	status       build.Status
	reason       string
	attempt      int
	began, ended time.Time
	entries      int64
	tail         []string        // the last lines
	open         map[bool][]byte // lines of stdout and stderr that have begun
	live         string          // the end of the begun line that grew last; "": a line has ended since
	tests        []build.TestFile
}

func newBuildBoard(plan *build.Plan, began time.Time) *buildBoard {
	b := &buildBoard{plan: plan, steps: map[int]*buildRow{}, began: began}
	for i := range plan.Steps {
		b.add(plan.Steps[i].ID)
	}
	b.add(0)
	return b
}

func (b *buildBoard) add(step int) {
	b.steps[step] = &buildRow{status: build.Pending, open: map[bool][]byte{}}
}

// status folds an update.
func (b *buildBoard) status(step int, u build.Update) {
	row := b.steps[step]
	if row.began.IsZero() {
		row.began = u.Timestamp
	}
	row.status, row.reason, row.attempt = u.Status, u.Reason, u.Attempt
	if u.Status.Ended() {
		row.ended = u.Timestamp
		if !u.Status.Broken() {
			row.tail = nil
		}
	}
}

// output folds entries and returns the lines that they complete, as a terminal would show them.
func (b *buildBoard) output(step int, entries []build.Entry) []string {
	row := b.steps[step]
	var lines []string
	for _, e := range entries {
		row.entries++
		row.open[e.Stderr] = append(row.open[e.Stderr], e.Text...)
		if e.Partial && len(row.open[e.Stderr]) < longestLine {
			row.live = visibleEnd(row.open[e.Stderr])
			continue
		}
		row.live = ""
		lines = append(lines, build.VisibleText(row.open[e.Stderr]))
		row.open[e.Stderr] = row.open[e.Stderr][:0]
	}
	for _, line := range lines[max(0, len(lines)-tailLines):] {
		row.tail = append(row.tail, cut(line, tailColumns))
	}
	if extra := len(row.tail) - tailLines; extra > 0 {
		row.tail = slices.Delete(row.tail, 0, extra)
	}
	return lines
}

// visibleEnd returns the part of a line that a terminal shows so far, as a program that shows its progress means it.
func visibleEnd(open []byte) string {
	return build.VisibleText(open[max(0, len(open)-tailColumns):])
}

// rows returns the tree: a line per step that has something to show. On a terminal of so many columns long names lose
// their middle, so that the rest of the line is seen; 0: they lose nothing.
func (b *buildBoard) rows(s Style, now time.Time, spinner string, columns int) []string {
	width := b.nameWidth(columns)
	var rows []string
	for _, step := range b.plan.Steps {
		rows = append(rows, b.row(step, s, now, spinner, cutMiddle(step.Path(), width)))
	}
	return rows
}

// nameWidth returns the width of the column of names: that of the longest, or three fifths of the terminal's columns.
func (b *buildBoard) nameWidth(columns int) (width int) {
	for _, step := range b.plan.Steps {
		width = max(width, len([]rune(step.Path())))
	}
	if columns > 0 {
		width = min(width, max(shortestName, columns*3/5))
	}
	return width
}

// row returns one step: ✓ test/vet  1.9s.
func (b *buildBoard) row(step build.PlanStep, s Style, now time.Time, spinner, name string) string {
	row := b.steps[step.ID]
	elapsed := "      "
	switch {
	case row.status == build.Reused, b.lost && row.ended.IsZero():
	case row.ended.IsZero() && !row.began.IsZero():
		elapsed = fmt.Sprintf("%6s", service.Took(now.Sub(row.began)))
	case !row.began.IsZero():
		elapsed = fmt.Sprintf("%6s", service.Took(row.ended.Sub(row.began)))
	}
	text := " " + b.sign(row, s, spinner) + " " + name + "  " + elapsed + "   " + s.faint(b.remark(step, row))
	return strings.TrimRight(text, " ")
}

func (b *buildBoard) sign(row *buildRow, s Style, spinner string) string {
	if b.lost && !row.status.Ended() {
		return s.faint("-")
	}
	switch row.status {
	case build.Completed:
		return s.good("✓")
	case build.Failed, build.TimedOut:
		return s.bad("✗")
	case build.Canceled, build.Skipped:
		return s.faint("-")
	case build.Reused:
		return s.good("↺")
	case build.Pending:
		return s.faint("◦")
	}
	return s.busy(spinner)
}

// remark says how a step ended, what it waits for, or what it printed last.
func (b *buildBoard) remark(step build.PlanStep, row *buildRow) string {
	if b.lost && !row.status.Ended() {
		if row.status == build.Pending {
			return "did not begin"
		}
		return "lost: how it would have ended is not known"
	}
	switch row.status {
	case build.Completed:
		text := testCounts(row.tests)
		if row.attempt > 1 {
			text = strings.TrimLeft(text+"   attempt "+strconv.Itoa(row.attempt), " ")
		}
		return strings.TrimSpace(text + "   " + OneLine(row.reason))
	case build.Backoff:
		return OneLine(row.reason)
	case build.Reused:
		return strings.TrimRight(cmp.Or(OneLine(row.reason), "reused")+"   "+testCounts(row.tests), " ")
	case build.Failed, build.TimedOut:
		text := fmt.Sprintf("%s, %s   %s", row.status, OneLine(row.reason), step.At)
		if countTests(row.tests).Failed == 0 { // else a line below has the counts
			text += "   " + testCounts(row.tests)
		}
		return text
	case build.Canceled, build.Skipped:
		return fmt.Sprintf("%s: %s", row.status, OneLine(row.reason))
	case build.Pending:
		return b.waits(step)
	}
	if row.live != "" {
		return row.live
	}
	if len(row.tail) > 0 {
		return row.tail[len(row.tail)-1]
	}
	return strings.ToLower(string(row.status))
}

// waits names the remaining needs of a step: the steps that it needs, else stages.
func (b *buildBoard) waits(step build.PlanStep) string {
	var names []string
	for _, id := range step.After {
		earlier := b.plan.Step(id)
		name := earlier.Stage
		if step.Needs != nil {
			name = earlier.Path()
		}
		if !b.steps[id].status.Ended() && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "waits for its turn"
	}
	return "waits for " + strings.Join(names, ", ")
}

// failure returns the end of a failed step's log, its failed tests, and where the whole log is.
func (b *buildBoard) failure(step build.PlanStep, s Style, logCommand string) []string {
	row := b.steps[step.ID]
	var out []string
	if left := row.entries - int64(len(row.tail)); left > 0 && len(row.tail) > 0 {
		out = append(out, "   "+s.faint("│ … the last "+Count(len(row.tail), "line")+":"))
	}
	for _, line := range row.tail {
		out = append(out, "   "+s.faint("│")+" "+line)
	}
	if _, rest, more := strings.Cut(strings.TrimSpace(row.reason), "\n"); more {
		for line := range strings.SplitSeq(rest, "\n") {
			out = append(out, "   "+line)
		}
	}
	out = append(out, b.testLines(step.ID, s, namedTests)...)
	if row.entries > int64(len(row.tail)) {
		out = append(out, fmt.Sprintf("   whole log, %s:   %s %s", Count(int(row.entries), "line"), logCommand, fault.Quote(step.Path())))
	}
	return out
}

// summary returns the tree at the end, failed steps with their last lines.
func (b *buildBoard) summary(s Style, logCommand string, columns int) []string {
	width := b.nameWidth(columns)
	var out []string
	for _, step := range b.plan.Steps {
		name := fmt.Sprintf("%-*s", width, step.Path())
		out = append(append(out, b.row(step, s, time.Now(), " ", name)), b.below(step, s, logCommand)...)
	}
	return out
}

// ending returns the row of a step that failed or has notable tests, with the rows below it.
func (b *buildBoard) ending(step build.PlanStep, s Style, logCommand string) []string {
	lines := b.below(step, s, logCommand)
	if b.steps[step.ID].status.Broken() || len(lines) > 0 {
		lines = append([]string{b.row(step, s, b.began, " ", step.Path())}, lines...)
	}
	return lines
}

// below returns the lines of a run's end below the row of a step: why it failed, and which tests did.
func (b *buildBoard) below(step build.PlanStep, s Style, logCommand string) (lines []string) {
	if b.steps[step.ID].status.Broken() {
		return b.failure(step, s, logCommand)
	}
	return b.testLines(step.ID, s, namedTests)
}

func (b *buildBoard) testLines(step int, s Style, limit int) (lines []string) {
	for _, line := range testLines(s, b.steps[step].tests, limit) {
		lines = append(lines, "   "+line)
	}
	return lines
}
