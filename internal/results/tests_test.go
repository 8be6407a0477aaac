package results_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
)

func TestTestResultsAreReadAsTheyWereStored(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	s := create(t, dir, 0)
	r := open(t, dir)
	if all, err := r.Tests(); err != nil || all != nil {
		t.Errorf("before any: %v, %v", all, err)
	}
	a, err := s.AddArtifact(build.Artifact{Step: 2, Name: "out/unit.xml", Kind: "junit"}, strings.NewReader("<testsuite/>"))
	if err != nil {
		t.Fatal(err)
	}
	if !a.OfTests() || (build.Artifact{Kind: build.KindFile}).OfTests() {
		t.Error("the kind of an artifact does not say what it is kept for")
	}
	stored := []build.TestFile{
		{Artifact: a.ID, Step: 2, Name: "out/unit.xml", Format: testresult.JUnit, Report: testresult.Report{
			Counts: testresult.Counts{Tests: 3, Failed: 1, Duration: 5}, Omitted: 2,
			Results: []testresult.Result{{Suite: "s", Name: "n", Outcome: testresult.Failed, Message: "m", File: "f", Line: 1}}}},
		{Artifact: a.ID, Step: 2, Name: "bad.trx", Format: testresult.TRX, Report: testresult.Report{Results: []testresult.Result{}},
			Problem: &testresult.Error{Line: 3, Text: "unexpected EOF"}},
	}
	if err := s.SetTests(2, stored); err != nil {
		t.Fatal(err)
	}
	got, err := r.Tests()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, got); diff != "" {
		t.Error(diff)
	}
	f, err := s.OpenArtifact(a)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "<testsuite/>" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "steps", "2", "test-results.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tests(); !fault.Is(err, fault.Corrupt) {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestAnArtifactThatTheStepHasIsNotStoredAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	s := create(t, dir, 0)
	add := func(step int, name, kind, text string) int {
		t.Helper()
		a, err := s.AddArtifact(build.Artifact{Step: step, Name: name, Kind: kind}, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	got := []int{add(1, "x", "file", "1"), add(1, "x", "junit", "1"), add(1, "x", "file", "2"), add(1, "y", "file", "1"),
		add(2, "x", "file", "1")}
	if diff := cmp.Diff([]int{1, 1, 2, 3, 4}, got); diff != "" {
		t.Error(diff)
	}
	files, err := filepath.Glob(filepath.Join(dir, "steps", "*", "artifacts", "*"))
	if err != nil || len(files) != 4 {
		t.Errorf("%v: %v", err, files)
	}
}

func TestABuildHasABoundOfArtifacts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	s := create(t, dir, 1<<20)
	add := func(name string) error {
		_, err := s.AddArtifact(build.Artifact{Step: 1, Name: name, Kind: build.KindFile}, strings.NewReader(name))
		return err
	}
	if err := add("first"); err != nil {
		t.Fatal(err)
	}
	s.SkipArtifacts(9999)
	if err := add("last"); err != nil {
		t.Fatal(err)
	}
	if err := add("one more"); !errors.Is(err, results.ErrArtifactLimit) || !strings.Contains(err.Error(), "10000 artifacts") {
		t.Error(err)
	}
	if err := add("first"); err != nil {
		t.Errorf("one that is kept: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "steps", "1", "artifacts", "*")); err != nil || len(left) != 2 {
		t.Errorf("%q, %v", left, err)
	}
}
