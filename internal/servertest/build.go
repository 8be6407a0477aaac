package servertest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// BuildPlan returns a plan of steps, named stage/step, each of which waits for all steps of earlier stages.
func BuildPlan(paths ...string) *build.Plan {
	plan := &build.Plan{File: ".wharf-ci.yml"}
	var before, stage []int
	for i, path := range paths {
		name, step, _ := strings.Cut(path, "/")
		if n := len(plan.Stages); n == 0 || plan.Stages[n-1].Name != name {
			plan.Stages = append(plan.Stages, build.PlanStage{Name: name, RunsIf: build.Success})
			before, stage = append(before[:len(before):len(before)], stage...), nil
		}
		stage = append(stage, i+1)
		last := &plan.Stages[len(plan.Stages)-1]
		last.Steps = append(last.Steps, i+1)
		plan.Steps = append(plan.Steps, build.PlanStep{ID: i + 1, Stage: name, Name: step, Type: "container", After: before})
	}
	return plan
}

// Build is the results folder of a build, as its worker writes it.
type Build struct {
	*results.Store
	t testing.TB
}

// NewBuild begins a build in a folder of builds. Its worker lives until the test ends, or until Kill.
func NewBuild(t testing.TB, builds, id string, plan *build.Plan) *Build {
	t.Helper()
	store, err := results.Create(filepath.Join(builds, id), 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	b := &Build{store, t}
	t.Cleanup(b.Kill)
	err = store.Describe(
		results.Build{ID: id, Plan: plan, Source: "/srv/shop", Commit: "3f9c2ab0123456789", Runner: "process", StartedAt: buildBegan,
			Given: results.Given{File: plan.File, Inputs: map[string]string{"level": "debug"}, Passwords: []string{"token"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// buildBegan is when every build of this package began.
var buildBegan = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// Kill lets the worker end without an end of the build, unless it has ended.
func (b *Build) Kill() { _ = b.Store.Close() }

// Print appends lines of standard output to a step's log.
func (b *Build) Print(step int, lines ...string) {
	b.t.Helper()
	var entries []build.Entry
	for _, line := range lines {
		entries = append(entries, build.Entry{Text: []byte(line)})
	}
	b.Append(step, entries...)
}

// Append appends entries to a step's log. An entry without a time has one that is its step's id in seconds after the build began.
func (b *Build) Append(step int, entries ...build.Entry) {
	b.t.Helper()
	log, err := b.Log(step)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range entries {
		if entries[i].At.IsZero() {
			entries[i].At = buildBegan.Add(time.Duration(step) * time.Second)
		}
	}
	if err := log.Append(entries...); err != nil {
		b.t.Fatal(err)
	}
}

// Status records a status of a step.
func (b *Build) Status(step int, status build.Status, reason string) {
	b.t.Helper()
	u := build.Update{Timestamp: buildBegan.Add(time.Duration(step) * time.Second), Status: status, Reason: reason, Attempt: 1}
	if status.Ended() {
		u.Timestamp = u.Timestamp.Add(12 * time.Second)
		code := 0
		if status.Broken() {
			code = 1
		}
		u.ExitCode = &code
	}
	if _, err := b.Update(step, u); err != nil {
		b.t.Fatal(err)
	}
}

// Run lets a step run from its beginning to its end.
func (b *Build) Run(step int, end build.Status, lines ...string) {
	b.t.Helper()
	b.Status(step, build.Running, "")
	b.Print(step, lines...)
	reason := ""
	if end.Broken() {
		reason = "exit status 1"
	}
	b.Status(step, end, reason)
}

// Artifact stores an artifact of a step.
func (b *Build) Artifact(step int, name, content string) build.Artifact {
	b.t.Helper()
	a, err := b.AddArtifact(build.Artifact{Step: step, Name: name, Kind: build.KindFile}, strings.NewReader(content))
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// Tests stores test results of a step as a file that reports them.
func (b *Build) Tests(step int, tests ...testresult.Result) {
	b.t.Helper()
	report := testresult.Report{Results: tests}
	for _, r := range tests {
		report.Counts.Tests++
		switch r.Outcome {
		case testresult.Failed:
			report.Failed++
		case testresult.Flaky:
			report.Flaky++
		case testresult.Skipped:
			report.Skipped++
		}
	}
	if err := b.SetTests(step,
		[]build.TestFile{{Artifact: 1, Step: step, Name: "out/unit.xml", Format: testresult.JUnit, Report: report}}); err != nil {
		b.t.Fatal(err)
	}
}
