package show

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/service"
)

// layout turns rows into text of a given width.
type layout struct {
	Style
	columns int // width of the output; 0: as wide as the text
}

// durationColumn is the column where durations end when there is room.
const durationColumn = 69

// render aligns the rows in columns. Only the first row of a stage has its name.
func (l layout) render(lines []line) []string {
	lines = slices.Clone(lines)
	short := func(name string) string {
		if most := max(shortestName, l.columns*3/10); l.columns > 0 && utf8.RuneCountInString(name) > most {
			return cutMiddle(name, most)
		}
		return name
	}
	stageWidth, nameWidth, wordWidth := 0, 0, 0
	for i := range lines {
		row := &lines[i]
		row.stage, row.name = short(row.stage), short(row.name)
		stageWidth = max(stageWidth, utf8.RuneCountInString(row.stage))
		nameWidth = max(nameWidth, utf8.RuneCountInString(row.name))
		wordWidth = max(wordWidth, utf8.RuneCountInString(row.word))
	}
	var texts []string
	stage := ""
	for _, row := range lines {
		shown := row.stage
		if shown == stage {
			shown = ""
		}
		stage = row.stage
		text := fmt.Sprintf("  %-*s  %-*s  %s%s  %s", stageWidth, shown, nameWidth, row.name,
			l.word(row), strings.Repeat(" ", wordWidth-utf8.RuneCountInString(row.word)), row.detail)
		texts = append(texts, l.withDuration(strings.TrimRight(text, " "), row.took))
	}
	return texts
}

// word paints the state of a row.
func (l layout) word(row line) string {
	switch row.state {
	case service.RunFinished:
		return l.good(row.word)
	case service.RunFailed:
		return l.bad(row.word)
	case service.RunTolerated:
		return l.warn(row.word)
	case service.RunRunning:
		return l.busy(row.word)
	default:
		return l.faint(row.word)
	}
}

// withDuration puts a duration at the right, and cuts the text before it when the output is too narrow for both.
func (l layout) withDuration(text string, d time.Duration) string {
	end := durationColumn
	if l.columns > 0 {
		end = min(end, l.columns)
	}
	if d <= 0 {
		return l.fit(text)
	}
	shown := service.Took(d)
	if l.columns > 0 && printedWidth(text)+2+len(shown) > l.columns {
		text = cut(text, l.columns-len(shown)-2)
	}
	gap := max(2, end-printedWidth(text)-len(shown))
	return text + strings.Repeat(" ", gap) + shown
}

// fit cuts a line to the width of the output.
func (l layout) fit(text string) string {
	if l.columns == 0 {
		return text
	}
	return cut(text, l.columns)
}

// squeeze makes a board fit a number of rows. Stages that are over or have not begun become one row each; if that is
// not enough, quiet hosts are counted instead of shown.
func squeeze(lines []line, rows int) []line {
	if len(lines) <= rows {
		return lines
	}
	lines = fold(lines, func(stage []line) bool {
		return allIn(stage, service.RunFinished) || allIn(stage, service.RunWaiting, service.RunSkipped, service.RunStopped, service.RunUnreached)
	})
	if len(lines) <= rows {
		return lines
	}
	return truncate(lines, rows)
}

// fold replaces the rows of each stage for which quiet is true by one that counts them.
func fold(lines []line, quiet func([]line) bool) []line {
	var folded []line
	for start := 0; start < len(lines); {
		end := start
		for end < len(lines) && lines[end].stage == lines[start].stage {
			end++
		}
		if stage := lines[start:end]; len(stage) > 1 && quiet(stage) {
			folded = append(folded, line{stage: stage[0].stage, name: "all", state: stage[0].state, word: stage[0].word,
				detail: Count(len(stage), "host")})
		} else {
			folded = append(folded, stage...)
		}
		start = end
	}
	return folded
}

func allIn(lines []line, states ...service.RunState) bool {
	for _, row := range lines {
		found := false
		for _, s := range states {
			found = found || row.state == s
		}
		if !found {
			return false
		}
	}
	return true
}

// truncate keeps the rows that matter most (failed, running, waiting, over) in their order, and counts the rest.
func truncate(lines []line, rows int) []line {
	keep := make([]bool, len(lines))
	left := rows - 1
	for _, state := range []service.RunState{service.RunFailed, service.RunRunning, service.RunTolerated,
		service.RunWaiting, service.RunFinished, service.RunSkipped, service.RunStopped, service.RunUnreached} {
		for i, row := range lines {
			if row.state == state && left > 0 {
				keep[i], left = true, left-1
			}
		}
	}
	var kept []line
	counts := map[service.RunState]int{}
	for i, row := range lines {
		if keep[i] {
			kept = append(kept, row)
		} else {
			counts[row.state]++
		}
	}
	return append(kept, line{name: "…", word: "and", detail: countStates(counts)})
}

// countStates returns "12 waiting, 80 finished".
func countStates(counts map[service.RunState]int) string {
	var parts []string
	for _, state := range []service.RunState{service.RunFailed, service.RunTolerated, service.RunRunning,
		service.RunWaiting, service.RunFinished, service.RunSkipped, service.RunStopped, service.RunUnreached} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}
