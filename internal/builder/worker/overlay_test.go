package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// placing is a runner that makes an artifact in the step make, and lists the inputs of other steps.
type placing struct {
	made    string
	mu      sync.Mutex
	placed  map[string][]string
	folders []string
}

func (p *placing) Check(context.Context, []build.PlanStep) fault.Problems { return nil }

func (p *placing) Run(_ context.Context, run build.Run, sink build.Sink) (build.Exit, error) {
	if err := errors.Join(sink.Phase(build.Initializing), sink.Phase(build.Running)); err != nil {
		return build.Exit{}, err
	}
	if run.Step.Name == "make" {
		return build.Exit{}, sink.Artifact("made/a.yml", build.KindFile, true, strings.NewReader(p.made))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range run.Needed {
		text, err := os.ReadFile(n.Path)
		if err != nil {
			return build.Exit{}, err
		}
		p.placed[run.Step.Name] = append(p.placed[run.Step.Name], fmt.Sprintf("%s %v %s", n.Name, n.Executable, text))
		p.folders = append(p.folders, filepath.Dir(n.Path))
	}
	return build.Exit{}, nil
}

// runPlacing builds a file with a runner that lists its inputs.
func (s *setup) runPlacing(file string, choice build.Choice, runner *placing) (build.Status, *results.Reader) {
	s.t.Helper()
	node, problems := yamltree.Parse("f", []byte(file), yamltree.BuildFile)
	if err := problems.Err(); err != nil {
		s.t.Fatal(err)
	}
	parsed, problems := build.Parse(node)
	if err := problems.Err(); err != nil {
		s.t.Fatal(err)
	}
	plan, problems := build.MakePlan(parsed, choice)
	if err := problems.Err(); err != nil {
		s.t.Fatal(err)
	}
	store, err := results.Create(s.results, 1<<20)
	if err == nil {
		err = store.Describe(results.Build{ID: "7", Plan: plan})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	result, err := worker.New(worker.Config{ID: "7", Plan: plan, Workspace: s.source, Runner: runner, Store: store,
		Observer: s.watch, Scratch: s.scratch}).Run(s.t.Context())
	if err := errors.Join(err, store.Close()); err != nil {
		s.t.Fatal(err)
	}
	r, err := results.Open(s.results)
	if err != nil {
		s.t.Fatal(err)
	}
	return result, r
}

// TestVariablesInFilesAreReplacedForTheStep: it gets changed copies of texts of the workspace and of artifacts that it
// needs, and nothing keeps the passwords in them.
func TestVariablesInFilesAreReplacedForTheStep(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	outside := filepath.Join(t.TempDir(), "outside.yml")
	err := errors.Join(os.MkdirAll(filepath.Join(s.dir, "deploy", "sub", ".git"), 0o755),
		os.Mkdir(filepath.Join(s.dir, "made"), 0o755), os.WriteFile(outside, []byte("${x}"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"deploy/a.yml": "x: ${x}\r\np: ${p}", "deploy/same.yml": "x: 1",
		"deploy/sub/b": "${%y%}", "deploy/sub/.git/config": "${x}", "deploy/binary": "\x00${x}",
		"deploy/latin": "\xff${x}", "made/a.yml": "old ${x}", "made/b.yml": "b ${x}", "other.yml": "${x}"} {
		s.write(name, text)
	}
	err = errors.Join(os.Chmod(filepath.Join(s.dir, "deploy/sub/b"), 0o700), os.Symlink(outside, filepath.Join(s.dir, "deploy/outside.yml")),
		os.Symlink("../other.yml", filepath.Join(s.dir, "deploy/inside.yml")), os.Symlink("nowhere", filepath.Join(s.dir, "deploy/broken.yml")))
	if err != nil {
		t.Fatal(err)
	}
	runner := &placing{made: "made ${x}", placed: map[string][]string{}}
	result, r := s.runPlacing(`inputs: [{name: p, type: password}]
s:
  make: {container: {image: i, cmds: [x]}}
t:
  apply: {needs: [make], kubectl: {files: [deploy, nowhere.yml, made, deploy/a.yml]}}
  plain: {needs: [make], container: {image: i, cmds: ["cat deploy/a.yml"]}}
`, build.Choice{Inputs: map[string]string{"p": "hunter22"},
		Variables: build.Variables{build.Texts("test", map[string]string{"x": "1"})}}, runner)
	if result != build.Completed {
		t.Fatalf("%s: %s", result, s.watch.printed.String())
	}
	want := map[string][]string{
		"apply": {"deploy/a.yml false x: 1\r\np: hunter22", "deploy/inside.yml false 1", "deploy/sub/b true ${y}",
			"made/a.yml false old 1", "made/b.yml false b 1", "made/a.yml true made 1"},
		"plain": {"made/a.yml true made ${x}"},
	}
	if diff := cmp.Diff(want, runner.placed); diff != "" {
		t.Error(diff)
	}
	if got := string(printed(t, r, 2, false)); !strings.Contains(s.watch.printed.String(), "variables replaced in deploy/a.yml: 2\n") {
		t.Errorf("printed %q", got)
	}
	wantNowhere(t, s.results, "hunter")
	for _, folder := range runner.folders {
		if _, err := os.Stat(folder); strings.HasPrefix(folder, s.scratch) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there still: %v", folder, err)
		}
	}
}

// TestAFileThatCannotBeReplacedFailsItsStep: the reason names the place.
func TestAFileThatCannotBeReplacedFailsItsStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"circle":   {"a\n ${x}", "replace variables: a.yml:2:2: these variables refer to each other in a circle: x → x"},
		"no value": {"${y}", `replace variables: a.yml:1:1: the variable "y" has no value; ${%y%} is the text ${y}`},
		"large":    {strings.Repeat("x", 16<<20+1), "replace variables: a.yml has more than 16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			s.write("a.yml", c.text)
			result, r := s.runPlacing("s: {a: {kubectl: {file: a.yml}}}",
				build.Choice{Strict: name == "no value", Variables: build.Variables{build.Texts("test", map[string]string{"x": "${x}"})}}, &placing{})
			last, err := r.Last(1)
			if err != nil || result != build.Failed || last.Reason != c.want {
				t.Errorf("%s, %q, %v; want %q", result, last.Reason, err, c.want)
			}
		})
	}
}

// TestTextsAreBounded: a folder with very many files is refused, and a large file that is not text is passed over.
func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.write("binary", "\x00"+strings.Repeat("x", 16<<20))
	count := 0
	visit := func(worker.Text) error { count++; return nil }
	if err := worker.Texts(t.Context(), s.dir, []string{".", "hello.txt"}, visit); err != nil || count != 1 {
		t.Errorf("%d texts, %v", count, err)
	}
	for i := range 2001 {
		s.write(fmt.Sprint(i), "x")
	}
	if err := worker.Texts(t.Context(), s.dir, []string{"."}, visit); err == nil || !strings.Contains(err.Error(), "come to more than 2000") {
		t.Error(err)
	}
	if err := worker.Texts(t.Context(), filepath.Join(s.dir, "nowhere"), []string{"."}, visit); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := worker.Texts(ctx, s.dir, []string{"."}, visit); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
