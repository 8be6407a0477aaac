package testresult

import (
	"encoding/xml"
	"regexp"
	"strconv"
	"strings"
)

// explain sets the message of a test that did not pass, and the place where it
// failed unless the file says where the test is. near is what the line of a
// stack has that is the test's own.
func (p *parser) explain(r *Result, message, body, near string) {
	message = strings.TrimSpace(message)
	if strings.HasPrefix(message, "=== ") { // gotestsum's message of a skipped test is its output
		message, body = "", message
	}
	if message == "" || message == "Failed" { // gotestsum's message for all failures
		message = p.explainByOutput(r, body)
	}
	r.Message = clip(message, maxMessage)
	if r.File == "" || r.Line == 0 {
		if file, line := p.locate(body, near); file != "" {
			r.File, r.Line = file, line
		} else if file, line := p.locate(message, near); file != "" && r.File == "" {
			r.File, r.Line = file, line
		}
	}
}

// printed matches what a Go test has printed: its file, the line, and the text.
var printed = regexp.MustCompile(`(?m)^ {4,}([^\s:]+_test\.go):(\d+): ?(.*)$`)

// explainByOutput finds the message in what the test has printed: the last line of a Go test, else
// everything above the stack.
func (p *parser) explainByOutput(r *Result, body string) string {
	var all [][]int
	if strings.Contains(body, "_test.go:") {
		all = printed.FindAllStringSubmatchIndex(body, -1)
	}
	if len(all) > 0 {
		last := all[len(all)-1]
		r.File = p.relative(body[last[2]:last[3]])
		r.Line, _ = lineOf(body[last[4]:last[5]])
		if text := body[last[6]:last[7]]; strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
		rest, _, _ := strings.Cut(body[last[1]:], "\n---")
		return strings.TrimSpace(rest)
	}
	var above []string
	for line := range strings.SplitSeq(body, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "at ") && trimmed != line {
			break
		}
		if !isHeading(trimmed, r.Name) {
			above = append(above, strings.TrimRight(line, " \r\t"))
		}
	}
	return strings.TrimSpace(strings.Join(above, "\n"))
}

// isHeading reports whether a line only names the test of the output, as gotestsum and PHPUnit do.
func isHeading(line, name string) bool {
	return strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "--- SKIP") ||
		strings.HasSuffix(line, "::"+name)
}

// places match a line of a stack that names a file and a line of it: of .NET, of
// JavaScript, of the JVM, and of Python and the rest.
var places = []*regexp.Regexp{
	regexp.MustCompile(` in (.+):line (\d+)`),
	regexp.MustCompile(`([^\s()]+):(\d+):\d+\)?\s*$`),
	regexp.MustCompile(`\(([\w$-]+\.(?:java|kt|scala|groovy)):(\d+)\)`),
	regexp.MustCompile(`^\s*([^\s:()]+\.\w+):(\d+):`),
	regexp.MustCompile(`^\s*File "([^"<]+)", line (\d+)`), // Python's own traceback, the innermost call last
}

const (
	placeJVM    = 2
	placePython = 4
)

// isLibrary reports whether a line of a stack that has one of the places is not of the tested program.
func isLibrary(row string, place int) bool {
	return place == placeJVM || strings.Contains(row, "node_modules") || strings.Contains(row, "node:internal") ||
		strings.Contains(row, "site-packages") || place == placePython && strings.Contains(row, "/lib/python")
}

// locate returns the first place that a text names on a line with near, else the first that is not
// in a library; of a traceback of Python the last one.
func (p *parser) locate(text, near string) (file string, line int) {
	for row := range strings.SplitSeq(text, "\n") {
		if len(row) > maxName || !strings.ContainsRune(row, ':') && !strings.Contains(row, `File "`) {
			continue
		}
		for i, place := range places {
			found := place.FindStringSubmatch(row)
			if found == nil {
				continue
			}
			own := near != "" && strings.Contains(row, near)
			last := file == "" || i == placePython
			if n, ok := lineOf(found[2]); ok && (own || last && !isLibrary(row, i)) {
				file, line = p.relative(found[1]), n
			}
			if own {
				return file, line
			}
			break
		}
	}
	return file, line
}

// lineOf reads the number of a line.
func lineOf(text string) (line int, ok bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

// named returns an attribute that is a name. Some programs, such as Node.js, name a test after its file, and each build has
// another workspace: the name of a file in it begins there, so that a test has one name in all builds.
func (p *parser) named(e xml.StartElement, attr string) string {
	name := attribute(e, attr)
	if p.workspace != "" {
		name = strings.TrimPrefix(name, p.workspace+"/")
	}
	return clip(name, maxName)
}

// relative returns a path from the workspace on, if it is below it.
func (p *parser) relative(path string) string {
	path = strings.TrimPrefix(path, "file://")
	if p.workspace != "" {
		if rest, ok := strings.CutPrefix(path, p.workspace+"/"); ok {
			path = rest
		}
	}
	return clip(path, maxName)
}
