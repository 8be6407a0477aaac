package build

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// shelf returns a shelf with the ended build 1, whose step test/unit printed two lines.
func shelf(t *testing.T) buildShelf {
	t.Helper()
	root := results.RootAt(t.TempDir())
	store, err := results.Create(root.Dir("1"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	plan := &build.Plan{File: ".wharf-ci.yml", Stages: []build.PlanStage{{Name: "test"}},
		Steps: []build.PlanStep{{ID: 1, Stage: "test", Name: "unit"}, {ID: 2, Stage: "test", Name: "vet"}}}
	if err := store.Describe(results.Build{ID: "1", Plan: plan, Source: "/srv/shop", StartedAt: clitest.Noon().
		Add(-time.Minute)}); err != nil {
		t.Fatal(err)
	}
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(build.Entry{At: clitest.Noon(), Text: []byte("ok \x1b[31mshop\x1b[0m\x1b]0;title\x07")},
		build.Entry{At: clitest.Noon(), Text: []byte("PASS")}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []int{1, 2, 0} { // the end of step 0 is that of the build
		for _, status := range []build.Status{build.Running, build.Completed} {
			if _, err := store.Update(step, build.Update{Status: status, Timestamp: clitest.Noon()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return buildShelf{roots: []results.Root{root}, path: func(name string) string { return name }}
}

func TestListBuilds(t *testing.T) {
	t.Parallel()
	o := clitest.NewOutput(clitest.AsText)
	if err := runListBuilds(t.Context(), listBuildsOptions{Builds: shelf(t), Shorten: filepath.Base, Out: o.Printer,
		Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	o.Want(t, "BUILD  STATUS     STEPS  STARTED       TOOK   BRANCH  OF\n1      Completed  2      1 minute ago  1m00s  -       shop\n", "")
	for json, want := range map[bool]string{clitest.AsText: "no builds yet\n", clitest.AsJSON: "[]\n"} {
		o := clitest.NewOutput(json)
		if err := runListBuilds(t.Context(), listBuildsOptions{Out: o.Printer, Now: clitest.Noon}); err != nil {
			t.Fatal(err)
		}
		o.Want(t, want, "")
	}
}

func TestShowBuild(t *testing.T) {
	t.Parallel()
	o := clitest.NewOutput(clitest.AsText)
	if err := runShowBuild(t.Context(), showBuildOptions{Builds: shelf(t), Name: "1", Out: o.Printer, Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	if got := o.Printed.String(); !strings.HasPrefix(got, "build 1 Completed   results: ") ||
		!strings.Contains(got, " ✓ test/unit") || !strings.HasSuffix(got, "logs: waybill build log 1 [STAGE/STEP]\n") {
		t.Errorf("printed %q", got)
	}
	o = clitest.NewOutput(clitest.AsJSON)
	if err := runShowBuild(t.Context(), showBuildOptions{Builds: shelf(t), Name: "1", Out: o.Printer,
		Now: clitest.Noon}); err != nil || !strings.Contains(o.Printed.String(), `"artifacts": []`) {
		t.Errorf("%v, printed %s", err, o.Printed.String())
	}
	err := runShowBuild(t.Context(), showBuildOptions{Builds: shelf(t), Name: "9", Out: o.Printer, Now: clitest.Noon})
	clitest.WantFault(t, err, fault.NotFound, "build 9 not found on this computer", "waybill build list")
}

func TestBuildsAreFoundByFolderToo(t *testing.T) {
	t.Parallel()
	s := shelf(t)
	for _, name := range []string{"1", s.roots[0].Dir("1")} {
		if _, err := s.open(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.stepNames("1"); len(got) != 2 || got[0] != "test/unit" {
		t.Errorf("steps %q", got)
	}
	if got := s.stepNames("9"); got != nil {
		t.Errorf("a build that is not there has the steps %q", got)
	}
}

func TestBuildLog(t *testing.T) {
	t.Parallel()
	s := shelf(t)
	for name, c := range map[string]struct {
		step         string
		raw, colours bool
		want         string
	}{
		"every step": {"", false, false, "test/unit | ok shop\ntest/unit | PASS\n"},
		"one step":   {"test/unit", false, false, "ok shop\nPASS\n"},
		"terminal":   {"test/unit", false, true, "ok \x1b[31mshop\x1b[0m\nPASS\n"},
		"raw":        {"test/unit", true, false, "ok \x1b[31mshop\x1b[0m\x1b]0;title\x07\nPASS\n"},
		"quiet step": {"test/vet", false, false, ""},
	} {
		o := clitest.NewOutput(clitest.AsText)
		if err := runBuildLog(t.Context(), buildLogOptions{Builds: s, Build: "1", Step: c.step, Raw: c.raw,
			Colours: c.colours, Bytes: o.Out, Out: o.Printer}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := o.Printed.String(); got != c.want {
			t.Errorf("%s: printed %q, want %q", name, got, c.want)
		}
	}
	o := clitest.NewOutput(clitest.AsText)
	if err := runBuildLog(t.Context(), buildLogOptions{Builds: s, Build: "1", Step: "test/unti", Bytes: o.Out,
		Out: o.Printer}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a step that is not there: %v", err)
	}
}

// logServer is a server with the log of one build.
type logServer struct {
	operation.Calls
	calls []string
}

func newLogServer() *logServer {
	l := &logServer{Calls: operation.Calls{}}
	operation.Serve(l.Calls, operation.GetBuild, func(context.Context, *operation.BuildPath) (operation.BuildView, error) {
		return operation.BuildView{Plan: &build.Plan{Steps: []build.PlanStep{{ID: 1, Stage: "test", Name: "unit"},
			{ID: 2, Stage: "test", Name: "vet"}}}}, nil
	})
	operation.Serve(l.Calls, operation.ReadBuildLog, func(_ context.Context, in *operation.BuildLogInput) ([]buildview.LogEntry, error) {
		l.calls = append(l.calls, "lines "+in.ID+" "+in.Step+" "+in.After)
		if in.After != "" {
			return nil, nil
		}
		return []buildview.LogEntry{{StepID: 0, ID: 1, Message: "a note"}, {StepID: 1, ID: 1, Message: "one, ", Partial: true},
			{StepID: 1, ID: 2, Message: "two"}, {StepID: 2, ID: 1, Message: "three"}}, nil
	})
	return l
}

func (l *logServer) FollowBuild(_ context.Context, id, step string, each func(buildview.Line) error) error {
	l.calls = append(l.calls, "follow "+id+" "+step)
	for _, line := range []buildview.Line{{Step: "a/b", Text: "one, ", Partial: true}, {Step: "c/d", Text: "other"},
		{Step: "a/b", Text: "two"}} {
		if err := each(line); err != nil {
			return err
		}
	}
	return nil
}

func (l *logServer) BuildEntries(_ context.Context, in operation.BuildLogInput, _ bool, each func(build.Entry) error) error {
	l.calls = append(l.calls, "bytes "+in.ID+" "+in.Step)
	return each(build.Entry{Text: []byte("\x1b]raw"), Marks: build.Marks{Unended: true}})
}

// newSilentServer returns a server with a build that has printed nothing.
func newSilentServer(view operation.BuildView) *logServer {
	l := &logServer{Calls: operation.Calls{}}
	operation.Serve(l.Calls, operation.GetBuild, func(context.Context, *operation.BuildPath) (operation.BuildView, error) {
		return view, nil
	})
	operation.Serve(l.Calls, operation.ReadBuildLog, func(_ context.Context, in *operation.BuildLogInput) (none []buildview.LogEntry,
		err error) {
		if in.Step != "" {
			_, err = buildview.FindStep(view.Plan, in.Step)
		}
		return none, err
	})
	return l
}

// TestTheLogOfABuildThatNeverRanSaysWhy: on the standard error, with the exit status of its outcome.
func TestTheLogOfABuildThatNeverRanSaysWhy(t *testing.T) {
	t.Parallel()
	plan := &build.Plan{Steps: []build.PlanStep{{ID: 1, Stage: "test", Name: "unit"}, {ID: 2, Stage: "test", Name: "vet"}}}
	is := func(statuses ...build.Status) (updates []build.Update) {
		for _, status := range statuses {
			updates = append(updates, build.Update{Status: status, Reason: "of the " + string(status)})
		}
		return updates
	}
	for name, c := range map[string]struct {
		status  build.Status
		reason  string
		plan    *build.Plan
		updates map[int][]build.Update
		step    string
		remark  string
		code    fault.Code
		want    string
	}{
		"waits":   {status: build.Scheduling, reason: "queued, 3rd of 7", remark: "build 7: Scheduling, queued, 3rd of 7\n"},
		"skipped": {status: build.Skipped, reason: "no stage is left", remark: "build 7: Skipped, no stage is left\n"},
		"canceled": {status: build.Canceled, reason: "it had not begun", code: fault.Canceled,
			want: "build 7: Canceled, it had not begun"},
		"a step of one without any": {status: build.Canceled, reason: "it had not begun", step: "test/unit",
			code: fault.Canceled, want: "build 7: Canceled, it had not begun"},
		"another step": {status: build.Failed, plan: plan, step: "none", code: fault.NotFound, want: "none"},
		"lost": {status: build.Lost, reason: "the worker is gone", code: fault.Failed,
			want: "build 7: Lost, the worker is gone"},
		"no image": {status: build.Failed, plan: plan,
			updates: map[int][]build.Update{1: is(build.Pending, build.Scheduling, build.Failed), 2: is(build.Canceled)},
			code:    fault.Failed, want: "build 7: Failed\ntest/unit: Failed, of the Failed"},
		"a step that ran": {status: build.Failed, plan: plan,
			updates: map[int][]build.Update{1: is(build.Running, build.Failed)}, step: "test/unit"},
		"one of whose steps ran": {status: build.Failed, plan: plan, updates: map[int][]build.Update{1: is(build.Running, build.Failed)}},
		"a step that was skipped": {status: build.Failed, plan: plan,
			updates: map[int][]build.Update{2: is(build.Skipped)}, step: "vet", remark: "test/vet: Skipped, of the Skipped\n"},
		"a step that has not begun": {status: build.Running, plan: plan,
			updates: map[int][]build.Update{1: is(build.Running)}, step: "vet", remark: "build 7: Running\n"},
		"a step that never had been": {status: build.TimedOut, reason: "it took too long", plan: plan, step: "vet",
			code: fault.Failed, want: "build 7: TimedOut, it took too long"},
	} {
		o := clitest.NewOutput(clitest.AsText)
		view := operation.BuildView{Plan: &build.Plan{}, Done: c.updates}
		if c.plan != nil {
			view.Plan = c.plan
		}
		view.Status, view.Reason = c.status, c.reason
		err := runBuildLog(t.Context(), buildLogOptions{Server: newSilentServer(view), Build: "7", Step: c.step, Bytes: o.Out, Out: o.Printer})
		if fault.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		o.Want(t, "", c.remark)
	}
}

func TestBuildLogOfAServer(t *testing.T) {
	t.Parallel()
	l, o := newLogServer(), clitest.NewOutput(clitest.AsText)
	if err := runBuildLog(t.Context(), buildLogOptions{Server: l, Build: "7", Bytes: o.Out, Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	o.Want(t, "test/unit | one, two\ntest/vet | three\n", "")
	o = clitest.NewOutput(clitest.AsText)
	if err := runBuildLog(t.Context(), buildLogOptions{Server: l, Build: "7", Follow: true, Bytes: o.Out, Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	o.Want(t, "c/d | other\na/b | one, two\n", "")
	o = clitest.NewOutput(clitest.AsText)
	if err := runBuildLog(t.Context(), buildLogOptions{Server: l, Build: "7", Step: "test/unit", Raw: true, Bytes: o.Out,
		Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	o.Want(t, "\x1b]raw", "")
	if got := strings.Join(l.calls, ", "); got != "lines 7  , lines 7  2:1, follow 7 , bytes 7 test/unit" {
		t.Errorf("calls %q", got)
	}
}

func TestALongLineIsPrintedInPieces(t *testing.T) {
	t.Parallel()
	o := clitest.NewOutput(clitest.AsText)
	p := logPrinter{out: o.Printer, bytes: o.Out, visible: func(text []byte) string { return string(text) }, named: true}
	piece := strings.Repeat("x", pieceSize)
	for _, line := range []buildview.Line{{Step: "a/b", Text: piece, Partial: true}, {Step: "a/b", Text: "end"},
		{Step: "a/b", Text: "next"}, {Step: "c/\x1b[2J\u202ed\n", Text: "of a folder that others have written"}} {
		if err := p.print(line); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := o.Printed.String(), "a/b | "+piece+"end\na/b | next\nc/d | of a folder that others have written\n"; got != want {
		t.Errorf("printed %d bytes, want %d: the name is printed once before a line", len(got), len(want))
	}
}

// TestALineIsShownWhileItGrows on a terminal, also when its step replaces it.
func TestALineIsShownWhileItGrows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []buildview.Line
		want  string
	}{
		"a prompt": {[]buildview.Line{{Step: "a/b", Text: "Password: ", Partial: true}, {Step: "a/b", Text: "thanks"},
			{Step: "a/b", Text: "next"}}, "a/b | Password: thanks\na/b | next\n"},
		"progress": {[]buildview.Line{{Step: "a/b", Text: "1%\r2%", Partial: true},
			{Step: "a/b", Text: "\r3%", Partial: true}, {Step: "a/b", Text: "\rdone"}}, "a/b | 2%\r\x1b[Ka/b | 3%\r\x1b[Ka/b | done\n"},
		"another between": {[]buildview.Line{{Step: "a/b", Text: "1", Partial: true}, {Step: "c/d", Text: "x"},
			{Step: "a/b", Text: "2", Partial: true}, {Step: "a/b", Text: "3"}}, "a/b | 1\nc/d | x\na/b | 12" + "3\n"},
	} {
		o := clitest.NewOutput(clitest.AsText)
		p := logPrinter{out: o.Printer, bytes: o.Out, visible: show.LogText(true), named: true, live: true}
		for _, line := range c.lines {
			if err := p.print(line); err != nil {
				t.Fatal(err)
			}
		}
		if got := o.Printed.String(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestRefuseElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags  assembly.Flags
		served bool
		flag   string
	}{
		{assembly.Flags{}, false, ""},
		{assembly.Flags{Server: "http://x"}, false, "--server"},
		{assembly.Flags{Server: "http://x"}, true, ""},
		{assembly.Flags{Store: "postgres://x"}, true, "--store"},
	} {
		err := refuseElsewhere(c.flags, "builds are read here", c.served)
		if c.flag == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.flags, err)
			}
			continue
		}
		clitest.WantFault(t, err, fault.Invalid, c.flag+" has no effect here: builds are read here",
			"run the command there, or leave "+c.flag+" out")
	}
}

func TestOutcomeOfABuild(t *testing.T) {
	t.Parallel()
	for status, want := range map[build.Status]fault.Code{build.Completed: "", build.Skipped: "",
		build.Canceled: fault.Canceled, build.Failed: fault.Failed, build.TimedOut: fault.Failed} {
		if err := outcomeOf("7", status); fault.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", status, err, want)
		}
	}
}

// TestAServersBuildsLookLikeOnesOwn compares the views of the same builds through a server and without.
func TestAServersBuildsLookLikeOnesOwn(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	b := servertest.NewBuild(t, w.Builds, "7", servertest.BuildPlan("lint/vet", "test/unit"))
	b.Status(0, build.Running, "")
	b.Run(1, build.Completed, "vet is happy")
	b.Status(2, build.Running, "")
	b.Print(2, "one \x1b[31mred\x1b[0m", "two")
	b.Artifact(2, "out.txt", "x")
	b.Tests(2, testresult.Result{Suite: "cart", Name: "Sum", Outcome: testresult.Failed, Message: "got 12", File: "cart_test.go", Line: 41})
	b.Status(2, build.Failed, "exit status 1")
	b.Status(0, build.Failed, "test/unit failed")
	b.Kill()
	api := httptest.NewServer(server.New(w.Service, server.Options{Token: "wb_home"}).Handler())
	defer api.Close()
	client := client.New(api.URL, "wb_home", "ana")
	shelf := buildShelf{roots: []results.Root{results.RootAt(w.Builds)}, path: func(name string) string { return name }}
	whole := func(path string) string { return path }
	for _, json := range []bool{clitest.AsText, clitest.AsJSON} {
		for name, run := range map[string]func(o *clitest.Output, remote bool) error{
			"list": func(o *clitest.Output, remote bool) error {
				options := listBuildsOptions{Builds: shelf, Shorten: whole, Out: o.Printer, Now: clitest.Noon}
				if remote {
					options.Server = client
				}
				return runListBuilds(t.Context(), options)
			},
			"show": func(o *clitest.Output, remote bool) error {
				options := showBuildOptions{Builds: shelf, Name: "7", Out: o.Printer, Now: clitest.Noon}
				if remote {
					options.Server = client
				}
				return runShowBuild(t.Context(), options)
			},
			"log": func(o *clitest.Output, remote bool) error {
				options := buildLogOptions{Builds: shelf, Build: "7", Follow: true, Bytes: o.Out, Out: o.Printer}
				if remote {
					options.Server = client
				}
				return runBuildLog(t.Context(), options)
			},
			"log of a step": func(o *clitest.Output, remote bool) error {
				options := buildLogOptions{Builds: shelf, Build: "7", Step: "test/unit", Follow: true, Bytes: o.Out, Out: o.Printer}
				if remote {
					options.Server = client
				}
				return runBuildLog(t.Context(), options)
			},
		} {
			here, there := clitest.NewOutput(json), clitest.NewOutput(json)
			if err := errors.Join(run(here, false), run(there, true)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if diff := cmp.Diff(here.Printed.String(), there.Printed.String()); diff != "" || here.Printed.Len() == 0 {
				t.Errorf("%s, JSON %v (-here +server):\n%s", name, json, diff)
			}
		}
	}
}

// silentBuilds is a server on which no build ends.
type silentBuilds struct{ *logServer }

func (silentBuilds) FollowBuild(ctx context.Context, _, _ string, _ func(buildview.Line) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestFollowingABuildEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		o := clitest.NewOutput(clitest.AsText)
		err := cmdline.Within(t.Context(), time.Hour, func(ctx context.Context) error {
			return runBuildLog(ctx, buildLogOptions{Server: silentBuilds{newLogServer()}, Address: "https://waybill.example.org",
				Build: "7", Follow: true, Bytes: o.Out, Out: o.Printer})
		})
		clitest.WantFault(t, err, fault.TimedOut, "build 7 has not ended: the limit of --timeout 1h0m0s has passed; it continues",
			"waybill build log 7 --follow --server https://waybill.example.org")
		if cmdline.ExitStatus(err) != fault.ExitTimedOut {
			t.Errorf("exit status %d", cmdline.ExitStatus(err))
		}
	})
}
