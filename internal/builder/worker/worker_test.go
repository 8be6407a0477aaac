package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// TestMain makes this binary the supervisor of the steps that it runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		if err := command.Supervise(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(97)
		}
		os.Exit(0)
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
	grace    time.Duration // between SIGTERM and SIGKILL
	inputs   map[string]string
	source   worker.Workspace
	watch    *watch
}

func fresh(t *testing.T) *setup {
	t.Helper()
	root := t.TempDir()
	s := &setup{t: t, dir: filepath.Join(root, "src"), results: filepath.Join(root, "results"),
		scratch: filepath.Join(root, "scratch"), watch: &watch{}, grace: time.Minute}
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

// watch remembers an observer's messages.
type watch struct {
	mu      sync.Mutex
	printed strings.Builder
	remarks []string
	on      func(printed string)
}

func (w *watch) Status(int, build.Update) {}

func (w *watch) Artifact(int, build.Artifact) {}

func (w *watch) Tests(int, []build.TestFile) {}

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
	runner := &command.Runner{Supervisor: []string{os.Args[0], "supervise"}, Grace: s.grace}
	s.t.Cleanup(func() { _ = runner.Close() })
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

// runWith builds one step with a configuration of which Runner must be set.
func (s *setup) runWith(ctx context.Context, c worker.Config, step build.PlanStep) (build.Status, error) {
	s.t.Helper()
	store, err := results.Create(s.results, 1<<20)
	if err != nil {
		s.t.Fatal(err)
	}
	c.ID, c.Plan, c.Store, c.Observer, c.Scratch = "7", planOf(step), store, s.watch, s.scratch
	if c.Workspace == nil {
		c.Workspace = s.source
	}
	if err := store.Describe(results.Build{ID: c.ID, Plan: c.Plan}); err != nil {
		s.t.Fatal(err)
	}
	got, err := worker.New(c).Run(ctx)
	return got, errors.Join(err, store.Close())
}

// planOf returns a plan of one step, s/a.
func planOf(step build.PlanStep) *build.Plan {
	step.ID, step.Stage, step.Name = 1, "s", "a"
	return &build.Plan{Timeout: time.Hour, Stages: []build.PlanStage{{Name: "s", RunsIf: build.Success, Steps: []int{1}}},
		Steps: []build.PlanStep{step}, MaxParallel: 1}
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

// printed returns the output of a step on one stream, byte for byte.
func printed(t *testing.T, r *results.Reader, step int, stderr bool) []byte {
	t.Helper()
	var out bytes.Buffer
	err := r.Log(t.Context(), step, false, func(e build.Line) error {
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

func TestStepsDoNotSeeOtherVariables(t *testing.T) {
	t.Setenv("WAYBILL_TEST_SECRET", "hidden")
	_, r := fresh(t).run(t.Context(), script("a", "env"))
	if out := printed(t, r, 1, false); bytes.Contains(out, []byte("hidden")) {
		t.Errorf("a variable of the worker reached the step:\n%s", out)
	}
}

// printer is a runner whose steps print one line.
type printer struct {
	*command.Runner
	at time.Time
}

func (p printer) Run(_ context.Context, _ build.Run, sink build.Sink) (build.Exit, error) {
	return build.Exit{}, errors.Join(sink.Phase(build.Initializing), sink.Phase(build.Running),
		sink.Output([]build.Entry{{Text: []byte("line"), At: p.at}}))
}

// TestARunnerKnowsWhenALineWasPrinted better than the log, which may get it later.
func TestARunnerKnowsWhenALineWasPrinted(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	at := time.Now().Add(time.Hour)
	if _, err := s.runWith(t.Context(), worker.Config{Runner: printer{at: at}}, build.PlanStep{}); err != nil {
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

// notes lists Waybill's own entries in the log of a step.
func notes(t *testing.T, r *results.Reader, step int) (texts []string) {
	t.Helper()
	err := r.Log(t.Context(), step, false, func(e build.Line) error {
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
