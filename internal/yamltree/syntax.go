package yamltree

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/waybill-dev/waybill/internal/fault"
)

// syntaxProblem gives a parser's error its place, as the parser marked it. What is missing at the
// end of the file is reported where the construct that lacks it begins, else at the last character
// of the text.
func syntaxProblem(file string, data []byte, err error) fault.Problems {
	end := endOf(data)
	end.File = file
	failed, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return problemAt(end, "yaml-syntax", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	at := position(file, failed.Mark)
	if began := position(file, failed.ContextMark); behind(at, end) && began.Line > 0 {
		at = began
	}
	if at.Line == 0 || behind(at, end) {
		at = end
	}
	if name, ok := strings.CutPrefix(failed.Message, "unknown anchor '"); ok {
		return problemAt(at, "alias-unknown", "the alias *%s names no anchor above it", strings.TrimSuffix(name, "' referenced"))
	}
	if strings.Contains(failed.Message, "max depth") {
		return problemAt(at, "too-deep", "there are more than %d levels", maxDepth)
	}
	if strings.Contains(failed.Message, "a tab character") || strings.Contains(failed.Message, "cannot start any token") && tabAt(data, at) {
		return problemAt(at, "yaml-syntax", "a tab cannot indent; use spaces")
	}
	return problemAt(at, "yaml-syntax", "%s", failed.Message)
}

// tabAt reports whether the character at a position is a tab.
func tabAt(data []byte, at fault.Position) bool {
	lines := bytes.SplitN(data, []byte("\n"), at.Line+1)
	if at.Line < 1 || at.Line > len(lines) {
		return false
	}
	line := []rune(string(lines[at.Line-1]))
	return at.Column >= 1 && at.Column <= len(line) && line[at.Column-1] == '\t'
}

func position(file string, mark yaml.Mark) fault.Position {
	return fault.Position{File: file, Line: mark.Line, Column: mark.Column}
}

// behind reports whether a position is after another of the same file.
func behind(at, end fault.Position) bool {
	return at.Line > end.Line || at.Line == end.Line && at.Column > end.Column
}

// endOf returns the position of the last character that is not a blank.
func endOf(data []byte) fault.Position {
	text := bytes.TrimRight(data, " \t\r\n")
	start := bytes.LastIndexByte(text, '\n') + 1
	return fault.Position{Line: 1 + bytes.Count(text, []byte("\n")), Column: max(1, len([]rune(string(text[start:]))))}
}

func problemAt(at fault.Position, code, format string, args ...any) fault.Problems {
	return fault.Problems{{Position: at, Code: code, Text: fmt.Sprintf(format, args...)}}
}
