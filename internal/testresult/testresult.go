// Package testresult reads what test programs report about their tests: JUnit
// XML, which nearly all can write, and TRX, that of .NET. A file is read as a
// stream and need not be sound: it may be huge, cut off or hostile, and is
// refused with the line at which it cannot be read.
package testresult

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Format is the format of a file of test results.
type Format string

// The formats.
const (
	JUnit Format = "junit"
	TRX   Format = "trx"
)

// Outcome is the result of a test.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
	Flaky   Outcome = "flaky" // failed first, and passed when it was repeated
)

// Counts counts the tests that a file reports. Tests includes those that passed.
type Counts struct {
	Tests    int           `json:"tests"`
	Failed   int           `json:"failed"`
	Skipped  int           `json:"skipped"`
	Flaky    int           `json:"flaky"`
	Duration time.Duration `json:"duration"` // duration of all tests together, in ns
}

// Add adds the counts of another file.
func (c *Counts) Add(o Counts) {
	c.Tests += o.Tests
	c.Failed += o.Failed
	c.Skipped += o.Skipped
	c.Flaky += o.Flaky
	c.Duration = addDurations(c.Duration, o.Duration)
}

// Result is one test.
type Result struct {
	Suite    string        `json:"suite,omitempty"` // its class or package, else the suite that it is in
	Name     string        `json:"name"`
	Outcome  Outcome       `json:"outcome"`
	Duration time.Duration `json:"duration"`          // in ns
	Message  string        `json:"message,omitempty"` // why it failed, was flaky or was skipped
	File     string        `json:"file,omitempty"`    // file of the failure if that is reported, else of the test
	Line     int           `json:"line,omitempty"`
}

// Title names the test for people: its suite and its name.
func (r Result) Title() string {
	if r.Suite == r.Name {
		return r.Name
	}
	return strings.TrimSpace(r.Suite + " " + r.Name)
}

// Report is the content of a file of test results.
type Report struct {
	Counts
	Results []Result `json:"results"`           // in the order of the file
	Omitted int      `json:"omitted,omitempty"` // tests that are only counted: there was no room for their results
}

// Bounds of what is kept, beside the counts.
const (
	maxResults = 50_000
	maxTexts   = 8 << 20 // bytes of all texts together
	maxName    = 500     // bytes of a name
	maxMessage = 2000    // bytes of a message
)

// Room is the remaining space for results of the files that are read with it. Half of it is for tests that failed or
// were flaky.
type Room struct{ results, bytes int }

// NewRoom returns the room for the results of one step.
func NewRoom() *Room { return &Room{maxResults, maxTexts} }

// take reports whether there is room for a result, and takes it.
func (r *Room) take(result Result) bool {
	size := len(result.Suite) + len(result.Name) + len(result.Message) + len(result.File)
	results, bytes := r.results-1, r.bytes-size
	if result.Outcome == Passed || result.Outcome == Skipped {
		results, bytes = results-maxResults/2, bytes-maxTexts/2
	}
	if results < 0 || bytes < 0 {
		return false
	}
	r.results, r.bytes = r.results-1, r.bytes-size
	return true
}

// Error is the reason why a file cannot be read.
type Error struct {
	Line int    `json:"line"` // counts from 1
	Text string `json:"text"`
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// Parse reads a file. Paths in it that are below the folder workspace, if one is given, become
// relative to it. The error is an *Error if the file is at fault, else that of r.
func Parse(format Format, r io.Reader, workspace string, room *Room) (Report, error) {
	p := newParser(r, workspace, room)
	var err error
	if format == TRX {
		err = p.run(&trx{parser: p, kept: map[string][]int{}}, "TestRun")
	} else {
		err = p.run(&junit{parser: p}, "testsuites", "testsuite")
	}
	if err != nil {
		return Report{Results: []Result{}}, err
	}
	return p.report, nil
}

// add counts a test, and keeps its result if there is room. It returns the index of the result; -1: it is only counted.
func (p *parser) add(result Result) int {
	c := &p.report.Counts
	c.Tests++
	c.Duration = addDurations(c.Duration, result.Duration)
	switch result.Outcome {
	case Failed:
		c.Failed++
	case Skipped:
		c.Skipped++
	case Flaky:
		c.Flaky++
	case Passed:
	}
	if !p.room.take(result) {
		p.report.Omitted++
		return -1
	}
	p.report.Results = append(p.report.Results, result)
	return len(p.report.Results) - 1
}
