package mirror

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/marker"
)

// diffContext is the number of unchanged lines around a change.
const diffContext = 3

// unifiedDiff returns the changes of files as a unified diff. A file has as many lines as before.
func unifiedDiff(files []edited, changed []marker.Line) string {
	var b strings.Builder
	for _, f := range files {
		was := map[int]string{}
		for _, l := range changed {
			if l.File == f.path {
				was[l.Number] = l.Was
			}
		}
		fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", f.path, f.path)
		writeHunks(&b, linesOf(f.data), was)
	}
	return b.String()
}

// linesOf returns the lines of a file with their ends.
func linesOf(data []byte) (lines []string) {
	for line := range bytes.Lines(data) {
		lines = append(lines, string(line))
	}
	return lines
}

// writeHunks writes the hunks of a file: is has its new lines, was those that are replaced, by their numbers.
func writeHunks(b *strings.Builder, is []string, was map[int]string) {
	for next := 1; next <= len(is); next++ {
		if _, changed := was[next]; !changed {
			continue
		}
		first, last := max(1, next-diffContext), next
		for n := next; n <= len(is) && n <= last+2*diffContext; n++ { // changes with little between them are one hunk
			if _, changed := was[n]; changed {
				last = n
			}
		}
		end := min(len(is), last+diffContext)
		fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", first, end-first+1, first, end-first+1)
		for n := first; n <= end; n++ {
			old, changed := was[n]
			if !changed {
				writeLine(b, ' ', is[n-1])
				continue
			}
			_, tail, _ := cutEnd(is[n-1])
			writeLine(b, '-', old+tail)
			writeLine(b, '+', is[n-1])
		}
		next = end
	}
}

// cutEnd separates a line from its end.
func cutEnd(line string) (text, end string, ok bool) {
	text = strings.TrimRight(line, "\r\n")
	return text, line[len(text):], text != line
}

// writeLine writes a line of a diff.
func writeLine(b *strings.Builder, sign byte, line string) {
	text, _, ended := cutEnd(line)
	b.WriteByte(sign)
	b.WriteString(text)
	b.WriteByte('\n')
	if !ended {
		b.WriteString("\\ No newline at end of file\n")
	}
}
