package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// shown is an error whose text has been printed already: only its status is left.
type shown struct{ error }

// printed returns an error with the status of err, whose text has been printed.
func printed(err error) error { return shown{err} }

func (s shown) Unwrap() error { return s.error }

// exitStatus returns the status of the process for err.
func exitStatus(err error) int { return fault.CodeOf(err).Exit() }

// report prints an error once: its problems line by line, else one line, and what to do about it. Of several errors it leaves out only those
// that have been printed already.
func (a *app) report(err error) {
	if _, ok := errors.AsType[shown](err); ok {
		if several, ok := err.(interface{ Unwrap() []error }); ok { // this error alone, not what it wraps
			for _, one := range several.Unwrap() {
				a.report(one)
			}
		}
		return
	}
	if problems, ok := errors.AsType[fault.Problems](err); ok {
		a.printProblems(problems)
		fmt.Fprintf(a.err, "waybill: %s; nothing was changed\n", show.Count(show.Blocking(problems), "problem"))
		return
	}
	fmt.Fprintf(a.err, "waybill: %s\n", strings.TrimRight(err.Error(), "\n"))
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintf(a.err, "  try: %s\n", hint)
	}
}

// printProblems prints one line for each problem. On a terminal it adds the line of the file, with a caret.
func (a *app) printProblems(problems fault.Problems) {
	var source func(string) []string
	if onTerminal(a.err) {
		source = a.sourceLines()
	}
	for _, line := range show.Problems(problems, a.Shorten, source) {
		fmt.Fprintln(a.err, line)
	}
}

// sourceLines returns a function that reads each file once. It returns nil for a file that cannot be read: the problem
// itself is printed all the same.
func (a *app) sourceLines() func(name string) []string {
	cache := map[string][]string{}
	return func(name string) []string {
		name = a.Path(name)
		if _, known := cache[name]; !known {
			content, _ := file.Read(name, file.Most)
			cache[name] = strings.Split(string(content), "\n")
		}
		return cache[name]
	}
}
