package cmdline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// Shown is an error whose text has been printed already: only its status is left.
type Shown struct{ error }

// Printed returns an error with the status of err, whose text has been printed.
func Printed(err error) error { return Shown{err} }

func (s Shown) Unwrap() error { return s.error }

// ExitStatus returns the status of the process for err.
func ExitStatus(err error) int { return fault.CodeOf(err).Exit() }

// Report prints an error once: its problems line by line, else one line, and what to do about it. Of several errors it
// leaves out only those that have been printed already.
func (a *App) Report(err error) {
	if _, ok := errors.AsType[Shown](err); ok {
		if several, ok := err.(interface{ Unwrap() []error }); ok { // this error alone, without the wrapped one
			for _, one := range several.Unwrap() {
				a.Report(one)
			}
		}
		return
	}
	if problems, ok := errors.AsType[fault.Problems](err); ok {
		a.PrintProblems(problems)
		fmt.Fprintf(a.Err, "waybill: %s; nothing was changed\n", show.Count(show.Blocking(problems), "problem"))
		return
	}
	fmt.Fprintf(a.Err, "waybill: %s\n", strings.TrimRight(err.Error(), "\n"))
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintf(a.Err, "  try: %s\n", hint)
	}
}

// PrintProblems prints one line for each problem. On a terminal it adds the line of the file, with a caret.
func (a *App) PrintProblems(problems fault.Problems) {
	var source func(string) []string
	if OnTerminal(a.Err) {
		source = a.sourceLines()
	}
	for _, line := range show.Problems(problems, a.Shorten, source) {
		fmt.Fprintln(a.Err, line)
	}
}

// sourceLines returns a function that reads each file once. It returns nil for a file that cannot be read: the problem
// itself is printed all the same.
func (a *App) sourceLines() func(name string) []string {
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
