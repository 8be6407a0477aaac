package results_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/goldentest"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// TestTheFilesOfABuildKeepTheirFormat: other versions of the program, and other programs, read them.
func TestTheFilesOfABuildKeepTheirFormat(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "r"), 0)
	at := time.Date(2026, 11, 28, 12, 0, 0, 5, time.UTC)
	record := func(step int, u build.Update) {
		t.Helper()
		at = at.Add(time.Second)
		u.Timestamp = at
		if _, err := store.Update(step, u); err != nil {
			t.Fatal(err)
		}
	}
	record(0, build.Update{Status: build.Running})
	record(1, build.Update{Status: build.Scheduling, Attempt: 1, Reason: "its artifact was damaged"})
	record(1, build.Update{Status: build.Running, Attempt: 1})
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(build.Entry{At: at, Text: []byte("hello \xff")},
		build.Entry{At: at, Marks: build.Marks{Stderr: true, CRLF: true}, Text: []byte("oh")},
		build.Entry{At: at, Marks: build.Marks{Waybill: true}, Text: []byte("retried")},
		build.Entry{At: at, Marks: build.Marks{Partial: true}, Text: []byte("in ")},
		build.Entry{At: at, Marks: build.Marks{Unended: true}, Text: []byte("parts")}); err != nil {
		t.Fatal(err)
	}
	keep := func(step int, name, kind string, executable bool, content string) {
		if _, err := store.AddArtifact(build.Artifact{Step: step, Name: name, Kind: kind, Executable: executable},
			strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	keep(1, "bin/shop", "file", true, "shop")
	keep(2, "out/unit.xml", "junit", false, "<testsuites/>")
	one := testresult.Result{Suite: "s", Name: "n", Outcome: testresult.Failed, Duration: time.Second, Message: "m", File: "f.go", Line: 3}
	report := testresult.Report{Counts: testresult.Counts{Tests: 2, Failed: 1, Duration: time.Minute},
		Results: []testresult.Result{one}, Omitted: 1}
	if err := store.SetTests(2, []build.TestFile{{Artifact: 2, Step: 2, Name: "out/unit.xml", Format: testresult.JUnit, Report: report},
		{Artifact: 3, Step: 2, Name: "cut.xml", Format: testresult.TRX,
			Problem: &testresult.Error{Line: 7, Text: "it is cut off"}}}); err != nil {
		t.Fatal(err)
	}
	code := 3
	record(1, build.Update{Status: build.Failed, Attempt: 1, Reason: "exit status 3", ExitCode: &code})
	record(2, build.Update{Status: build.Skipped})
	record(0, build.Update{Status: build.Failed, Reason: "s/a failed"})
	var got strings.Builder
	for _, name := range []string{"build.json", "steps/0/status.json", "steps/1/status.json", "steps/1/artifacts.json", "steps/2/status.json",
		"steps/2/artifacts.json", "steps/2/test-results.json"} {
		content, err := os.ReadFile(filepath.Join(store.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "-- %s --\n%s\n", name, content)
	}
	goldentest.Compare(t, "testdata/files.golden", got.String())
}
