package testresult

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// junit reads JUnit XML. It has no standard: what is read is what the test
// programs have in common, in suites that are nested, side by side, or the root.
type junit struct {
	*parser
	suites []suite
	test   *openTest // nil outside of a test
	silent int       // the depth of an element whose texts are of no interest; 0: there is none
	into   *excerpt  // where texts go; nil: nowhere
}

// suite is a suite that is open.
type suite struct {
	name     string
	declared Counts
	filled   bool // it has tests or suites, so what it declares is not looked at
}

// openTest is a test that is open.
type openTest struct {
	result  Result
	depth   int
	failed  bool
	flaky   bool
	skipped bool
	message string // message of the first failure, or the reason for the skip
	body    excerpt
}

func (j *junit) start(e xml.StartElement) {
	name := e.Name.Local
	switch {
	case j.silent > 0:
	case name == "system-out", name == "system-err", name == "properties":
		j.silent = j.depth
	case j.test != nil:
		j.startInTest(e)
	case name == "testsuite", name == "testsuites":
		j.fill()
		j.suites = append(j.suites, suite{name: j.named(e, "name"), declared: declaredCounts(e)})
	case name == "testcase":
		j.fill()
		j.startTest(e)
	}
}

// fill marks the open suite as one whose tests are listed.
func (j *junit) fill() {
	if len(j.suites) > 0 {
		j.suites[len(j.suites)-1].filled = true
	}
}

func (j *junit) startTest(e xml.StartElement) {
	r := Result{Suite: j.named(e, "classname"), Name: j.named(e, "name"),
		Duration: seconds(attribute(e, "time")), File: j.relative(attribute(e, "file"))}
	for i := len(j.suites) - 1; i >= 0 && (r.Suite == "" || r.Suite == "test"); i-- { // Node.js has "test" for all
		r.Suite = j.suites[i].name
	}
	if line, ok := lineOf(attribute(e, "line")); ok && r.File != "" {
		r.Line = line
	}
	j.test = &openTest{result: r, depth: j.depth}
	for _, key := range []string{"status", "result"} {
		switch strings.ToLower(attribute(e, key)) {
		case "notrun", "disabled", "suppressed", "skipped", "ignored":
			j.test.skipped = true
		}
	}
}

// startInTest reads how a test ended. A test that failed in every repetition has a failure beside
// those of its repetitions.
func (j *junit) startInTest(e xml.StartElement) {
	t := j.test
	first := !t.failed && !t.flaky
	switch e.Name.Local {
	case "failure", "error":
		first, t.failed = !t.failed, true
	case "flakyFailure", "flakyError", "rerunFailure", "rerunError":
		t.flaky = true
	case "skipped":
		t.skipped = true
	default:
		return
	}
	if first {
		t.message, t.body = excerptOf(attribute(e, "message")), excerpt{}
		j.into = &t.body
	}
}

func (j *junit) text(text []byte) {
	if j.into != nil && j.silent == 0 {
		j.into.add(text)
	}
}

func (j *junit) end(name string) {
	if j.silent > 0 {
		if j.silent == j.depth {
			j.silent = 0
		}
		return
	}
	switch name {
	case "failure", "error", "flakyFailure", "flakyError", "rerunFailure", "rerunError", "skipped":
		j.into = nil
	case "testcase":
		if j.test != nil && j.test.depth == j.depth {
			j.endTest()
		}
	case "testsuite", "testsuites":
		if j.test == nil {
			j.endSuite()
		}
	}
}

func (j *junit) endTest() {
	t := j.test
	j.test, j.into = nil, nil
	t.result.Outcome = Passed
	switch {
	case t.failed:
		t.result.Outcome = Failed
	case t.flaky:
		t.result.Outcome = Flaky
	case t.skipped:
		t.result.Outcome = Skipped
	}
	if t.result.Outcome != Passed {
		j.explain(&t.result, t.message, t.body.String(), t.result.Suite)
	}
	j.add(t.result)
}

// endSuite counts what a suite declares when it lists no test.
func (j *junit) endSuite() {
	if len(j.suites) == 0 {
		return
	}
	last := j.suites[len(j.suites)-1]
	j.suites = j.suites[:len(j.suites)-1]
	if !last.filled {
		j.report.Add(last.declared)
		j.report.Omitted += last.declared.Tests
	}
}

// maxDeclared is the largest number of tests that is believed without their results.
const maxDeclared = 1_000_000

// declaredCounts reads the counts in the attributes of a suite; zero if they contradict themselves.
func declaredCounts(e xml.StartElement) Counts {
	number := func(name string) int {
		n, err := strconv.Atoi(attribute(e, name))
		if err != nil || n < 0 || n > maxDeclared {
			return 0
		}
		return n
	}
	c := Counts{Tests: number("tests"), Failed: number("failures") + number("errors"),
		Skipped: number("skipped") + number("disabled"), Duration: seconds(attribute(e, "time"))}
	if c.Failed+c.Skipped > c.Tests {
		return Counts{}
	}
	return c
}
