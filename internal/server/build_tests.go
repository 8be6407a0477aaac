package server

import (
	"cmp"
	"slices"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// BuildTest is the result of one test.
type BuildTest struct {
	StepID     int `json:"stepId"`
	ArtifactID int `json:"artifactId"` // of the file that reports it
	testresult.Result
}

// TestFileView is a file of test results and its step.
type TestFileView struct {
	StepID int `json:"stepId"`
	build.TestFile
}

type BuildTestInput struct {
	BuildPath
	Outcome string `query:"outcome" enum:"passed,failed,skipped,flaky" doc:"default: all"`
	Limit   int    `query:"limit" minimum:"0" maximum:"50000" doc:"default 1000"`
}

func testFileViews(files []build.TestFile) []TestFileView {
	views := []TestFileView{}
	for _, f := range files {
		views = append(views, TestFileView{f.Step, f})
	}
	return views
}

func countTests(files []build.TestFile) (counts testresult.Counts) {
	for _, f := range files {
		counts.Add(f.Counts)
	}
	return counts
}

func summarizeTests(files []build.TestFile) []BuildTests {
	all := []BuildTests{}
	for _, f := range files {
		t := BuildTests{StepID: f.Step, ArtifactID: f.Artifact, Name: f.Name, Counts: f.Counts}
		if f.Problem != nil {
			t.Problem = f.Problem.Error()
		}
		all = append(all, t)
	}
	return all
}

// detailTests lists tests: failed, flaky, skipped, passed.
func detailTests(files []build.TestFile, outcome string, limit int) []BuildTest {
	all := []BuildTest{}
	for _, f := range files {
		for _, r := range f.Results {
			if outcome == "" || string(r.Outcome) == outcome {
				all = append(all, BuildTest{f.Step, f.Artifact, r})
			}
		}
	}
	order := []testresult.Outcome{testresult.Failed, testresult.Flaky, testresult.Skipped, testresult.Passed}
	slices.SortStableFunc(all, func(a, b BuildTest) int {
		return cmp.Compare(slices.Index(order, a.Outcome), slices.Index(order, b.Outcome))
	})
	return all[:min(len(all), cmp.Or(limit, 1000))]
}

// artifactsOf lists the artifacts of a step by its name or id, or of all steps ("").
func (s BuildState) artifactsOf(step string) ([]BuildArtifact, error) {
	steps, err := stepIDs(s, map[string][]string{"step": {step}})
	list := []BuildArtifact{}
	for _, a := range s.Artifacts {
		if wants(steps, a.Step) {
			list = append(list, BuildArtifact{a.Step, a})
		}
	}
	return list, err
}
