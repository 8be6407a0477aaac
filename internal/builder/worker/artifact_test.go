package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
)

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
	if diff := cmp.Diff([]string{"artifacts: links left out of out/**, since they lead to no file: 1, such as out/link",
		"artifacts: links kept as the files that they lead to: 1 of out/**; with archive: true they stay links",
		"artifacts: none* matches no file", "artifacts: an earlier rule keeps all files that match out/deep/*"}, notes(t, r, 1)); diff != "" {
		t.Error(diff)
	}
}

// TestNeededArtifactsAreInTheWorkspace: a step gets the artifacts of the steps that it needs, at their paths and fit
// to run, instead of files of the workspace.
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

// TestARuleMayNameAFolder: a path without wildcards means the files of the folder that it names, a glob only those that it matches.
func TestARuleMayNameAFolder(t *testing.T) {
	t.Parallel()
	_, r := fresh(t).run(t.Context(), `s:
  a:
    artifacts: [dist, {path: ./docs/, archive: true}, {path: "o*/", archive: true, name: o.tgz}, other*, hello.txt]
    container: {image: i, cmds: ["mkdir -p dist/deep docs/deep other; echo 1 > dist/one; echo 2 > dist/deep/two; echo 3 > docs/deep/three; echo 4 > other/four"]}
t:
  b:
    needs: [a]
    container: {image: i, cmds: ["cat dist/one dist/deep/two docs/deep/three other/four"]}
`)
	artifacts, err := r.Artifacts()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range artifacts {
		got = append(got, a.Name)
	}
	if diff := cmp.Diff([]string{"dist/deep/two", "dist/one", "a.tar.gz", "o.tgz", "hello.txt"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"artifacts: other* matches no file"}, notes(t, r, 1)); diff != "" {
		t.Error(diff)
	}
	if got := string(printed(t, r, 2, false)); got != "1\n2\n3\n4\n" {
		t.Errorf("the step printed %q", got)
	}
}

// TestArchivesKeepLinks: links inside an archive, to files and to folders, arrive as links. Those to elsewhere in the workspace are files
// there, and those to nothing in it are left out and named.
func TestArchivesKeepLinks(t *testing.T) {
	t.Parallel()
	_, r := fresh(t).run(t.Context(), `s:
  a:
    artifacts: [{path: "m/**", archive: true}]
    container:
      image: i
      cmds:
      - mkdir -p m/.bin m/tool/lib other/deep
      - echo inside > m/tool/lib/x; echo elsewhere > other/file; echo deep > other/deep/y
      - printf '#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")"/lib/x\n' > m/tool/run; chmod +x m/tool/run
      - ln -s ../tool/run m/.bin/run; ln -s tool m/same; ln -s .bin/run m/twice
      - ln -s ../other/file m/copied; ln -s ../other/deep m/folder; ln -s /etc/passwd m/outside; ln -s nowhere m/dangling
      - ln -s loop m/loop; ln -s dangling m/second; ln -s folder m/third
      - ln -s ../other/deep/../../m/tool/lib/x m/around; ln -s same/../tool/lib/x m/through
t:
  b:
    needs: [a]
    container: {image: i, cmds: ["m/.bin/run; m/twice; cat m/same/lib/x m/copied m/around m/through; cd m; find . -type l | sort; ls -d folder outside dangling"]}
`)
	want := strings.Repeat("inside\n", 3) + "elsewhere\n" + strings.Repeat("inside\n", 2) + "./.bin/run\n./same\n./twice\n"
	if got := string(printed(t, r, 2, false)); got != want {
		t.Errorf("the step printed %q, want %q", got, want)
	}
	if diff := cmp.Diff(
		[]string{
			"artifacts: links left out of a.tar.gz, since they lead to nothing in it: 6, such as m/dangling, m/folder, m/loop, " +
				"m/outside, m/second"}, notes(t, r, 1)); diff != "" {
		t.Error(diff)
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
	_ = r.Log(t.Context(), 1, false, func(e build.Line) error {
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
	k.kept = sink.Artifact("large", build.KindFile, false,
		io.MultiReader(strings.NewReader("begin"), readerFunc(func([]byte) (int, error) { end(); return 0, nil }), strings.NewReader("end")))
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
		ctx, cancel := context.WithCancel(t.Context())
		runner := &keeper{cancel: cancel, late: late}
		got, err := s.runWith(ctx, worker.Config{Runner: runner}, build.PlanStep{})
		if err != nil || got != build.Canceled {
			t.Errorf("late %t: %s, %v; want it canceled", late, got, err)
		}
		if kept := runner.kept == nil; kept != late {
			t.Errorf("late %t: keeping the artifact ended with %v", late, runner.kept)
		}
	}
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
	want := []string{"Completed: ",
		"Failed: test results are required, and the step has written no file that matches *.xml", "Failed: exit status 3", "Completed: "}
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
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.watch.on = func(printed string) {
		if strings.Contains(printed, "written") {
			cancel()
		}
	}
	file := `s:
  a:
    test-results: {junit: [a.xml], required: true}
    container: {image: i, cmds: ["echo '<testsuite><testcase name=\"one\"/></testsuite>' > a.xml; echo written; exec sleep 100"]}
`
	_, r := s.run(ctx, file)
	last, err := r.Last(1)
	tests, errTests := r.Tests()
	if err := errors.Join(err, errTests); err != nil || last.Status != build.Canceled || len(tests) != 1 || tests[0].Tests != 1 {
		t.Errorf("%v, %s, tests %+v", err, last.Status, tests)
	}
}
