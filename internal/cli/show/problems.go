package show

import (
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Problems returns one line for each problem of a file. shorten returns a path as it is shown. source returns the lines
// of a file, for an excerpt below each problem; nil: no excerpts.
func Problems(problems fault.Problems, shorten func(string) string, source func(file string) []string) []string {
	var lines []string
	for _, p := range problems.Few() {
		file := p.File
		p.File = shorten(file)
		lines = append(lines, p.String())
		if source != nil {
			lines = append(lines, excerpt(source(file), p.Position)...)
		}
	}
	return lines
}

// Blocking returns how many problems are not warnings.
func Blocking(problems fault.Problems) int {
	n := 0
	for _, p := range problems {
		if !p.Warning {
			n += max(1, p.More)
		}
	}
	return n
}

// excerpt returns the line of a file that a position names, with a caret under its column.
func excerpt(source []string, at fault.Position) []string {
	if at.Line < 1 || at.Line > len(source) || at.Column < 1 {
		return nil
	}
	line := []rune(strings.TrimRight(source[at.Line-1], "\r"))
	before := line[:min(at.Column-1, len(line))]
	indent := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(before))
	return []string{fmt.Sprintf("%5d | %s", at.Line, string(line)), "      | " + indent + "^"}
}
