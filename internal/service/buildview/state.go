// Package buildview reads builds for people and programs: their lists, states, logs, test results and artifacts, from results
// folders of this machine or from rows of the database. It searches logs and follows builds while they run.
package buildview

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// Source reads builds and their results. Safe for concurrent use.
type Source interface {
	// Builds lists builds, newest first. It may look at a bounded number, and then returns fewer than asked for with Next set.
	Builds(ctx context.Context, q Query) (List, error)
	// OpenBuild returns fault.NotFound for a build that it does not have.
	OpenBuild(ctx context.Context, id string) (Reader, error)
}

// Reader reads one build, finished or not.
type Reader interface {
	State(ctx context.Context) (State, error)
	// Tests lists the test reports of all steps' files, in the order of the steps.
	Tests(ctx context.Context) ([]build.TestFile, error)
	OpenArtifact(ctx context.Context, a build.Artifact) (io.ReadSeekCloser, error)
	// Locate finds a place in the log of a step. ReadLog fills buffer (results.BatchSize or more) with the whole entries that
	// begin at the byte offset, and returns their size in bytes.
	Locate(ctx context.Context, step int, place LogPlace) (build.Position, error)
	ReadLog(ctx context.Context, step int, offset int64, buffer []byte) (size int, err error)
	// Follow returns a function that returns when the build may have changed since its last call, and after a short time in any case.
	Follow() func(ctx context.Context) error
}

// LogPlace names a place in a step's log: after the entry After, or after as many as there are; or before the first entry that
// is not older than Since, if that is set.
type LogPlace struct {
	After int64
	Since time.Time
}

// Query selects builds. A zero field selects all.
type Query struct {
	Status      build.Status
	Pipeline    string
	Deployment  int64
	Action      string // id of the action whose attempts built
	Branch      string
	Commit      string // its beginning
	Environment string
	Stage       string
	Since       time.Time // scheduled then or later
	Until       time.Time // scheduled before
	Input       string    // NAME=VALUE, or a part of the value of any input; never of a password
	Artifact    string    // in the name of an artifact
	Test        string    // in the suite and name of a test
	// in the id, commit, branch, source, reason, pipeline, a stage, an input, an artifact or a test; upper and lower case
	// are alike
	Text  string
	After string // cursor: BuildList.Next of the page before
	Limit int    // 0: 50
}

// List is a page of a list of builds.
type List struct {
	Builds []Summary `json:"list"`
	Next   string    `json:"next,omitempty"` // cursor of the next page; "": this is the last one
}

// Summary is a build without its steps.
type Summary struct {
	ID          string             `json:"buildId"`
	Status      build.Status       `json:"status"`
	StatusID    int                `json:"statusId"` // 0 Scheduling, 1 Running, 2 Completed or Skipped, 3 every other end
	Reason      string             `json:"reason,omitempty"`
	Pipeline    string             `json:"pipeline,omitempty"` // pipeline of its deployment
	Deployment  int64              `json:"deployment,omitempty"`
	Target      string             `json:"target,omitempty"`
	Action      string             `json:"actionId,omitempty"`
	Source      string             `json:"source,omitempty"` // the folder that was built
	Branch      string             `json:"gitBranch,omitempty"`
	Commit      string             `json:"commit,omitempty"`
	Subject     string             `json:"subject,omitempty"` // subject of a deployment's commit
	Environment string             `json:"environment,omitempty"`
	Engine      string             `json:"engine,omitempty"` // another build engine; "": a worker of Waybill
	Worker      string             `json:"workerId,omitempty"`
	Stages      []string           `json:"stages"`
	Params      []Param            `json:"params"`
	Runner      string             `json:"runner,omitempty"`
	RerunOf     string             `json:"rerunOf,omitempty"`
	Resume      bool               `json:"resume,omitempty"` // steps of RerunOf that completed are reused
	Steps       int                `json:"steps"`
	ScheduledOn time.Time          `json:"scheduledOn,omitzero"`
	StartedOn   time.Time          `json:"startedOn,omitzero"`
	FinishedOn  time.Time          `json:"finishedOn,omitzero"`
	ExpiredOn   time.Time          `json:"expiredOn,omitzero"` // time at which its logs and artifacts were removed
	IsInvalid   bool               `json:"isInvalid"`          // the file of the build has faults
	Tests       *testresult.Counts `json:"testResultListSummary,omitempty"`
	Results     string             `json:"results,omitempty"` // the folder, on the machine that built
}

// Param is an input of a build. Passwords have the value ***.
type Param struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Hidden bool   `json:"-"` // it is a password
}

// State is a build with its steps, at one time.
type State struct {
	Summary
	Plan      *build.Plan               `json:"plan"`
	Updates   map[int][]build.Update    `json:"updates"` // by step; 0 is the build
	Artifacts []build.Artifact          `json:"-"`       // step by step
	Counts    map[int]testresult.Counts `json:"-"`       // counts of tests, by the steps that report any
	Notable   []build.TestFile          `json:"-"`       // files with failed or flaky tests, and only these; at most mostNotable
	Logs      map[int]build.Position    `json:"-"`       // ends of the logs of steps; nil: by the logs
}

// statusID returns the number that wharf-api has for a status.
func statusID(s build.Status) int {
	switch s {
	case build.Pending, build.Scheduling:
		return 0
	case build.Completed, build.Skipped:
		return 2
	case build.Failed, build.Canceled, build.TimedOut, build.Lost:
		return 3
	}
	return 1
}

// Ended reports whether the log is complete.
func (s Summary) Ended() bool { return s.Status.Ended() }

// summarizeBuild returns the summary of a build from its description and the last update of step 0. alive reports
// that its worker lives.
func summarizeBuild(b results.Build, last build.Update, alive bool) Summary {
	s := Summary{ID: b.ID, Status: last.Status, Reason: last.Reason, Source: b.Source, Branch: b.Branch, Commit: b.Commit,
		Subject: b.Subject, Environment: b.Plan.Environment,
		Stages: []string{}, Params: []Param{}, Runner: b.Runner, RerunOf: b.RerunOf, Steps: len(b.Plan.Steps),
		ScheduledOn: b.StartedAt, StartedOn: b.StartedAt}
	switch {
	case last.Status.Ended():
		s.FinishedOn = last.Timestamp
		s.IsInvalid = last.Status == build.Failed && len(b.Plan.Steps) == 0
	case !alive:
		s.Status, s.Reason = build.Lost, "its worker ended before the build did"
	}
	s.StatusID = statusID(s.Status)
	for _, stage := range b.Plan.Stages {
		s.Stages = append(s.Stages, stage.Name)
	}
	for name, value := range b.Given.Inputs {
		s.Params = append(s.Params, Param{Name: name, Value: value})
	}
	for _, name := range b.Given.Passwords {
		s.Params = append(s.Params, Param{Name: name, Value: HiddenValue})
	}
	slices.SortFunc(s.Params, func(a, b Param) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// selects reports whether a build is one that the query requests, as far as a summary shows it, without Stage,
// Artifact, Test and Text.
func (q Query) selects(s Summary) bool {
	for _, want := range [...]struct{ asked, has string }{{string(q.Status), string(s.Status)}, {q.Pipeline, s.Pipeline}, {q.Action, s.Action},
		{q.Branch, s.Branch}, {q.Environment, s.Environment}} {
		if want.asked != "" && want.has != want.asked {
			return false
		}
	}
	if q.Deployment != 0 && s.Deployment != q.Deployment || !strings.HasPrefix(s.Commit, q.Commit) || !q.during(s.ScheduledOn) {
		return false
	}
	name, value, named := strings.Cut(q.Input, "=")
	return q.Input == "" || slices.ContainsFunc(s.Params, func(p Param) bool {
		if p.Value == HiddenValue {
			return false
		}
		return named && p.Name == name && p.Value == value || contains(p.Value, q.Input)
	})
}

// HiddenValue is shown for the value of a password.
const HiddenValue = "***"

// during reports whether a time is one that the query requests.
func (q Query) during(at time.Time) bool {
	return !at.Before(q.Since) && (q.Until.IsZero() || at.Before(q.Until))
}

// contained reports whether the text of a query is in a summary.
func (q Query) contained(s Summary) bool {
	texts := append([]string{s.ID, string(s.Status), s.Branch, s.Commit, s.Subject, s.Source, s.Reason, s.Pipeline,
		s.Environment}, s.Stages...)
	for _, p := range s.Params {
		if p.Value != HiddenValue {
			texts = append(texts, p.Value)
		}
	}
	return slices.ContainsFunc(texts, func(t string) bool { return contains(t, q.Text) })
}

// contains reports whether a part is in a text, upper and lower case alike.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Last returns the present status of a step; Pending when it has none.
func (s State) Last(step int) build.Update {
	if updates := s.Updates[step]; len(updates) > 0 {
		return updates[len(updates)-1]
	}
	return build.Update{Status: build.Pending}
}

// Artifact returns an artifact by its id.
func (s State) Artifact(id int) (build.Artifact, error) {
	for _, a := range s.Artifacts {
		if a.ID == id {
			return a, nil
		}
	}
	return build.Artifact{}, fault.New(fault.NotFound, "build %s has no artifact %d", s.ID, id)
}

// StepView is a step of a build.
type StepView struct {
	ID         int                `json:"stepId"`
	Stage      string             `json:"stage"`
	Name       string             `json:"name"`
	Type       string             `json:"type,omitempty"`
	At         fault.Position     `json:"at,omitzero"` // in the file
	Status     build.Status       `json:"status"`
	Reason     string             `json:"reason,omitempty"`
	ReusedFrom string             `json:"reusedFrom,omitempty"` // id of the build in which it completed, if it did not run in this one
	Waits      string             `json:"waits,omitempty"`      // reason why a step has not begun
	Attempt    int                `json:"attempt,omitempty"`
	Attempts   int                `json:"attempts,omitempty"` // how many it may have; 0: one
	ExitCode   *int               `json:"exitCode,omitempty"`
	After      []int              `json:"after"` // ids of the steps that end before it begins
	Needs      []int              `json:"needs,omitempty"`
	StartedOn  time.Time          `json:"startedOn,omitzero"` // start of its first attempt
	FinishedOn time.Time          `json:"finishedOn,omitzero"`
	LogEntries int64              `json:"logEntries,omitempty"` // once it has ended; of a build in the database also before
	LogBytes   int64              `json:"logBytes,omitempty"`
	Tests      *testresult.Counts `json:"testResultSummary,omitempty"`
}

// Path names the step for people: stage/step.
func (v StepView) Path() string { return v.Stage + "/" + v.Name }

// StepViews lists the steps.
func (s State) StepViews() []StepView {
	views := make([]StepView, len(s.Plan.Steps))
	for i := range s.Plan.Steps {
		views[i] = s.stepView(&s.Plan.Steps[i])
	}
	return views
}

func (s State) stepView(step *build.PlanStep) StepView {
	last := s.Last(step.ID)
	v := StepView{ID: step.ID, Stage: step.Stage, Name: step.Name, Type: step.Type, At: step.At, Status: last.Status, Reason: last.Reason,
		Attempt: last.Attempt, ExitCode: last.ExitCode, After: step.After, Needs: step.Needs, ReusedFrom: s.reusedFrom(last)}
	if step.Retry != nil {
		v.Attempts = step.Retry.Attempts
	}
	for _, u := range s.Updates[step.ID] {
		if v.StartedOn.IsZero() && u.Status != build.Pending && !u.Status.Ended() {
			v.StartedOn = u.Timestamp
		}
	}
	switch {
	case last.Status.Ended():
		v.FinishedOn = last.Timestamp
	case s.Ended() && !v.StartedOn.IsZero() && !s.FinishedOn.IsZero(): // its worker went without a report about the step
		v.Status, v.FinishedOn = build.Lost, s.FinishedOn
	}
	if last.Trailer != nil {
		v.LogEntries, v.LogBytes = last.Trailer.Entries, last.Trailer.Bytes
	} else if end, known := s.Logs[step.ID]; known {
		v.LogEntries, v.LogBytes = end.ID, end.Offset
	}
	if counts, ok := s.Counts[step.ID]; ok {
		v.Tests = &counts
	}
	if last.Status == build.Pending && !s.Ended() {
		v.Waits = s.waitsFor(step)
	}
	return v
}

// reusedFrom returns the build in which a step completed that was not run in this one; "" for any other step.
func (s State) reusedFrom(last build.Update) string {
	if last.Status == build.Reused {
		return s.RerunOf
	}
	return ""
}

// namedWaits bounds the predecessors that a waiting step names.
const namedWaits = 3

// waitsFor returns the reason why a step has not begun.
func (s State) waitsFor(step *build.PlanStep) string {
	var open []string
	for _, id := range step.After {
		if before := s.Plan.Step(id); before != nil && !s.Last(id).Status.Ended() {
			open = append(open, before.Path())
		}
	}
	switch n := len(open) - namedWaits; {
	case len(open) == 0:
		return "waits for its turn"
	case n > 0:
		return "waits for " + strings.Join(open[:namedWaits], ", ") + " and " + strconv.Itoa(n) + " more"
	}
	return "waits for " + strings.Join(open, ", ")
}
