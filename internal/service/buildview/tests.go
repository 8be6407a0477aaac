package buildview

import (
	"cmp"
	"slices"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// TestSummary summarizes the tests of a step or file.
type TestSummary struct {
	StepID     int    `json:"stepId"`
	ArtifactID int    `json:"artifactId"`
	Name       string `json:"name"` // name of the file
	testresult.Counts
	Problem string `json:"problem,omitempty"` // why the file cannot be read
}

// Test is the result of one test.
type Test struct {
	StepID     int `json:"stepId"`
	ArtifactID int `json:"artifactId"` // artifact id of the file that reports it
	testresult.Result
}

// TestFileView is a file of test results and its step.
type TestFileView struct {
	StepID int `json:"stepId"`
	build.TestFile
}

func TestFileViews(files []build.TestFile) []TestFileView {
	views := []TestFileView{}
	for _, f := range files {
		views = append(views, TestFileView{f.Step, f})
	}
	return views
}

func CountTests(files []build.TestFile) (counts testresult.Counts) {
	for _, f := range files {
		counts.Add(f.Counts)
	}
	return counts
}

func SummarizeTests(files []build.TestFile) []TestSummary {
	all := []TestSummary{}
	for _, f := range files {
		t := TestSummary{StepID: f.Step, ArtifactID: f.Artifact, Name: f.Name, Counts: f.Counts}
		if f.Problem != nil {
			t.Problem = f.Problem.Error()
		}
		all = append(all, t)
	}
	return all
}

// DetailTests lists tests: failed, flaky, skipped, passed.
func DetailTests(files []build.TestFile, outcome string, limit int) []Test {
	all := []Test{}
	for _, f := range files {
		for _, r := range f.Results {
			if outcome == "" || string(r.Outcome) == outcome {
				all = append(all, Test{f.Step, f.Artifact, r})
			}
		}
	}
	order := []testresult.Outcome{testresult.Failed, testresult.Flaky, testresult.Skipped, testresult.Passed}
	slices.SortStableFunc(all, func(a, b Test) int {
		return cmp.Compare(slices.Index(order, a.Outcome), slices.Index(order, b.Outcome))
	})
	return all[:min(len(all), cmp.Or(limit, 1000))]
}
