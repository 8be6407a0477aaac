package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/workspace"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// TestMain makes this binary the supervisor of the steps that it runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "supervise" {
		grace, err := time.ParseDuration(os.Args[2])
		if err != nil {
			panic(err)
		}
		code, err := command.Supervise(os.Args[3:], grace)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 97
		}
		os.Exit(code)
	}
	if dir := os.Getenv("WAYBILL_TEST_WORKER"); dir != "" {
		workToBeKilled(dir)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// setup is one build in a folder of its own.
type setup struct {
	t        *testing.T
	dir      string // the folder that is built
	results  string
	scratch  string
	logLimit int64
	timeout  time.Duration
	inputs   map[string]string
	source   worker.Workspace
	watch    *watch
}

func fresh(t *testing.T) *setup {
	t.Helper()
	root := t.TempDir()
	s := &setup{t: t, dir: filepath.Join(root, "src"), results: filepath.Join(root, "results"), scratch: filepath.Join(root, "scratch"), watch: &watch{}}
	if err := errors.Join(os.Mkdir(s.dir, 0o755), os.Mkdir(s.scratch, 0o755)); err != nil {
		t.Fatal(err)
	}
	s.write("hello.txt", "hello\n")
	s.source = worker.Folder{Root: s.dir}
	return s
}

func (s *setup) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// watch remembers what an observer receives.
type watch struct {
	mu      sync.Mutex
	printed strings.Builder
	remarks []string
	on      func(printed string)
}

func (w *watch) Status(int, results.Update)     {}
func (w *watch) Artifact(int, results.Artifact) {}
func (w *watch) Tests(int, []results.TestFile)  {}
func (w *watch) Remark(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remarks = append(w.remarks, text)
}
func (w *watch) Output(_ int, entries []build.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		w.printed.Write(e.Text)
		w.printed.WriteByte('\n')
	}
	if w.on != nil {
		w.on(w.printed.String())
	}
}

// run builds a .wharf-ci.yml.
func (s *setup) run(ctx context.Context, file string) (build.Status, *results.Reader) {
	s.t.Helper()
	node, problems := yamltree.Parse("f", []byte(file), yamltree.BuildFile)
	if problems.Err() != nil {
		s.t.Fatal(problems)
	}
	parsed, problems := build.Parse(node)
	if problems.Err() != nil {
		s.t.Fatal(problems)
	}
	plan, problems := build.MakePlan(parsed, build.Choice{Timeout: s.timeout, Inputs: s.inputs})
	if problems.Err() != nil {
		s.t.Fatal(problems)
	}
	store, err := results.Create(s.results, s.logLimit)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := store.Describe(results.Build{ID: "7", Plan: plan}); err != nil {
		s.t.Fatal(err)
	}
	runner := &command.Runner{Supervisor: []string{os.Args[0], "supervise", "300ms"}, Grace: 300 * time.Millisecond}
	if problems := runner.Check(ctx, plan.Steps); problems.Err() != nil {
		s.t.Fatal(problems)
	}
	result, err := worker.New(worker.Config{ID: "7", Plan: plan, Workspace: s.source, Runner: runner, Store: store,
		Observer: s.watch, Scratch: s.scratch}).Run(ctx)
	if err := errors.Join(err, store.Close()); err != nil {
		s.t.Fatal(err)
	}
	r, err := results.Open(s.results)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := r.Verify(); err != nil {
		s.t.Error(err)
	}
	return result, r
}

// steps lists how each step ended: a Completed, b Failed (exit status 3).
func steps(t *testing.T, r *results.Reader) []string {
	t.Helper()
	b, err := r.Build()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, step := range b.Plan.Steps {
		last, err := r.Last(step.ID)
		if err != nil {
			t.Fatal(err)
		}
		text := step.Name + " " + string(last.Status)
		if last.Reason != "" {
			text += " (" + last.Reason + ")"
		}
		out = append(out, text)
	}
	return out
}

// printed returns what a step printed on one stream, byte for byte.
func printed(t *testing.T, r *results.Reader, step int, stderr bool) []byte {
	t.Helper()
	var out bytes.Buffer
	err := r.Log(t.Context(), step, 0, false, func(_ int64, e build.Entry) error {
		if e.Stderr == stderr && !e.Waybill {
			out.Write(e.Text)
			if !e.Partial {
				out.WriteByte('\n')
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// script returns a file with one stage of steps, each a shell command.
func script(steps ...string) string {
	out := "s:\n"
	for i := 0; i < len(steps); i += 2 {
		out += fmt.Sprintf("  %s: {container: {image: none, cmds: [%q]}}\n", steps[i], steps[i+1])
	}
	return out
}

func TestBuildsEndAsTheirStepsDo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file string
		want build.Status
		each []string
	}{
		"completed": {script("a", "true", "b", "test $(cat hello.txt) = hello"), build.Completed, []string{"a Completed", "b Completed"}},
		"failed":    {script("a", "exit 3"), build.Failed, []string{"a Failed (exit status 3)"}},
		"the other step is ended": {script("a", "exit 3", "b", "exec sleep 60"), build.Failed,
			[]string{"a Failed (exit status 3)", "b Canceled (s/a failed)"}},
		"killed by a signal": {script("a", "kill -9 $$"), build.Failed, []string{"a Failed (exit status 137)"}},
		"stages":             {script("a", "exit 1") + "t: {b: {container: {image: i, cmds: [x]}}}\nu: {runs-if: fail, c: {container: {image: i, cmds: ['true']}}}\n", build.Failed, []string{"a Failed (exit status 1)", "b Skipped (s/a failed)", "c Completed"}},
		"too long":           {"s: {a: {timeout: 100ms, container: {image: i, cmds: [exec sleep 60]}}}", build.Failed, []string{"a TimedOut (it took longer than 100ms)"}},
		"another attempt":    {"s: {a: {retry: {attempts: 3, backoff: 10ms}, container: {image: i, cmds: ['echo $WAYBILL_ATTEMPT; test $WAYBILL_ATTEMPT = 3']}}}", build.Completed, []string{"a Completed"}},
		"no more attempts":   {"s: {a: {retry: {attempts: 2, backoff: 10ms}, container: {image: i, cmds: [exit 4]}}}", build.Failed, []string{"a Failed (exit status 4)"}},
		"another fault":      {"s: {a: {retry: {attempts: 2, on: [timeout], backoff: 1h}, container: {image: i, cmds: [exit 4]}}}", build.Failed, []string{"a Failed (exit status 4)"}},
		"an attempt too long": {"s: {a: {timeout: 3s, retry: {attempts: 2, on: [timeout], backoff: 10ms}, container: {image: i, cmds: ['test $WAYBILL_ATTEMPT = 2 || exec sleep 60']}}}", build.Completed,
			[]string{"a Completed"}},
		"needs": {"s: {a: {container: {image: i, cmds: [exit 3]}}, fail-fast: false}\nt: {b: {needs: [], container: {image: i, cmds: ['true']}}, c: {needs: [b], container: {image: i, cmds: ['true']}}}", build.Failed,
			[]string{"a Failed (exit status 3)", "b Completed", "c Completed"}},
		"nothing": {"environments: {e: {}}\ns: {environments: [e], a: {container: {image: i, cmds: [x]}}}", build.Skipped, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, r := fresh(t).run(t.Context(), test.file)
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if diff := cmp.Diff(test.each, steps(t, r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBytesInAreBytesOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, "line %d\n", i)
	}
	for name, text := range map[string]string{
		"long line": long + "\n", "16385 bytes": long[:16385] + "\n", "32 KiB": long[:32<<10] + "\n", "nothing": "",
		"NUL and no UTF-8": "a\x00b\xff\xfe\n", "lone returns": "10 %\r20 %\r\n", "empty lines": "\n\n\n",
		"marks": "\x1fe\x1fnot stderr\n\x1f\n", "many": many.String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			s.write("text", text)
			_, r := s.run(t.Context(), script("a", "cat text; cat text >&2"))
			want := strings.ReplaceAll(text, "\r\n", "\n")
			for _, stderr := range []bool{false, true} {
				if got := printed(t, r, 1, stderr); string(got) != want {
					t.Errorf("stderr %t: %d bytes came back as %d", stderr, len(want), len(got))
				}
			}
		})
	}
}

func TestALastLineWithoutNewlineIsAnEntry(t *testing.T) {
	t.Parallel()
	_, r := fresh(t).run(t.Context(), script("a", "printf 'one\\ntwo'"))
	if got := string(printed(t, r, 1, false)); got != "one\ntwo\n" {
		t.Errorf("%q", got)
	}
}

func TestEveryStepHasItsOwnCopy(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	file := script("a", "echo changed > hello.txt; echo new > new.txt") +
		"t: {b: {container: {image: i, cmds: ['cat hello.txt; test ! -e new.txt && test \"$PWD\" = \"$WAYBILL_WORKSPACE\" && echo $CI $WAYBILL_STAGE/$WAYBILL_STEP $WAYBILL_BUILD_ID']}}}"
	got, r := s.run(t.Context(), file)
	if got != build.Completed {
		t.Errorf("%s: %v", got, steps(t, r))
	}
	if got, want := string(printed(t, r, 2, false)), "hello\ntrue t/b 7\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if text, _ := os.ReadFile(filepath.Join(s.dir, "hello.txt")); string(text) != "hello\n" {
		t.Error("a step changed the folder that is built")
	}
	if left, _ := filepath.Glob(filepath.Join(s.scratch, "[0-9]*")); left != nil {
		t.Errorf("copies are left: %v", left)
	}
}

func TestStepsDoNotSeeOtherVariables(t *testing.T) {
	t.Setenv("WAYBILL_TEST_SECRET", "hidden")
	_, r := fresh(t).run(t.Context(), script("a", "env"))
	if out := printed(t, r, 1, false); bytes.Contains(out, []byte("hidden")) {
		t.Errorf("a variable of the worker reached the step:\n%s", out)
	}
}

func TestArtifactsAreKeptByTheirRules(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	file := `s:
  a:
    artifacts: ["out/**", {path: "*.txt", archive: true, name: texts.tgz}, {path: "none*"}, {path: "out/deep/*"}, {path: x, when: fail}]
    container: {image: i, cmds: ["mkdir -p out/deep; echo 1 > out/one; echo 2 > out/deep/two; ln -s /etc/passwd out/link; ln -s one out/inner; echo x > x"]}
  b:
    artifacts: [{path: x, when: fail}, {path: "*.txt"}]
    container: {image: i, cmds: ["echo x > x; exit 1"]}
  fail-fast: false
`
	_, r := s.run(t.Context(), file)
	artifacts, err := r.Artifacts()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range artifacts {
		got = append(got, fmt.Sprintf("%d %s %s", a.Step, a.Name, a.Kind))
	}
	want := []string{"1 out/deep/two file", "1 out/inner file", "1 out/one file", "1 texts.tgz archive", "2 x file"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"artifacts: none* matches no file", "artifacts: an earlier rule keeps all files that match out/deep/*"}, notes(t, r, 1)); diff != "" {
		t.Error(diff)
	}
}

// TestNeededArtifactsAreInTheWorkspace: a step gets the artifacts of the steps that it needs, at their paths and fit to run, in place of
// files of the workspace.
func TestNeededArtifactsAreInTheWorkspace(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	file := `s:
  a:
    artifacts: [hello.txt, bin/*, {path: "lib/**", archive: true}]
    container: {image: i, cmds: ["mkdir -p bin lib/deep; echo made > hello.txt; printf '#!/bin/sh\necho run' > bin/tool; chmod +x bin/tool; echo 1 > lib/deep/one; echo x > other"]}
t:
  b:
    needs: [a]
    container: {image: i, cmds: ["set -e; cat hello.txt; bin/tool; cat lib/deep/one; test ! -x hello.txt; test ! -e other"]}
  c:
    container: {image: i, cmds: ["cat hello.txt; test ! -e bin"]}
`
	got, r := s.run(t.Context(), file)
	if got != build.Completed {
		t.Errorf("%s: %v", got, steps(t, r))
	}
	for step, want := range map[int]string{2: "made\nrun\n1\n", 3: "hello\n"} {
		if got := string(printed(t, r, step, false)); got != want {
			t.Errorf("step %d printed %q, want %q", step, got, want)
		}
	}
}

// TestArtifactsOfTheLastAttemptAreKept: a file that an attempt left is not listed when another attempt follows.
func TestArtifactsOfTheLastAttemptAreKept(t *testing.T) {
	t.Parallel()
	_, r := fresh(t).run(t.Context(), `s:
  a:
    retry: {attempts: 3, backoff: 10ms}
    artifacts: [{path: "report*", when: always}]
    container: {image: i, cmds: ["echo $WAYBILL_ATTEMPT > report-$WAYBILL_ATTEMPT; exit 1"]}
`)
	artifacts, err := r.Artifacts()
	if err != nil || len(artifacts) != 1 || artifacts[0].Name != "report-3" {
		t.Errorf("%v, %v; want report-3 alone", artifacts, err)
	}
	var notes []string
	_ = r.Log(t.Context(), 1, 0, false, func(_ int64, e build.Entry) error {
		if e.Waybill {
			notes = append(notes, string(e.Text))
		}
		return nil
	})
	want := []string{"exit status 1; attempt 2 of 3 begins in 10ms", "exit status 1; attempt 3 of 3 begins in 20ms"}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Error(diff)
	}
}

func TestCancelEndsStepsAndStartsNothing(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.watch.on = func(printed string) {
		if strings.Contains(printed, "ready") {
			cancel()
		}
	}
	file := script("a", `trap "echo ending; exit 0" TERM; echo ready; while :; do sleep 0.05; done`) +
		"t: {runs-if: always, b: {container: {image: i, cmds: [x]}}}"
	got, r := s.run(ctx, file)
	if got != build.Canceled {
		t.Errorf("%s, want Canceled", got)
	}
	want := []string{"a Canceled (the build was canceled)", "b Canceled (the build was canceled)"}
	if diff := cmp.Diff(want, steps(t, r)); diff != "" {
		t.Error(diff)
	}
	if got := string(printed(t, r, 1, false)); got != "ready\nending\n" {
		t.Errorf("the step printed %q: it must get SIGTERM first", got)
	}
}

func TestAStepThatIgnoresSIGTERMIsKilled(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.timeout = 400 * time.Millisecond
	got, r := s.run(t.Context(), script("a", `trap "" TERM; while :; do sleep 0.05; done`))
	if got != build.TimedOut {
		t.Errorf("%s, want TimedOut: %v", got, steps(t, r))
	}
}

func TestALogThatGrowsTooLargeFailsItsStep(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.logLimit = 1 << 20
	got, r := s.run(t.Context(), script("a", "yes"))
	if got != build.Failed || !strings.Contains(steps(t, r)[0], "LogLimit") {
		t.Errorf("%s: %v", got, steps(t, r))
	}
}

func TestAWorkspaceThatCannotBeTakenFailsTheBuild(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.source = worker.Snapshot{Path: filepath.Join(s.dir, "missing.tar.zst")}
	got, r := s.run(t.Context(), script("a", "true"))
	if got != build.Failed || !strings.Contains(steps(t, r)[0], "Skipped (take the workspace") {
		t.Errorf("%s: %v", got, steps(t, r))
	}
}

func TestASnapshotIsBuilt(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	path := filepath.Join(t.TempDir(), "w.tar.zst")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	digest, _, err := workspace.Pack(t.Context(), f, s.dir, []string{"hello.txt"})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	s.source = worker.Snapshot{Path: path, Digest: digest}
	if got, r := s.run(t.Context(), script("a", "test $(cat hello.txt) = hello")); got != build.Completed {
		t.Errorf("%s: %v", got, steps(t, r))
	}
}

// sender is a runner that sends the snapshot elsewhere.
type sender struct {
	*command.Runner
	got build.Snapshot
}

func (s *sender) Run(_ context.Context, run build.Run, sink build.Sink) (build.Exit, error) {
	s.got = run.Snapshot
	return build.Exit{}, errors.Join(sink.Phase(build.Initializing), sink.Phase(build.Running))
}

// keeper is a runner that keeps an artifact of which a part is read after the attempt was ended.
type keeper struct {
	*command.Runner
	cancel context.CancelFunc
	late   bool // the keeping begins after the end
	kept   error
}

func (k *keeper) Run(ctx context.Context, _ build.Run, sink build.Sink) (build.Exit, error) {
	if err := errors.Join(sink.Phase(build.Initializing), sink.Phase(build.Running)); err != nil {
		return build.Exit{}, err
	}
	end := func() { k.cancel(); <-ctx.Done() }
	if k.late {
		end()
		end = func() {}
	}
	k.kept = sink.Artifact("large", results.KindFile, false, io.MultiReader(strings.NewReader("begin"), readerFunc(func([]byte) (int, error) { end(); return 0, nil }), strings.NewReader("end")))
	return build.Exit{}, k.kept
}

// readerFunc is a reader that reads once and ends.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) {
	_, _ = f(p)
	return 0, io.EOF
}

func TestACancelEndsTheKeepingOfAnArtifact(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		s := fresh(t)
		plan := &build.Plan{Timeout: time.Hour, Stages: []build.PlanStage{{Name: "s", RunsIf: build.Success, Steps: []int{1}}},
			Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a"}}, MaxParallel: 1}
		store, err := results.Create(s.results, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Describe(results.Build{ID: "7", Plan: plan}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		runner := &keeper{cancel: cancel, late: late}
		got, err := worker.New(worker.Config{ID: "7", Plan: plan, Workspace: s.source, Runner: runner, Store: store, Observer: s.watch, Scratch: s.scratch}).Run(ctx)
		if err := errors.Join(err, store.Close()); err != nil || got != build.Canceled {
			t.Errorf("late %t: %s, %v; want it canceled", late, got, err)
		}
		if kept := runner.kept == nil; kept != late {
			t.Errorf("late %t: keeping the artifact ended with %v", late, runner.kept)
		}
	}
}

// silent is a runner that reports no phase, so that the end of its step cannot be recorded.
type silent struct{ *command.Runner }

func (silent) Run(context.Context, build.Run, build.Sink) (build.Exit, error) {
	return build.Exit{}, nil
}

func TestAnEndThatCannotBeRecordedEndsTheWorker(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	plan := &build.Plan{Timeout: time.Hour, Stages: []build.PlanStage{{Name: "s", RunsIf: build.Success, Steps: []int{1}}},
		Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a"}}, MaxParallel: 1}
	store, err := results.Create(s.results, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = worker.New(worker.Config{ID: "7", Plan: plan, Workspace: s.source, Runner: silent{}, Store: store, Observer: s.watch, Scratch: s.scratch}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Scheduling cannot become Completed") {
		t.Errorf("%v, want that the end was not recorded", err)
	}
}

func TestTheWorkspaceIsPackedIntoTheResults(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	plan := &build.Plan{Timeout: time.Hour, Stages: []build.PlanStage{{Name: "s", RunsIf: build.Success, Steps: []int{1}}},
		Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a"}}, MaxParallel: 1}
	store, err := results.Create(s.results, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Describe(results.Build{ID: "7", Plan: plan}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(s.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	runner := &sender{}
	got, err := worker.New(worker.Config{ID: "7", Plan: plan, Workspace: worker.Taken{}, Packer: worker.Folder{Root: s.dir}, Runner: runner,
		Store: store, Observer: s.watch, Scratch: s.scratch}).Run(t.Context())
	if err := errors.Join(err, store.Close()); err != nil || got != build.Completed {
		t.Fatal(got, err)
	}
	r, _ := results.Open(s.results)
	b, err := r.Build()
	if err != nil || b.ID != "7" || len(b.Workspace) != 64 || b.Workspace != runner.got.SHA256 {
		t.Errorf("%q %q %v, want the digest that the runner got, %q", b.ID, b.Workspace, err, runner.got.SHA256)
	}
	if _, err := (worker.Snapshot{Path: runner.got.Path, Digest: b.Workspace}).Take(t.Context(), filepath.Join(t.TempDir(), "tree")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"pipe is left out: it is a pipe"}, s.watch.remarks); diff != "" {
		t.Error(diff)
	}
}

// brokenRunner has a bug.
type brokenRunner struct{ *command.Runner }

func (brokenRunner) Run(context.Context, build.Run, build.Sink) (build.Exit, error) { panic("oops") }

func TestABugInTheRunnerFailsTheStep(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	plan := &build.Plan{Timeout: time.Hour, Stages: []build.PlanStage{{Name: "s", RunsIf: build.Success, Steps: []int{1}}},
		Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a"}}}
	store, err := results.Create(s.results, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	got, err := worker.New(worker.Config{ID: "7", Plan: plan, Workspace: s.source, Runner: brokenRunner{}, Store: store,
		Observer: s.watch, Scratch: s.scratch}).Run(t.Context())
	if got != build.Failed || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// printer is a runner whose steps print one line.
type printer struct {
	*command.Runner
	at time.Time
}

func (p printer) Run(_ context.Context, _ build.Run, sink build.Sink) (build.Exit, error) {
	return build.Exit{}, errors.Join(sink.Phase(build.Initializing), sink.Phase(build.Running), sink.Output(false, []build.Frame{{Text: []byte("line"), At: p.at}}))
}

// TestARunnerKnowsWhenALineWasPrinted better than the log, which may get it later.
func TestARunnerKnowsWhenALineWasPrinted(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	plan := &build.Plan{Timeout: time.Hour, Stages: []build.PlanStage{{Name: "s", RunsIf: build.Success, Steps: []int{1}}},
		Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a"}}}
	store, err := results.Create(s.results, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Hour)
	_, err = worker.New(worker.Config{ID: "7", Plan: plan, Workspace: s.source, Runner: printer{at: at}, Store: store, Observer: s.watch, Scratch: s.scratch}).Run(t.Context())
	if err := errors.Join(err, store.Describe(results.Build{ID: "7", Plan: plan}), store.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := results.Open(s.results)
	if err != nil {
		t.Fatal(err)
	}
	entries, _, err := r.Tail(1, 1)
	if err != nil || len(entries) != 1 || !entries[0].At.Equal(at) {
		t.Errorf("got %v, %v, want a line of %s", entries, err, at)
	}
}

// answers is a runner all of whose attempts end in one way.
type answers struct {
	*command.Runner
	exit build.Exit
	err  error
}

func (a answers) Run(context.Context, build.Run, build.Sink) (build.Exit, error) {
	return a.exit, a.err
}

// TestWhoseFaultAnEndIs: only a fault of what a step runs on is attempted again when that is what retry asks for.
func TestWhoseFaultAnEndIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runner answers
		want   string
	}{
		"status": {answers{exit: build.Exit{Code: 137, Reason: "OOMKilled"}}, "a Failed (exit status 137: OOMKilled) attempt 1"},
		"step":   {answers{err: fmt.Errorf("begin: %w", &build.StepError{Text: "image not found"})}, "a Failed (begin: image not found) attempt 1"},
		"engine": {answers{err: errors.New("the Engine is away")}, "a Failed (the Engine is away) attempt 2"},
	} {
		s := fresh(t)
		plan := &build.Plan{Timeout: time.Hour, Stages: []build.PlanStage{{Name: "s", RunsIf: build.Success, Steps: []int{1}}},
			Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a", Retry: &build.Retry{Attempts: 2, On: []build.Fault{build.Infrastructure}, Backoff: 1}}}}
		store, err := results.Create(s.results, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = worker.New(worker.Config{ID: "7", Plan: plan, Workspace: s.source, Runner: c.runner, Store: store, Observer: s.watch, Scratch: s.scratch}).Run(t.Context())
		if err := errors.Join(err, store.Describe(results.Build{ID: "7", Plan: plan}), store.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := results.Open(s.results)
		if err != nil {
			t.Fatal(err)
		}
		last, err := r.Last(1)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s attempt %d", steps(t, r)[0], last.Attempt); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// notes lists what Waybill itself has written into the log of a step.
func notes(t *testing.T, r *results.Reader, step int) (texts []string) {
	t.Helper()
	err := r.Log(t.Context(), step, 0, false, func(_ int64, e build.Entry) error {
		if e.Waybill {
			texts = append(texts, string(e.Text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func TestTestResultsAreReadWhateverTheStepCameTo(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.write("old.xml", `<testsuite><testcase name="of another build"/></testsuite>`)
	file := `s:
  fail-fast: false
  a:
    test-results: {junit: ["out/*.xml", old.xml, none.xml], trx: ["**/*.trx"], required: true}
    artifacts: [{path: out/a.xml, when: always}]
    container: {image: i, cmds: ["mkdir out; echo '<testsuite><testcase name=\"one\"><failure message=\"no\">'$PWD'/a.js:3:4</failure></testcase></testsuite>' > out/a.xml; printf '<testsuite>\n<x' > out/b.xml; echo '<TestRun><Results><UnitTestResult testName=\"t\" outcome=\"Passed\"/></Results></TestRun>' > c.trx; exit 1"]}
  b:
    test-results: {junit: [b.xml]}
    container: {image: i, cmds: ["echo '<testsuite><testcase name=\"one\"><failure/></testcase></testsuite>' > b.xml"]}
`
	status, r := s.run(t.Context(), file)
	if last, err := r.Last(2); err != nil || last.Status != build.Completed || status != build.Failed {
		t.Errorf("failed tests changed the result of a step: %s, %v", last.Status, err)
	}
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	tests, err := r.Tests()
	if err != nil {
		t.Fatal(err)
	}
	artifacts, err := r.Artifacts()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[int]string{}
	for _, a := range artifacts {
		kinds[a.ID] = a.Name + " " + a.Kind
	}
	var got []string
	for _, f := range tests {
		line := fmt.Sprintf("%d %s: %d tests, %d failed, kept as %s", f.Step, f.Name, f.Tests, f.Failed, kinds[f.Artifact])
		for _, result := range f.Results {
			line += fmt.Sprintf("; %s %s %s:%d", result.Title(), result.Outcome, result.File, result.Line)
		}
		got = append(got, line)
	}
	want := []string{
		"1 c.trx: 1 tests, 0 failed, kept as c.trx trx; t passed :0",
		"1 out/a.xml: 1 tests, 1 failed, kept as out/a.xml file; one failed a.js:3",
		"1 out/b.xml: 0 tests, 0 failed, kept as out/b.xml junit",
		"2 b.xml: 1 tests, 1 failed, kept as b.xml junit; one failed :0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantNotes := []string{"test-results: none.xml matches no file", "test-results: files that the step has not written are not read: 1",
		"warning: test-results: out/b.xml:2: unexpected EOF"}
	if diff := cmp.Diff(wantNotes, notes(t, r, 1)); diff != "" {
		t.Error(diff)
	}
	if len(artifacts) != 4 {
		t.Errorf("%d artifacts, want 4: one that is kept by two rules is stored once", len(artifacts))
	}
}

func TestRequiredTestResults(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.write("old.xml", `<testsuite/>`)
	const rules = `test-results: {junit: ["*.xml"], required: true}`
	file := `s:
  fail-fast: false
  written: {` + rules + `, container: {image: i, cmds: ["echo nonsense > new.xml"]}}
  missing: {` + rules + `, artifacts: [{path: x, when: fail}], container: {image: i, cmds: ["echo > x"]}}
  failed: {` + rules + `, container: {image: i, cmds: [exit 3]}}
  optional: {test-results: {junit: ["*.xml"]}, container: {image: i, cmds: ["true"]}}
`
	_, r := s.run(t.Context(), file)
	var got []string
	for step := 1; step <= 4; step++ {
		last, err := r.Last(step)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(last.Status)+": "+last.Reason)
	}
	want := []string{"Completed: ", "Failed: test results are required, and the step has written no file that matches *.xml", "Failed: exit status 3", "Completed: "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	artifacts, err := r.Artifacts()
	if err != nil || len(artifacts) != 2 || artifacts[1].Name != "x" {
		t.Errorf("%v, kept %v, want also x: the step has failed", err, artifacts)
	}
}

func TestTestResultsOfAStepThatWasEnded(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	file := `s:
  a:
    timeout: 500ms
    test-results: {junit: [a.xml], required: true}
    container: {image: i, cmds: ["echo '<testsuite><testcase name=\"one\"/></testsuite>' > a.xml; exec sleep 100"]}
`
	_, r := s.run(t.Context(), file)
	last, err := r.Last(1)
	tests, errTests := r.Tests()
	if err := errors.Join(err, errTests); err != nil || last.Status != build.TimedOut || len(tests) != 1 || tests[0].Tests != 1 {
		t.Errorf("%v, %s, tests %+v", err, last.Status, tests)
	}
}
