package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// history makes a repository in which the second commit removes the engine of the first, and returns the first.
func history(t *testing.T) string {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"internal/pipeline/engine.go":      "package pipeline\n\nimport (\n\t\"fmt\"\n\n\t\"github.com/waybill-dev/waybill/internal/cron\"\n)\n",
		"internal/pipeline/engine_test.go": "package pipeline\n",
		"internal/pipeline/testdata/x.go":  "package x\n",
		"internal/cron/cron.go":            "package cron\n\nimport \"github.com/waybill-dev/waybill/internal/fault\"\n",
		"internal/fault/fault.go":          "package fault\n",
		"internal/other/other.go":          "package other\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, "init", "-q")
	git(t, "add", ".")
	commit(t)
	first := git(t, "rev-parse", "HEAD")
	git(t, "rm", "-q", "-r", "internal/pipeline")
	commit(t)
	return first
}

func commit(t *testing.T) {
	t.Helper()
	git(t, "-c", "user.name=ana", "-c", "user.email=ana@example.org", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "x")
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestEngineAndItsImportsAreTakenFromTheCommit(t *testing.T) {
	first := history(t)
	files := overlay{}
	if err := files.take(t.Context(), first, engine); err != nil {
		t.Fatal(err)
	}
	want := []string{"internal/former/cron/cron.go", "internal/former/fault/fault.go", "internal/former/pipeline/engine.go"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if text := string(files["internal/former/pipeline/engine.go"]); !strings.Contains(text,
		`"github.com/waybill-dev/waybill/internal/former/cron"`) {
		t.Errorf("the engine imports today's packages: %s", text)
	}
}

func TestMissingHistoryIsNamed(t *testing.T) {
	history(t)
	err := overlay{}.take(t.Context(), "0123456789", engine)
	if err == nil || !strings.Contains(err.Error(), "lacks the commit 0123456789") || !strings.Contains(err.Error(), "--unshallow") {
		t.Errorf("got %v", err)
	}
}

func TestRulesAreChangedInTheCommitsEngine(t *testing.T) {
	files := overlay{"internal/former/pipeline/flight.go": []byte("one, two and two")}
	if err := files.change([]change{{"one is two", "flight.go", "one", "two"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := string(files["internal/former/pipeline/flight.go"]), "two, two and two"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, c := range []change{{"two is one", "flight.go", "two", "one"}, {"three is one", "flight.go", "three", "one"},
		{"there is a file", "fold.go", "one", "two"}} {
		if err := files.change([]change{c}); err == nil || !strings.Contains(err.Error(), c.rule) {
			t.Errorf("%s: got %v, want an error that names the rule", c.rule, err)
		}
	}
}
