package show

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TestAFrameIsReplacedOnATerminalThatBecameNarrower counts the rows that the last frame takes there.
func TestAFrameIsReplacedOnATerminalThatBecameNarrower(t *testing.T) {
	t.Parallel()
	columns, b := 80, &bytes.Buffer{}
	s := Screen{Out: b, Size: func() (int, int) { return columns, 24 }}
	frame := []string{strings.Repeat("x", 80), "short", "\x1b[31m" + strings.Repeat("世", 40) + "\x1b[0m"}
	for _, c := range []struct {
		columns int
		up      string
	}{{80, ""}, {80, "\x1b[3A"}, {40, "\x1b[5A"}, {30, "\x1b[7A"}} {
		columns = c.columns
		b.Reset()
		if err := s.draw(frame); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.HasPrefix(got, "\x1b[?25l\r"+c.up) || c.up == "" && strings.Contains(got, "A") {
			t.Errorf("%d columns: drew %q, want it to go up by %q", c.columns, got, c.up)
		}
	}
}

func TestLinesAreCutByTheColumnsThatTheyTake(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"abcdef":                              "abcd…",
		"abcde":                               "abcde",
		"世界世界":                                "世界…",
		"a世界世":                                "a世…",
		"e\u0301e\u0301e\u0301e\u0301e\u0301": "e\u0301e\u0301e\u0301e\u0301e\u0301",
		"👍👍👍":                                 "👍👍…",
		"\x1b[31mabcdef\x1b[0m":               "\x1b[31mabcd…\x1b[0m",
	} {
		if got := cut(text, 5); got != want || printedWidth(got) > 5 {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestLongLinesAreBounded: a line may have megabytes, or never end, and is cut for each frame of a live view.
func TestLongLinesAreBounded(t *testing.T) {
	t.Parallel()
	if got := cut(strings.Repeat("\x1b[31mx\x1b[0m", longestLine/8), 5); printedWidth(got) != 5 {
		t.Errorf("%d columns are left", printedWidth(got))
	}
	board, lines := newBuildBoard(testPlan(), at(0)), 0
	piece := build.Entry{Text: bytes.Repeat([]byte("x"), 32<<10), Marks: build.Marks{Partial: true}}
	for range 100 {
		for _, line := range board.output(1, []build.Entry{piece}) {
			if lines++; len(line) != longestLine {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
	}
	if lines != 3 {
		t.Errorf("%d lines, want 3 of %d bytes", lines, longestLine)
	}
	for _, line := range board.steps[1].tail {
		if len(line) > 2*tailColumns {
			t.Errorf("%d bytes of a last line are kept", len(line))
		}
	}
}

func TestStepsThatAreWaitedForArePrintedAsRanges(t *testing.T) {
	t.Parallel()
	many := make([]int, 1999)
	for i := range many {
		many[i] = i + 1
	}
	for want, ids := range map[string][]int{"nothing": nil, "3": {3}, "1 2": {1, 2}, "1-3 5 7 8": {1, 2, 3, 5, 7, 8}, "1-1999": many} {
		if got := waitsFor(ids); got != want {
			t.Errorf("%v became %q, want %q", ids, got, want)
		}
	}
}

// TestAnArtifactsNameIsOneLine: a step chooses it, and could else print lines of other steps.
func TestAnArtifactsNameIsOneLine(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"dist/shop": "dist/shop", "a\n ✓ test/unit": "a  ✓ test/unit", "\x1b[2Ja\rb\u202e": "ab"} {
		if got := artifactName(build.Artifact{Name: name}); got != want {
			t.Errorf("%q became %q, want %q", name, got, want)
		}
	}
}

// TestABuildWhoseStepsHaveGapsIsShown, though tests and artifacts are of a step that has begun since its plan was read.
func TestABuildWhoseStepsHaveGapsIsShown(t *testing.T) {
	t.Parallel()
	plan := &build.Plan{Steps: []build.PlanStep{{ID: 2, Stage: "jenkins", Name: "step-2"}, {ID: 9, Stage: "jenkins", Name: "step-9"}}}
	tests := map[int][]build.TestFile{11: {{Name: "unit.xml"}}}
	d := BuildDocument{BuildSummary: BuildSummary{ID: "7", Status: build.Running}, Plan: plan,
		Updates: map[int][]build.Update{9: {{Status: build.Running}}}, Tests: tests}
	lines := append(Build(d, "7", Style{}, now()),
		BuildArtifacts(plan, []build.Artifact{{ID: 1, Step: 9, Name: "a"}, {ID: 2, Step: 11, Name: "b"}})...)
	text := strings.Join(append(lines, BuildHistory(d, now())...), "\n")
	for _, want := range []string{"◦ jenkins/step-2", "… jenkins/step-9", "1   jenkins/step-9", "2   11"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestLongNamesOfStepsLeaveRoom: combinations of a matrix differ at the end of their names.
func TestLongNamesOfStepsLeaveRoom(t *testing.T) {
	t.Parallel()
	plan := &build.Plan{}
	for i, values := range []string{"python=3.11, database=postgres", "python=3.12, database=postgres"} {
		plan.Steps = append(plan.Steps, build.PlanStep{ID: i + 1, Stage: "test", Name: "integration-with-a-database (" + values + ")"})
	}
	board := newBuildBoard(plan, at(0))
	board.status(1, build.Update{Status: build.Running, Timestamp: at(0)})
	board.status(2, build.Update{Status: build.Failed, Reason: "exit status 1", Timestamp: at(0)})
	for columns, want := range map[int][]string{
		20: {" * test/i…ase=postgres)   10.0s   running", " ✗ test/i…ase=postgres)    0.0s   Failed, exit status 1"},
		70: {" * test/integrat…hon=3.11, database=postgres)   10.0s   running",
			" ✗ test/integrat…hon=3.12, database=postgres)    0.0s   Failed, exit status 1"},
		0: {" * test/integration-with-a-database (python=3.11, database=postgres)   10.0s   running",
			" ✗ test/integration-with-a-database (python=3.12, database=postgres)    0.0s   Failed, exit status 1"},
	} {
		if diff := cmp.Diff(want, board.rows(Style{}, at(100), "*", columns)); diff != "" {
			t.Errorf("%d columns: %s", columns, diff)
		}
	}
	if last := board.summary(Style{}, "log", 70)[0]; !strings.Contains(last,
		" test/integration-with-a-database (python=3.11, database=postgres) ") {
		t.Errorf("the end cuts a name: %s", last)
	}
}

// TestTheTreeShowsALineThatHasBegun: a prompt, or a line that a program replaces to show its progress.
func TestTheTreeShowsALineThatHasBegun(t *testing.T) {
	t.Parallel()
	plan := testPlan()
	board := newBuildBoard(plan, at(0))
	step := plan.Steps[0]
	board.status(step.ID, build.Update{Status: build.Running, Timestamp: at(0)})
	for _, c := range []struct {
		text    string
		partial bool
		want    string
	}{{"before", false, "before"}, {"10%\r20%", true, "20%"}, {"\r30%\r", true, "30%"}, {"\rdone", false, "done"},
		{"Password: ", true, "Password:"}} {
		board.output(step.ID, []build.Entry{{Text: []byte(c.text), Marks: build.Marks{Partial: c.partial}}})
		if got := board.row(step, Style{}, at(1), "-", step.Path()); !strings.HasSuffix(got, "   "+c.want) {
			t.Errorf("after %q the row is %q", c.text, got)
		}
	}
}

func TestLongNamesAreShortenedOnATerminal(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a-very-long-name-", 14) + "end"
	v := greeterView()
	v.Stages[0].Name = long
	for columns, whole := range map[int]bool{0: true, 100: false} {
		lines := layout{columns: columns}.render(boardLines(v))
		if got := strings.Contains(lines[0], long); got != whole || !strings.Contains(lines[0], "end  ") ||
			!strings.Contains(lines[0], "received") {
			t.Errorf("%d columns: %q", columns, lines[0])
		}
		revisions := []pipeline.RegisteredRevision{{Label: long, State: "open"}, {Label: strings.Repeat("0", 40), Subject: "words " + long}}
		text := strings.Join(Revisions(revisions, Style{Columns: columns}, now()), "\n")
		if got := strings.Contains(text, long+" "); got != whole || !strings.Contains(text, strings.Repeat("0", 40)+" ") ||
			!strings.HasSuffix(text, "words "+long) {
			t.Errorf("%d columns:\n%s", columns, text)
		}
	}
}
