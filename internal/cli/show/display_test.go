package show

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// terminal returns a Printer on a terminal of 80 by 24, and its output.
func terminal() (Printer, *bytes.Buffer) {
	b := &bytes.Buffer{}
	return Printer{Out: b, Err: b, Style: Style{Colours: true}, Columns: 80,
		Screen: &Screen{Out: b, Size: func() (int, int) { return 80, 24 }}}, b
}

func TestALineDisplayPrintsEachFailedAttemptOnce(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	d := NewDisplay(Printer{Out: &b}, greeterView(), "Ctrl-C")
	for range 3 {
		if err := d.View(greeterView()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(d.Tick(at(0)), d.Away(errors.New("no route\nto host")), d.Away(errors.New("no route")), d.Close()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "again  attempt 1 of 3 failed: exit 1 …; again in 2.0s") ||
		lines[1] != "  waiting for the log: no route …" {
		t.Errorf("printed %q", lines)
	}
}

func TestALineDisplayPrintsAReasonThatLasts(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	v := greeterView()
	v.State.Live, v.Stages[1].Groups[0].Hosts[1].Steps = 0, nil
	d := NewDisplay(Printer{Out: &b}, v, "Ctrl-C")
	for range 4 {
		if err := d.View(v); err != nil {
			t.Fatal(err)
		}
		v.Now = v.Now.Add(500 * time.Millisecond)
	}
	if got, want := b.String(), "  waiting: 1 of 1 hosts in flight\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// approvalView is a deployment whose second stage waits for an approval.
func approvalView() service.DeploymentView {
	v := greeterView()
	v.State.Live, v.Stages[1].Reason, v.Stages[1].Who = 0, "approval 0 of 1", "waybill approve notes beta --revision 88d0e17"
	return v
}

func TestALineDisplayPrintsWhatAPersonCanDo(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	v := approvalView()
	v.Stages[1].Groups = nil
	d := NewDisplay(Printer{Out: &b}, v, "Ctrl-C, then go home")
	for range 4 {
		if err := d.View(v); err != nil {
			t.Fatal(err)
		}
		v.Now = v.Now.Add(time.Second)
	}
	if got, want := b.String(), "  waiting: approval 0 of 1 (waybill approve notes beta --revision 88d0e17)\n"+
		"  to leave: Ctrl-C, then go home\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestALiveDisplayDrawsWhatAPersonCanDo(t *testing.T) {
	t.Parallel()
	p, b := terminal()
	v := approvalView()
	d := NewDisplay(p, v, "Ctrl-C, then go home")
	for range 2 {
		if err := errors.Join(d.View(v), d.Tick(time.Now())); err != nil {
			t.Fatal(err)
		}
		v.Now = v.Now.Add(time.Minute)
	}
	if got := b.String(); !strings.Contains(got, "  to continue: waybill approve notes beta --revision 88d0e17\x1b") ||
		!strings.Contains(got, "  to leave: Ctrl-C, then go home\x1b") {
		t.Errorf("drew %q", got)
	}
}

func TestAnEntryDisplayPrintsJSONLines(t *testing.T) {
	t.Parallel()
	var out, said bytes.Buffer
	d := NewDisplay(Printer{Out: &out, Err: &said, JSON: true}, greeterView(), "Ctrl-C")
	d.Known(entry(0, "greeter", pipeline.Fact, pipeline.PipelineStarted, `{}`))
	err := errors.Join(d.Entry(entry(0, "greeter", pipeline.Fact, pipeline.PipelineStarted, `{}`)), d.View(greeterView()),
		d.Tick(at(0)), d.Away(errors.New("no route")), d.Close())
	if err != nil || strings.Count(out.String(), "\n") != 1 || !strings.HasPrefix(out.String(), `{"`) ||
		said.String() != "waybill: waiting for the log: no route\n" {
		t.Errorf("%v, printed %q and %q", err, out.String(), said.String())
	}
}

func TestALiveDisplayDrawsInPlace(t *testing.T) {
	t.Parallel()
	p, b := terminal()
	d := NewDisplay(p, greeterView(), "Ctrl-C")
	if err := errors.Join(d.Entry(entry(0, "greeter", pipeline.Fact, pipeline.PipelineStarted, `{}`)),
		d.View(greeterView()), d.Tick(time.Now())); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "4 of 13 steps done") || strings.Contains(got, "\x1b[5A") || strings.Count(got, "\n") != 5 {
		t.Errorf("the first frame is %q", got)
	}
	b.Reset()
	if err := errors.Join(d.Away(errors.New("no route")), d.Tick(time.Now())); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "\x1b[5A") || !strings.Contains(got, "waiting for the log: no route") {
		t.Errorf("the second frame is %q", got)
	}
	b.Reset()
	if err := d.Close(); err != nil || strings.Contains(b.String(), "of 36 done") || !strings.Contains(b.String(), "east/gum") {
		t.Errorf("%v, the board that stays is %q", err, b.String())
	}
}

func TestAScreenKeepsHostileTextInItsLine(t *testing.T) {
	t.Parallel()
	p, b := terminal()
	if err := p.Screen.draw([]string{"one\ntwo\x1b[2J", "\x1b[31mred"}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "\x1b[?25l\rone two\x1b[K\n\x1b[31mred\x1b[0m\x1b[K\n\x1b[J\x1b[?25h"; got != want {
		t.Errorf("drew %q, want %q", got, want)
	}
	p.Screen.leave()
	b.Reset()
	if err := p.Screen.draw([]string{"next"}); err != nil || strings.Contains(b.String(), "A") {
		t.Errorf("%v, drew over what it left: %q", err, b.String())
	}
}

// play shows a build whose first step fails.
func play(v worker.View) {
	v.Begin()
	v.Status(1, build.Update{Status: build.Running, Timestamp: at(0)})
	v.Output(1, []build.Entry{{Text: []byte("FAIL")}})
	v.Artifact(1, build.Artifact{Name: "dist/greeter", Size: 1000, SHA256: "9b1e07d2aa", Kind: build.KindFile})
	v.Artifact(1, build.Artifact{Name: "out/unit.xml", Size: 1000, SHA256: "9b1e07d2aa", Kind: "junit"})
	v.Tests(1, testFiles()[:1])
	v.Status(1, build.Update{Status: build.Failed, Reason: "exit status 1", Timestamp: at(20)})
	v.End(build.Failed)
}

func TestABuildIsShownLineByLine(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	play(NewBuildView(Printer{Out: &b}, BuildHead{ID: "3", Label: "shop @ 3f9c2ab", Results: "/tmp/3",
		Log: "waybill build log 3", Plan: testPlan(), Runner: "runner docker (Engine 28.2.2)"}))
	lines := strings.Split(b.String(), "\n")
	want := []string{"runner docker (Engine 28.2.2)", "build 3   shop @ 3f9c2ab   3 steps   results: /tmp/3", "test/unit | FAIL",
		"test/unit   artifact dist/greeter  1.0 kB sha256:9b1e07d2",
		" ✗ test/unit    2.0s   Failed, exit status 1   .wharf-ci.yml:3:5", " ✗ test/unit    2.0s   Failed, exit status 1   .wharf-ci.yml:3:5",
		"   1 of 214 tests failed (out/unit.xml): shop/cart TestCheckout", "     cart_test.go:41: total = 12, want 15"}
	for i, line := range want {
		if lines[i] != line {
			t.Errorf("line %d is %q, want %q", i, lines[i], line)
		}
	}
	if last := lines[len(lines)-2]; !strings.HasPrefix(last, "build 3 Failed in ") {
		t.Errorf("the last line is %q", last)
	}
}

func TestABuildIsShownAsEvents(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	play(NewBuildView(Printer{Out: &b, JSON: true}, BuildHead{ID: "3", Results: "/tmp/3", Plan: testPlan()}))
	var kinds []string
	for line := range strings.Lines(b.String()) {
		_, rest, _ := strings.Cut(line, `"event":"`)
		kind, _, _ := strings.Cut(rest, `"`)
		kinds = append(kinds, kind)
	}
	want := []string{"build", "status", "output", "artifact", "artifact", "tests", "status", "end"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestABuildIsShownAsATree(t *testing.T) {
	t.Parallel()
	p, b := terminal()
	play(NewBuildView(p, BuildHead{ID: "3", Log: "waybill build log 3", Plan: testPlan()}))
	if got := b.String(); !strings.Contains(got, "test/unit") || !strings.Contains(got, "clean/up") ||
		!strings.Contains(got, "│") || strings.Count(got, "build 3 ") != 2 {
		t.Errorf("drew %q", got)
	}
}

func TestABuildWithoutStepsSaysWhy(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]string{"": "nothing to run: every stage wants an environment",
		"stage": "nothing to run: no stage is for the environment stage"} {
		var b bytes.Buffer
		NewBuildView(Printer{Out: &b}, BuildHead{Plan: &build.Plan{Environment: environment}}).Begin()
		if !strings.HasPrefix(b.String(), want) {
			t.Errorf("printed %q, want %q", b.String(), want)
		}
	}
}

func TestPrinterReportsAnOutputThatIsGone(t *testing.T) {
	t.Parallel()
	p := Printer{Out: gone{}, Err: gone{}}
	for name, err := range map[string]error{"lines": p.Lines("x"), "document": p.Document(1), "line": p.Line(1),
		"unknown": p.Document(func() {})} {
		if err == nil || !strings.HasPrefix(err.Error(), "write output: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// gone is an output that nothing reads.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestCountsAndTimesInWords(t *testing.T) {
	t.Parallel()
	for text, got := range map[string]string{
		"1 host": Count(1, "host"), "0 hosts": Count(0, "host"), "2 processes": Count(2, "process"),
		"just now": Ago(at(5), at(0)), "1 second ago": Ago(at(10), at(0)), "2 minutes ago": Ago(at(1200), at(0)),
		"47 hours ago": Ago(at(47*36000), at(0)), "2 days ago": Ago(at(48*36000), at(0)),
		"-": Clock(at(0), time.Time{}), "in 2m00s": In(at(0), at(1200)), "now": In(at(5), at(0)),
		"14:00:00 UTC": Clock(at(10), at(0)), "2026-02-28 14:00 UTC": Clock(at(0), at(-24*36000)),
	} {
		if got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}
