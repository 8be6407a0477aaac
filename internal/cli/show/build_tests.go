package show

import (
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// namedTests is the number of failed tests that the end of a run names.
const namedTests = 10

// testCounts returns the counts of a step's files: 214 tests, 1 failed.
func testCounts(files []build.TestFile) string {
	c := countTests(files)
	if c.Tests == 0 {
		return ""
	}
	text := Count(c.Tests, "test")
	for _, part := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Flaky, "flaky"}, {c.Skipped, "skipped"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	return text
}

func countTests(files []build.TestFile) (c testresult.Counts) {
	for _, f := range files {
		c.Add(f.Counts)
	}
	return c
}

// testLines returns the failed and the flaky tests of a step by name, at most limit of each, and
// the files that cannot be read.
func testLines(s Style, files []build.TestFile, limit int) (lines []string) {
	lines = append(outcomeLines(s, files, testresult.Failed, limit), outcomeLines(s, files, testresult.Flaky, limit)...)
	for _, f := range files {
		if f.Problem != nil {
			lines = append(lines, fmt.Sprintf("%s %s:%d: %s", s.warn("warning:"), plainLine(f.Name), f.Problem.Line, plainLine(f.Problem.Text)))
		}
	}
	return lines
}

// outcomeLines returns the tests that have failed, or are flaky, below a heading; a single one is in the heading's line.
func outcomeLines(s Style, files []build.TestFile, wanted testresult.Outcome, limit int) []string {
	paint, words, count := s.bad, "failed", func(c testresult.Counts) int { return c.Failed }
	if wanted == testresult.Flaky {
		paint, words, count = s.warn, "passed only when repeated", func(c testresult.Counts) int { return c.Flaky }
	}
	var from, titles, details []string
	total := 0
	for _, f := range files {
		n := count(f.Counts)
		if n == 0 {
			continue
		}
		total += n
		from = append(from, plainLine(f.Name))
		for _, r := range f.Results {
			if r.Outcome == wanted && len(titles) < limit {
				titles, details = append(titles, plainLine(r.Title())), append(details, testDetail(r))
			}
		}
	}
	head := fmt.Sprintf("%d of %s %s", total, Count(countTests(files).Tests, "test"), words)
	switch {
	case total == 0:
		return nil
	case len(from) == 1:
		head += " (" + from[0] + ")"
	default:
		head += " (" + Count(len(from), "file") + ")"
	}
	head = paint(head) + ":"
	if total == 1 && len(titles) == 1 {
		lines := []string{head + " " + titles[0]}
		if details[0] != "" {
			lines = append(lines, "  "+details[0])
		}
		return lines
	}
	lines := []string{head}
	for i, title := range titles {
		lines = append(lines, strings.TrimRight("  "+title+"   "+details[i], " "))
	}
	if more := total - len(titles); more > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more", more))
	}
	return lines
}

// testDetail returns where and why a test failed, in one line.
func testDetail(r testresult.Result) string {
	where, why := plainLine(r.File), plainLine(r.Message)
	if where != "" && r.Line > 0 {
		where += fmt.Sprintf(":%d", r.Line)
	}
	switch {
	case where == "", strings.HasPrefix(why, where):
		return why
	case why == "":
		return where
	}
	return where + ": " + why
}

// plainLine returns the first line of a text that a program has written.
func plainLine(text string) string { return OneLine(build.Printable(text, nil)) }

// notable returns the files as events and documents for people list them: without tests that passed or were skipped.
func notable(files []build.TestFile) []build.TestFile {
	out := make([]build.TestFile, len(files))
	for i, f := range files {
		out[i] = f
		out[i].Results = []testresult.Result{}
		for _, r := range f.Results {
			if r.Outcome == testresult.Failed || r.Outcome == testresult.Flaky {
				out[i].Results = append(out[i].Results, r)
			}
		}
	}
	return out
}
