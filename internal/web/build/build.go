// Package build serves the pages of builds.
package build

import (
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/testresult"
	"github.com/waybill-dev/waybill/internal/web/page"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages serves the pages of builds.
type pages struct {
	service *service.Service
	rows    *template.Template
}

// Register adds the pages and forms of builds to a site.
func Register(site *page.Site, waybill *service.Service) {
	functions := statusFunctions()
	maps.Copy(functions, template.FuncMap{
		"join": page.Join, "size": service.Size, "digest": page.ShortDigest, "visible": visible, "nameOfBuild": nameOfBuild,
	})
	p := &pages{waybill, site.Template(templateFiles, nil, "rows")}
	site.Handle("GET /builds", site.Template(templateFiles, functions, "builds"), p.builds)
	site.Handle("GET /builds/{build}", site.Template(templateFiles, functions, "build", "rows"), p.build)
	site.HandleFunc("GET /builds/{build}/rows", p.buildRows)
	site.HandleForm("POST /builds", service.ScopeExecute, p.run)
	site.HandleForm("POST /builds/{build}/rerun", service.ScopeExecute, p.rerun)
	site.HandleForm("POST /builds/{build}/cancel", service.ScopeOperate, p.cancel)
	site.HandleForm("POST /builds/{build}/delete", service.ScopeOperate, p.delete)
}

// statusFunctions returns the template functions that show statuses and logs.
func statusFunctions() template.FuncMap {
	return template.FuncMap{"buildTone": buildTone, "buildWord": buildWord, "countLines": countLines}
}

// Bounds of the pages of builds.
const (
	stepsShown       = 200                    // steps whose logs are on one page
	stageStepsShown  = 40                     // steps of a stage in the graph
	testsShown       = 50                     // failed and flaky tests
	artifactsShown   = 200                    // artifacts
	rowsShown        = 500                    // entries of one step on a page
	mostRows         = 500                    // entries of one answer to the script
	lookAtBuildAgain = 250 * time.Millisecond // longest time between two renderings of a running build's page
)

// buildPage is the data of the page of one build.
type buildPage struct {
	buildview.State
	Steps     []stepLog // steps whose logs are on this page, step 0 first
	Stages    []stageColumn
	Failing   []failedTest
	MoreTests int
	Files     []buildview.Artifact
	MoreFiles int
	Earlier   string // address of the page with the logs of earlier steps; "": none
	Later     string
	Newest    string // id of the newest build
	Time      string // format of times without script: "", clock, since
}

// failedTest is a failed or flaky test.
type failedTest struct {
	testresult.Result
	StepID  int
	Step    string
	Address string
}

// stageColumn is a stage of the graph.
type stageColumn struct {
	Name  string
	Steps []stepCard
	More  int // number of further steps
}

// stepCard is a step of the graph.
type stepCard struct {
	buildview.StepView
	Address string   // the log's
	Needs   []string // names of required steps
}

// build returns the page of one build.
func (p *pages) build(r *http.Request) (page.Content, error) {
	reader, state, err := p.service.BuildState(r.Context(), r.PathValue("build"))
	if err != nil {
		return page.Content{}, err
	}
	data := buildPage{State: state, Time: r.FormValue("time")}
	views := state.StepViews()
	opened, err := openedStep(r, state, views)
	if err != nil {
		return page.Content{}, err
	}
	first, err := data.firstStep(r, opened)
	if err != nil {
		return page.Content{}, err
	}
	if data.Newest, err = p.newestBuild(r); err != nil {
		return page.Content{}, err
	}
	data.fillStages(views)
	data.fillTests()
	data.fillFiles()
	data.cutSteps(r, views, first, opened)
	for i := range data.Steps {
		if err := data.Steps[i].fill(r, reader, state.Logs != nil); err != nil {
			return page.Content{}, err
		}
	}
	every := page.LookAgain
	if !state.Ended() && state.Logs == nil { // another process writes the files, and wakes no waiter
		every = lookAtBuildAgain
	}
	return page.Content{
		Title: "Build " + nameOfBuild(state.Summary), Nav: "builds", Data: data, Every: every, Builds: !state.Ended(),
		Styles: []string{ColourSheet}, Modules: []string{"log.js"},
	}, nil
}

// nameOfBuild names a build for people: by its deployment and attempt, else by its id.
func nameOfBuild(s buildview.Summary) string {
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

// openedStep returns the step whose log is open: the step in the address, else the first failed
// one, else the first one at work.
func openedStep(r *http.Request, state buildview.State, views []buildview.StepView) (int, error) {
	if name := r.FormValue("step"); name != "" {
		step, err := buildview.FindStep(state.Plan, name)
		if err != nil {
			return 0, err
		}
		return step.ID, nil
	}
	running := func(s build.Status) bool { return s == build.Running }
	for _, wanted := range []func(build.Status) bool{build.Status.Broken, running} {
		for _, v := range views {
			if wanted(v.Status) {
				return v.ID, nil
			}
		}
	}
	if state.Ended() && state.Status != build.Completed {
		return 0, nil // its own log has the reason
	}
	return -1, nil
}

// firstStep returns the index of the first step on this page.
func (p *buildPage) firstStep(r *http.Request, opened int) (int, error) {
	from, err := page.Number(r, "from")
	if err != nil {
		return 0, err
	}
	if from == 0 && opened > stepsShown {
		from = int64((opened-1)/stepsShown*stepsShown + 1)
	}
	return int(min(max(from-1, 0), int64(max(len(p.Plan.Steps)-1, 0)))), nil
}

// addressOf returns the address of the log of a step.
func (p *buildPage) addressOf(step int) string {
	anchor := "#log-" + strconv.Itoa(step)
	if len(p.Plan.Steps) <= stepsShown {
		return anchor
	}
	return "/builds/" + url.PathEscape(p.ID) + "?step=" + strconv.Itoa(step) + anchor
}

// fillTests gathers the tests to show: failed ones before flaky ones.
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
		p.Files = append(p.Files, buildview.Artifact{StepID: a.Step, Artifact: a})
	}
}

// cutSteps chooses the steps whose logs are on this page: the build itself, and the steps from
// index first on.
func (p *buildPage) cutSteps(r *http.Request, views []buildview.StepView, first, opened int) {
	last := p.Last(0)
	whole := buildview.StepView{Status: p.Status, StartedOn: p.StartedOn, FinishedOn: p.FinishedOn}
	if whole.LogEntries = p.Logs[0].ID; last.Trailer != nil {
		whole.LogEntries = last.Trailer.Entries
	}
	p.Steps = append(p.Steps, stepLog{StepView: whole, Open: opened == 0})
	end := min(len(views), first+stepsShown)
	for _, v := range views[first:end] {
		p.Steps = append(p.Steps, stepLog{StepView: v, Open: v.ID == opened})
	}
	if first > 0 {
		p.Earlier = page.WithQuery(r, "from", strconv.Itoa(max(1, first+1-stepsShown)))
	}
	if end < len(views) {
		p.Later = page.WithQuery(r, "from", strconv.Itoa(end+1))
	}
}

// Maker returns the name of the step that made an artifact.
func (p buildPage) Maker(a buildview.Artifact) string { return p.Plan.Step(a.StepID).Path() }

// fillStages makes the graph. In a stage with many steps, failed ones come first.
func (p *buildPage) fillStages(views []buildview.StepView) {
	byID := map[int]buildview.StepView{}
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
			card := stepCard{StepView: byID[id], Address: p.addressOf(id)}
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
