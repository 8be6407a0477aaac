package yamltree

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/waybill-dev/waybill/internal/fault"
)

// syntaxProblem gives a parser's error its place. The parser names the start of
// the construct it was in, or nothing at all, so the line is found by asking
// which is the shortest run of whole lines that has the same fault.
func syntaxProblem(file string, data []byte, err error) fault.Problems {
	text := message(err)
	ends := lineEnds(data)
	line := 1 + sort.Search(len(ends)-1, func(i int) bool {
		return sameFault(data[:ends[i]], text)
	})
	start := 0
	if line > 1 {
		start = ends[line-2]
	}
	content := bytes.TrimRight(data[start:ends[line-1]], "\r\n")
	at := fault.Position{File: file, Line: line, Column: firstColumn(content)}

	if name, ok := strings.CutPrefix(text, "unknown anchor '"); ok {
		name = strings.TrimSuffix(name, "' referenced")
		if i := bytes.Index(content, []byte("*"+name)); i >= 0 {
			at.Column = column(content, i)
		}
		return problemAt(at, "alias-unknown", "the alias *%s names no anchor above it", name)
	}
	if strings.Contains(text, "max depth") {
		return problemAt(at, "too-deep", "there are more than %d levels", maxDepth)
	}
	if tab := bytes.IndexByte(content, '\t'); tab >= 0 && strings.Contains(text, "tab character") {
		at.Column = column(content, tab)
	} else if parsed, ok := errors.AsType[*yaml.ParserError](err); ok && isLine(parsed.Line, line) {
		at.Column = min(parsed.Column+1, column(content, len(content)))
	}
	return problemAt(at, "yaml-syntax", "%s", text)
}

// isLine reports whether the parser meant this line: it counts from 1 or from 0, by kind of error.
func isLine(parsed, line int) bool { return parsed == line || parsed == line-1 }

func message(err error) string {
	if parsed, ok := errors.AsType[*yaml.ParserError](err); ok {
		return parsed.Message
	}
	return strings.TrimPrefix(err.Error(), "yaml: ")
}

// sameFault reports whether the text already has the fault.
func sameFault(data []byte, text string) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		if err := decoder.Decode(&node); err != nil {
			return message(err) == text
		}
	}
}

// lineEnds is the offset after each line; there is at least one line.
func lineEnds(data []byte) []int {
	var ends []int
	for i, b := range data {
		if b == '\n' {
			ends = append(ends, i+1)
		}
	}
	if len(ends) == 0 || ends[len(ends)-1] < len(data) {
		ends = append(ends, len(data))
	}
	return ends
}

// firstColumn is the column of the first character that is no blank.
func firstColumn(line []byte) int {
	return column(line, len(line)-len(bytes.TrimLeft(line, " \t")))
}

// column turns an offset in bytes into a column, which counts characters from 1.
func column(line []byte, offset int) int { return len([]rune(string(line[:offset]))) + 1 }

func problemAt(at fault.Position, code, format string, args ...any) fault.Problems {
	return fault.Problems{{Position: at, Code: code, Text: fmt.Sprintf(format, args...)}}
}
