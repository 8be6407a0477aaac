package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// shown is an error whose text has been printed already: only its status is left.
type shown struct{ error }

func (s shown) Unwrap() error { return s.error }

// exitStatus is the status of the process for err.
func exitStatus(err error) int { return fault.CodeOf(err).Exit() }

// report prints an error once: its problems line by line, else one line, and what to do about it.
func (a *app) report(err error) {
	if _, ok := errors.AsType[shown](err); ok {
		return
	}
	if problems, ok := errors.AsType[fault.Problems](err); ok {
		a.reportProblems(problems)
		return
	}
	fmt.Fprintf(a.err, "waybill: %s\n", strings.TrimRight(err.Error(), "\n"))
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintf(a.err, "  try: %s\n", hint)
	}
}

// reportProblems prints every fault of a file, and how many there are.
func (a *app) reportProblems(problems fault.Problems) {
	a.printProblems(problems)
	blocking := 0
	for _, p := range problems {
		if !p.Warning {
			blocking += max(1, p.More)
		}
	}
	fmt.Fprintf(a.err, "waybill: %s; nothing was changed\n", count(blocking, "problem"))
}

// printProblems prints one line each; on a terminal with the line of the file and a caret below it.
func (a *app) printProblems(problems fault.Problems) {
	problems = problems.Few()
	sources := map[string][]string{}
	for _, p := range problems {
		file := p.File
		p.File = a.shorten(file)
		fmt.Fprintln(a.err, p)
		if onTerminal(a.err) {
			fmt.Fprint(a.err, excerpt(lines(sources, a.path(file)), p.Position))
		}
	}
}

// lines reads a file once; nil when it cannot be read, since the problem itself has been told.
func lines(cache map[string][]string, file string) []string {
	if known, ok := cache[file]; ok {
		return known
	}
	content, err := os.ReadFile(file)
	if err != nil {
		content = nil
	}
	cache[file] = strings.Split(string(content), "\n")
	return cache[file]
}

// excerpt is the line of a file that a position names, with a caret under its column.
func excerpt(source []string, at fault.Position) string {
	if at.Line < 1 || at.Line > len(source) || at.Column < 1 {
		return ""
	}
	line := []rune(strings.TrimRight(source[at.Line-1], "\r"))
	before := line[:min(at.Column-1, len(line))]
	indent := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(before))
	return fmt.Sprintf("%5d | %s\n      | %s^\n", at.Line, string(line), indent)
}

// shorten shows a path as seen from the working directory when that is shorter.
func (a *app) shorten(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	relative, err := filepath.Rel(a.dir, path)
	if err != nil || len(relative) > len(path) {
		return path
	}
	return relative
}

// count is "1 problem" or "3 problems".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
