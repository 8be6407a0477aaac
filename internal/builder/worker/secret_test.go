package worker_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
)

// withPassword returns a file whose only stage is s, with the input token.
func withPassword(stage string) string {
	return "inputs: [{name: token, type: password}]\ns:\n" + stage
}

// TestPasswordsReachStepsAndNothingElse: a step gets the password; no file of the results has it,
// however it was printed, and neither have the names of artifacts nor the argument lists of processes.
func TestPasswordsReachStepsAndNothingElse(t *testing.T) {
	t.Parallel()
	const password = "hunter'22\\ok"
	s := fresh(t)
	s.inputs = map[string]string{"token": password}
	s.write("expected", password)
	result, r := s.run(t.Context(), withPassword(`  a:
    artifacts: ["kept-*"]
    container:
      image: none
      cmds:
        - set -e
        - "cat > given <<'END'\n${token}\nEND"
        - test "$(cat given)" = "$(cat expected)"
        - cat given; cat given >&2; base64 < given
        - printf %s "$(cut -c1-5 given)"; sleep 1.2; cut -c6- given
        - touch "kept-$(cat given)"
        - if grep -l "$(cat given)" /proc/$$/cmdline /proc/$PPID/cmdline 2> errors; then echo readable; fi
`))
	if result != build.Completed {
		t.Fatalf("%s: %s", result, printed(t, r, 1, true))
	}
	if got := string(printed(t, r, 1, false)); strings.Contains(got, "readable") || strings.Count(got, "***") < 3 {
		t.Errorf("printed %q", got)
	}
	if got := string(printed(t, r, 1, true)); got != "***\n" {
		t.Errorf("printed %q to stderr", got)
	}
	artifacts, err := r.Artifacts()
	if err != nil || len(artifacts) != 1 || artifacts[0].Name != "kept-***" {
		t.Errorf("artifacts %+v, %v", artifacts, err)
	}
	wantNowhere(t, s.results, "hunter")
	wantNowhere(t, s.scratch, "hunter")
}

// TestAPasswordIsNotInTheReasonOfAnEnd: the runner's errors repeat the step's words.
func TestAPasswordIsNotInTheReasonOfAnEnd(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.inputs = map[string]string{"token": "hunter22"}
	_, r := s.run(t.Context(), withPassword(`  a:
    artifacts: ["${token}*"]
    container: {image: none, cmds: ["exit 3"]}
  b: {container: {image: "${token}", cmds: ["true"]}}
  hunter22: {container: {image: none, cmds: ["exit 3"]}}
  fail-fast: false
`))
	for _, end := range steps(t, r) {
		if strings.Contains(strings.TrimPrefix(end, "hunter22 "), "hunter") {
			t.Errorf("a step ended with %q", end)
		}
	}
	if last, err := r.Last(0); err != nil || strings.Contains(last.Reason, "hunter") {
		t.Errorf("the build ended with %q, %v", last.Reason, err)
	}
}

// TestAPasswordIsNotInTestResults: neither in the file that is kept nor in the results read from it, also if it is
// written in another encoding or as entities.
func TestAPasswordIsNotInTestResults(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.inputs = map[string]string{"token": "hunter22"}
	_, r := s.run(t.Context(), withPassword(`  a:
    test-results: {junit: ["*.xml"]}
    container:
      image: none
      cmds:
        - echo "<testsuite><testcase name='${token}'><failure message='no ${token}'/></testcase></testsuite>" > ${token}.xml
        - echo "<testsuite><testcase name='$(echo ${token} | sed 's/u/\&#117;/')'/></testsuite>" > entity.xml
        - echo "<testsuite>&${token};" > bad.xml
`))
	tests, err := r.Tests()
	if err != nil || len(tests) != 3 || tests[1].Tests != 1 || tests[2].Failed != 1 {
		t.Fatalf("%+v, %v", tests, err)
	}
	if got := tests[1].Results[0].Name; got != "***" {
		t.Errorf("the name of a test is %q", got)
	}
	wantNowhere(t, s.results, "hunter")
}

// wantNowhere fails if a file below a folder, or its name, holds the text.
func wantNowhere(t *testing.T, folder, text string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "tree" {
			return fs.SkipDir // the files that were built
		}
		if strings.Contains(d.Name(), text) {
			t.Errorf("%s is the name of a file", path)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			t.Errorf("%s holds the password:\n%s", path, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
