//go:build services

// Package agreement has a build whose results are the same on every runner.
package agreement

import (
	"archive/tar"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
)

//go:embed testdata/build.yml
var file string

//go:embed testdata/results.txt
var want string

// service begins what is wanted of the step that needs a service.
const service = "step 6\n"

const report = `<testsuite name="shop" tests="2"><testcase classname="shop" name="A"/><testcase classname="shop" name="B"><failure message="bad"/></testcase></testsuite>`

// Files returns the files of the build, whose steps run in an image, by name.
func Files(image string) map[string]string {
	return map[string]string{".wharf-ci.yml": strings.ReplaceAll(file, "IMAGE", image), "report.xml": report}
}

// Check compares the results in a folder with those that are wanted: statuses, attempts, outputs byte for byte,
// artifacts and tests. A build without an environment has no step with a service.
func Check(t testing.TB, dir string, services bool) {
	t.Helper()
	r, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, last := want, 6
	if !services {
		want, last = want[:strings.Index(want, service)], 5
	}
	var got strings.Builder
	for step := 1; step <= last; step++ {
		if err := describe(&got, r, step); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("the results differ (-want +got):\n%s", diff)
	}
}

// CheckRaw compares the output of the command as the exact output of the step test/output; its standard error may
// come anywhere.
func CheckRaw(t testing.TB, program, dir string) {
	t.Helper()
	got, err := exec.CommandContext(t.Context(), program, "build", "log", dir, "test/output", "--raw").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "dos\r\nnul\x00\xff\n" + strings.Repeat("x", 20_000) + "\nno end"
	if got := strings.Replace(string(got), "oops\n", "", 1); got != want {
		t.Errorf("build log --raw printed %.60q (%d bytes), want %.60q (%d bytes)", got, len(got), want, len(want))
	}
}

func describe(w *strings.Builder, r *results.Reader, step int) error {
	updates, err := r.Updates(step)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "step %d\n", step)
	for _, u := range updates {
		code := ""
		if u.ExitCode != nil {
			code = fmt.Sprintf(" exit status %d", *u.ExitCode)
		}
		fmt.Fprintf(w, "  %s attempt %d%s\n", u.Status, u.Attempt, code)
	}
	artifacts, err := r.StepArtifacts(step)
	if err != nil {
		return err
	}
	tests, err := r.TestsOf(step)
	if err != nil {
		return err
	}
	for _, t := range tests {
		fmt.Fprintf(w, "  tests %s %s %+v\n", t.Format, t.Name, t.Counts)
	}
	return errors.Join(describeOutputs(w, r, step), describeArtifacts(w, r, artifacts))
}

// describeOutputs writes both outputs exactly. The lines of a service come when they come, so those of its step are sorted.
func describeOutputs(w *strings.Builder, r *results.Reader, step int) error {
	var outputs [2][]byte
	err := r.Log(context.Background(), step, false, func(e build.Line) error {
		i := 0
		if e.Stderr {
			i = 1
		}
		outputs[i] = e.AppendPrinted(outputs[i])
		return nil
	})
	for i, name := range []string{"stdout", "stderr"} {
		lines := slices.Collect(strings.Lines(strings.ReplaceAll(string(outputs[i]), strings.Repeat("x", 20_000), "20000 x")))
		if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "web | ") }) {
			slices.Sort(lines)
		}
		for _, line := range lines {
			fmt.Fprintf(w, "  %s %q\n", name, line)
		}
	}
	return err
}

func describeArtifacts(w *strings.Builder, r *results.Reader, artifacts []build.Artifact) error {
	slices.SortFunc(artifacts, func(a, b build.Artifact) int { return strings.Compare(a.Name, b.Name) })
	for _, a := range artifacts {
		fmt.Fprintf(w, "  %s %s executable %t", a.Kind, a.Name, a.Executable)
		f, err := r.OpenArtifact(a)
		if err != nil {
			return err
		}
		if a.Kind == build.KindArchive {
			err = describeArchive(w, f)
		} else {
			var content []byte
			content, err = io.ReadAll(f)
			fmt.Fprintf(w, " %q\n", content)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// describeArchive leaves out times.
func describeArchive(w *strings.Builder, f io.Reader) error {
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	archive := tar.NewReader(unzipped)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "    %c %s %s %q\n", h.Typeflag, h.Name, h.Linkname, content)
	}
}

// Write writes the build's files into a folder.
func Write(t testing.TB, dir, image string) {
	t.Helper()
	for name, content := range Files(image) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil { //nolint:gosec // as projects have them
			t.Fatal(err)
		}
	}
}
