package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// Bounds of the pages of builds.
const (
	stepsShown       = 200                    // steps whose logs are on one page
	stageStepsShown  = 40                     // steps of a stage in the graph
	testsShown       = 50                     // failed and flaky tests
	artifactsShown   = 200                    // artifacts
	rowsShown        = 500                    // entries of one step on a page
	mostRows         = 500                    // entries of one answer to the script
	lookAtBuildAgain = 250 * time.Millisecond // how often a live page of a running build looks for changes
)

// buildsPage is the data of the list of builds.
type buildsPage struct {
	server.BuildList
	Query    server.BuildQuery
	Statuses []build.Status
	Older    string // address of the next page; "": none
	Newest   string // address of the first page; "": this page
	Filtered bool
	Form     buildForm
	More     bool   // a filter is used that is folded
	Since    string // days, as in the address
	Until    string
}

// builds returns the list of builds.
func (p *Pages) builds(r *http.Request) (content, error) {
	q, err := buildQuery(r)
	if err != nil {
		return content{}, err
	}
	none := server.BuildQuery{After: q.After}
	plain := none
	plain.Status, plain.Pipeline, plain.Text, plain.Deployment = q.Status, q.Pipeline, q.Text, q.Deployment
	page := buildsPage{Query: q, Filtered: q != none, More: q != plain, Since: r.FormValue("since"), Until: r.FormValue("until"),
		Statuses: []build.Status{build.Running, build.Completed, build.Failed, build.Canceled, build.TimedOut, build.Lost}}
	if page.BuildList, err = p.service.Builds(r.Context(), q); err != nil {
		return content{}, err
	}
	page.Form.Projects, page.Form.Engines = p.service.Projects(), p.service.Engines()
	if page.Form.Newest, err = p.newestBuild(r); err != nil {
		return content{}, err
	}
	if page.Next != "" {
		page.Older = withQuery(r, "after", page.Next)
	}
	if q.After != "" {
		page.Newest = withQuery(r, "after", "")
	}
	return content{Title: "Builds", Template: "builds", Nav: "builds", Data: page}, nil
}

// buildQuery reads the filter of the list of builds.
func buildQuery(r *http.Request) (q server.BuildQuery, err error) {
	q = server.BuildQuery{Status: build.Status(r.FormValue("status")), Pipeline: cmp.Or(r.FormValue("project"), r.FormValue("pipeline")),
		Branch: r.FormValue("branch"), Commit: r.FormValue("commit"), Environment: r.FormValue("environment"), Stage: r.FormValue("stage"),
		Input: r.FormValue("input"), Artifact: r.FormValue("artifact"), Test: r.FormValue("test"), Text: r.FormValue("q"), After: r.FormValue("after")}
	if q.Deployment, err = queryNumber(r, "deployment"); err != nil {
		return q, err
	}
	for name, into := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		if *into, err = time.Parse(time.DateOnly, text); err != nil {
			return q, fault.New(fault.Invalid, "%s: want a day such as 2026-01-02", name)
		}
	}
	if !q.Until.IsZero() {
		q.Until = q.Until.AddDate(0, 0, 1) // the day counts, too
	}
	return q, nil
}

// buildPage is the data of the page of one build.
type buildPage struct {
	server.BuildState
	Steps     []stepLog // those whose logs are on this page, step 0 first
	Stages    []stageColumn
	Failing   []failedTest
	MoreTests int
	Files     []server.BuildArtifact
	MoreFiles int
	Earlier   string // address of the page with the logs of the steps before; "": none
	Later     string
	Newest    string // id of the newest build
	Time      string // how times are shown without script: "", clock, since
}

// stageColumn is a stage of the graph.
type stageColumn struct {
	Name  string
	Steps []stepCard
	More  int // steps that are not shown
}

// stepCard is a step of the graph.
type stepCard struct {
	server.BuildStepView
	Address string   // of its log
	Needs   []string // names of the steps that it names
}

// failedTest is a test that failed, or did at first.
type failedTest struct {
	testresult.Result
	StepID  int
	Step    string
	Address string
}

// stepLog is the log of a step on a page.
type stepLog struct {
	server.BuildStepView
	Lines   int64 // entries so far
	Open    bool
	Rows    []logRow
	First   string // addresses of other entries of the step; "": none, or this page
	Earlier string
	Later   string
	Last    string
}

// Path names the step for people.
func (l stepLog) Path() string {
	if l.ID == 0 {
		return "build"
	}
	return l.BuildStepView.Path()
}

// logRow is one entry on a page.
type logRow struct {
	Step    int
	ID      int64
	At      time.Time
	Stream  string // e: standard error, w: Waybill; "": standard output
	Partial bool
	Text    template.HTML
	Cut     int // bytes that are left out
}

// build returns the page of one build.
func (p *Pages) build(r *http.Request) (content, error) {
	reader, state, err := p.service.BuildState(r.Context(), r.PathValue("build"))
	if err != nil {
		return content{}, err
	}
	page := buildPage{BuildState: state, Time: r.FormValue("time")}
	views := state.StepViews()
	opened, err := openedStep(r, state, views)
	if err != nil {
		return content{}, err
	}
	first, err := page.firstStep(r, opened)
	if err != nil {
		return content{}, err
	}
	if page.Newest, err = p.newestBuild(r); err != nil {
		return content{}, err
	}
	page.fillStages(views)
	page.fillTests()
	page.fillFiles()
	page.cutSteps(r, views, first, opened)
	for i := range page.Steps {
		if err := page.Steps[i].fill(r, reader, state.Logs != nil); err != nil {
			return content{}, err
		}
	}
	every := lookAgain
	if !state.Ended() && state.Logs == nil { // another process writes the files, and wakes no waiter
		every = lookAtBuildAgain
	}
	return content{Title: "Build " + nameOfBuild(state.BuildSummary), Template: "build", Nav: "builds", Data: page, Every: every, Builds: !state.Ended()}, nil
}

// nameOfBuild names a build for people: by its deployment and attempt, else by its id.
func nameOfBuild(s server.BuildSummary) string {
	switch {
	case s.Pipeline == "":
		return s.ID
	case s.Deployment == 0:
		return s.ID + " of " + s.Pipeline
	}
	name := fmt.Sprintf("%s#%d", s.Pipeline, s.Deployment)
	if _, attempt, ok := strings.Cut(s.ID, "."); ok && attempt != "1" {
		name += " attempt " + attempt
	}
	return name
}

// openedStep returns the step whose log is open: the one that the address names, else the first that failed, else the first at work.
func openedStep(r *http.Request, state server.BuildState, views []server.BuildStepView) (int, error) {
	if name := r.FormValue("step"); name != "" {
		step, err := server.BuildStep(state.Plan, name)
		if err != nil {
			return 0, err
		}
		return step.ID, nil
	}
	for _, wanted := range []func(build.Status) bool{build.Status.Broken, func(s build.Status) bool { return s == build.Running }} {
		for _, v := range views {
			if wanted(v.Status) {
				return v.ID, nil
			}
		}
	}
	if state.Ended() && state.Status != build.Completed {
		return 0, nil // a build that failed before a step did says why in its own log
	}
	return -1, nil
}

// firstStep returns the index of the first step on this page.
func (p *buildPage) firstStep(r *http.Request, opened int) (int, error) {
	from, err := queryNumber(r, "from")
	if err != nil {
		return 0, err
	}
	if from == 0 && opened > stepsShown {
		from = int64((opened-1)/stepsShown*stepsShown + 1)
	}
	return int(min(max(from-1, 0), int64(max(len(p.Plan.Steps)-1, 0)))), nil
}

// fillStages makes the graph. Of a stage with many steps those that failed come first.
func (p *buildPage) fillStages(views []server.BuildStepView) {
	byID := map[int]server.BuildStepView{}
	for _, v := range views {
		byID[v.ID] = v
	}
	for _, stage := range p.Plan.Stages {
		column := stageColumn{Name: stage.Name}
		ids := slices.Clone(stage.Steps)
		if len(ids) > stageStepsShown {
			slices.SortStableFunc(ids, func(a, b int) int { return weight(byID[a].Status) - weight(byID[b].Status) })
			column.More = len(ids) - stageStepsShown
			ids = ids[:stageStepsShown]
		}
		for _, id := range ids {
			card := stepCard{BuildStepView: byID[id], Address: p.addressOf(id)}
			for _, need := range byID[id].Needs[:min(len(byID[id].Needs), 5)] {
				card.Needs = append(card.Needs, byID[need].Path())
			}
			column.Steps = append(column.Steps, card)
		}
		p.Stages = append(p.Stages, column)
	}
}

func weight(s build.Status) int {
	switch {
	case s.Broken():
		return 0
	case s == build.Running || s == build.Backoff:
		return 1
	}
	return 2
}

// addressOf returns the address of the log of a step.
func (p *buildPage) addressOf(step int) string {
	anchor := "#log-" + strconv.Itoa(step)
	if len(p.Plan.Steps) <= stepsShown {
		return anchor
	}
	return "/builds/" + url.PathEscape(p.ID) + "?step=" + strconv.Itoa(step) + anchor
}

// fillTests gathers the tests to show: those that failed before those that were flaky.
func (p *buildPage) fillTests() {
	for _, outcome := range []testresult.Outcome{testresult.Failed, testresult.Flaky} {
		for _, file := range p.Notable {
			for _, r := range file.Results {
				if r.Outcome != outcome {
					continue
				}
				if len(p.Failing) == testsShown {
					p.MoreTests++
					continue
				}
				p.Failing = append(p.Failing, failedTest{r, file.Step, p.Plan.Step(file.Step).Path(), p.addressOf(file.Step)})
			}
		}
	}
}

func (p *buildPage) fillFiles() {
	for _, a := range p.Artifacts {
		if len(p.Files) == artifactsShown {
			p.MoreFiles++
			continue
		}
		p.Files = append(p.Files, server.BuildArtifact{StepID: a.Step, Artifact: a})
	}
}

// cutSteps chooses the steps whose logs are on this page: the build itself, and those from an index on.
func (p *buildPage) cutSteps(r *http.Request, views []server.BuildStepView, first, opened int) {
	last := p.Last(0)
	whole := server.BuildStepView{Status: p.Status, StartedOn: p.StartedOn, FinishedOn: p.FinishedOn}
	if whole.LogEntries = p.Logs[0].ID; last.Trailer != nil {
		whole.LogEntries = last.Trailer.Entries
	}
	p.Steps = append(p.Steps, stepLog{BuildStepView: whole, Open: opened == 0})
	end := min(len(views), first+stepsShown)
	for _, v := range views[first:end] {
		p.Steps = append(p.Steps, stepLog{BuildStepView: v, Open: v.ID == opened})
	}
	if first > 0 {
		p.Earlier = withQuery(r, "from", strconv.Itoa(max(1, first+1-stepsShown)))
	}
	if end < len(views) {
		p.Later = withQuery(r, "from", strconv.Itoa(end+1))
	}
}

// Over reports whether nothing more will be printed.
func (l stepLog) Over() bool { return l.Status.Ended() }

func countLines(n int64) string { return plural(int(n), "line", "lines") }

// fill reads how long a log is, unless that is known, and the rows of one that is open.
func (l *stepLog) fill(r *http.Request, reader server.BuildReader, known bool) error {
	l.Lines = l.LogEntries
	begun := l.Status != build.Pending && l.Status != build.Skipped
	if l.Lines == 0 && begun && !known {
		end, err := reader.Locate(r.Context(), l.ID, server.LogPlace{After: math.MaxInt64})
		if err != nil {
			return err
		}
		l.Lines = end.ID
	}
	if !l.Open {
		return nil
	}
	after := max(0, l.Lines-rowsShown)
	if r.FormValue("after") != "" && r.FormValue("step") != "" {
		n, err := queryNumber(r, "after")
		if err != nil {
			return err
		}
		after = min(n, l.Lines)
	}
	var err error
	if l.Rows, err = readRows(r.Context(), reader, l.ID, after, rowsShown); err != nil {
		return err
	}
	l.addLinks(r, after)
	return nil
}

// addLinks adds the addresses of the entries before and after those that are shown.
func (l *stepLog) addLinks(r *http.Request, after int64) {
	address := func(after int64) string {
		query := url.Values{"step": {strconv.Itoa(l.ID)}, "after": {strconv.FormatInt(max(after, 0), 10)}}
		if style := r.FormValue("time"); style != "" {
			query.Set("time", style)
		}
		return r.URL.Path + "?" + query.Encode() + "#log-" + strconv.Itoa(l.ID)
	}
	if after > 0 {
		l.First, l.Earlier = address(0), address(after-rowsShown)
	}
	if after+rowsShown < l.Lines {
		l.Later, l.Last = address(after+rowsShown), address(l.Lines-rowsShown)
	}
}

// readRows reads entries of a step as rows.
func readRows(ctx context.Context, reader server.BuildReader, step int, after int64, limit int) ([]logRow, error) {
	rows := []logRow{}
	q := server.BuildLogQuery{Steps: []int{step}, From: step, After: after, Limit: limit}
	err := server.EachBuildEntry(ctx, reader, q, func(e server.BuildEntry) error {
		row := logRow{Step: step, ID: e.ID, At: e.At, Partial: e.Partial}
		line, cut := logLine(e.Text)
		row.Text, row.Cut = template.HTML(line), cut // logLine has escaped the text
		switch {
		case e.Waybill:
			row.Stream = "w"
		case e.Stderr:
			row.Stream = "e"
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// buildRows answers the script of a build's page with rows of a step's log.
func (p *Pages) buildRows(w http.ResponseWriter, r *http.Request) {
	rows, err := p.rowsFor(r)
	if err != nil {
		server.WriteProblem(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	var page strings.Builder
	if err := p.templates.ExecuteTemplate(&page, "rows", map[string]any{"rows": rows}); err != nil {
		server.WriteProblem(w, r, err)
		return
	}
	_, _ = w.Write([]byte(page.String())) // a browser that has gone needs no page
}

func (p *Pages) rowsFor(r *http.Request) ([]logRow, error) {
	after, err := queryNumber(r, "after")
	if err != nil {
		return nil, err
	}
	limit, err := queryNumber(r, "limit")
	if err != nil {
		return nil, err
	}
	if limit == 0 || limit > mostRows {
		return nil, fault.New(fault.Invalid, "limit: want a number of 1 to %d", mostRows)
	}
	reader, state, err := p.service.BuildState(r.Context(), r.PathValue("build"))
	if err != nil {
		return nil, err
	}
	step, err := server.BuildStep(state.Plan, r.FormValue("step"))
	if err != nil {
		return nil, err
	}
	return readRows(r.Context(), reader, step.ID, after, int(limit))
}

// Clock returns the time of a row within its day.
func (row logRow) Clock() string {
	if row.At.IsZero() {
		return ""
	}
	return row.At.UTC().Format("15:04:05.000")
}

// Millis returns the time of a row in milliseconds since 1970.
func (row logRow) Millis() int64 { return row.At.UnixMilli() }

// TimeOf returns the time of a row as a reader without script asks for it: clock, since (the start of the step), or none.
func (l stepLog) TimeOf(style string, row logRow) string {
	switch {
	case style == "clock":
		return row.Clock()
	case style == "since" && !row.At.IsZero() && !l.StartedOn.IsZero():
		return fmt.Sprintf("%.2fs", row.At.Sub(l.StartedOn).Seconds())
	}
	return ""
}

// visible returns foreign text without what a terminal or a page would obey.
func visible(text string) string { return build.Printable(text, nil) }

// buildTone returns the class of a status of a build or a step.
func buildTone(s build.Status) string {
	switch s {
	case build.Completed, build.Reused:
		return "t-finished"
	case build.Failed, build.TimedOut, build.Lost:
		return "t-failed"
	case build.Canceled, build.Skipped:
		return "t-ended"
	case build.Backoff:
		return "t-backoff"
	case build.Running, build.Initializing, build.Scheduling:
		return "t-running"
	}
	return "t-waiting"
}

// buildWord returns a status as people write it.
func buildWord(s build.Status) string {
	switch s {
	case build.TimedOut:
		return "timed out"
	case build.Pending:
		return "waits"
	}
	return strings.ToLower(string(s))
}

// Maker returns the name of the step that made an artifact.
func (p buildPage) Maker(a server.BuildArtifact) string { return p.Plan.Step(a.StepID).Path() }
