package web

import (
	"context"
	"html/template"
	"math"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// Bounds of the builds on a deployment's page.
const (
	buildTails = 8  // builds
	tailRows   = 15 // last rows of a build's log
)

// buildTail is the newest attempt at building, with the end of the log of the step that matters most.
type buildTail struct {
	server.BuildSummary
	StepID  int
	Step    string // "": no step has begun
	Lines   int64
	Rows    []logRow
	Earlier []server.BuildSummary // the attempts before, newest first
}

// BuildTails show the builds of a deployment on its page.
type BuildTails struct {
	service  *server.Service
	template *template.Template
}

// NewBuildTails returns the builds of the deployments of a service.
func NewBuildTails(site *Site, service *server.Service) BuildTails {
	return BuildTails{service, site.Template(templateFiles, statusFunctions(), "buildtail")}
}

// Read returns the newest build of each action of a deployment, with the end of its log, if this machine has it.
func (b BuildTails) Read(ctx context.Context, d server.DeploymentView) (map[action.ID]template.HTML, error) {
	tails := map[action.ID]template.HTML{}
	for _, stage := range d.Stages {
		for _, step := range stage.Steps {
			if step.Event != pipeline.BuildCompleted || step.Action.IsZero() || len(tails) == buildTails {
				continue
			}
			list, err := b.service.Builds(ctx, server.BuildQuery{Action: step.Action.String(), Limit: 10})
			if err != nil {
				return nil, err
			}
			if len(list.Builds) == 0 {
				continue
			}
			tail, err := b.read(ctx, list.Builds[0].ID)
			if fault.Is(err, fault.NotFound) {
				continue // removed just now
			} else if err != nil {
				return nil, err
			}
			tail.Earlier = list.Builds[1:]
			if tails[step.Action], err = Render(b.template, tail); err != nil {
				return nil, err
			}
		}
	}
	return tails, nil
}

// read reads the end of the log of the first step that failed, else of the last one that began.
func (b BuildTails) read(ctx context.Context, id string) (*buildTail, error) {
	reader, state, err := b.service.BuildState(ctx, id)
	if err != nil {
		return nil, err
	}
	tail := &buildTail{BuildSummary: state.BuildSummary}
	for _, step := range state.StepViews() {
		if step.Status == build.Pending || step.Status == build.Skipped {
			continue
		}
		tail.StepID, tail.Step = step.ID, step.Path()
		if step.Status.Broken() {
			break
		}
	}
	end, err := reader.Locate(ctx, tail.StepID, server.LogPlace{After: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	tail.Lines = end.ID
	tail.Rows, err = readRows(ctx, reader, tail.StepID, max(0, end.ID-tailRows), tailRows)
	return tail, err
}
