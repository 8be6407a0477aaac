package build

import (
	"context"
	"html/template"
	"math"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// Bounds of the builds on a deployment's page.
const (
	mostTails = 8  // builds
	tailRows  = 15 // last rows of a build's log
)

// tail is the newest attempt at a build, with the end of the log of the step that matters most.
type tail struct {
	buildview.Summary
	StepID  int
	Step    string // "": no step has begun
	Lines   int64
	Rows    []logRow
	Earlier []buildview.Summary // earlier attempts, newest first
}

// Tails renders the builds of a deployment for its page.
type Tails struct {
	service  *service.Service
	template *template.Template
}

// NewTails returns the renderer of a service's builds.
func NewTails(site *page.Site, service *service.Service) Tails {
	return Tails{service, site.Template(templateFiles, statusFunctions(), "tail")}
}

// Read returns the newest build of each action of a deployment, with the end of its log. A build
// whose results are not on this machine is left out.
func (b Tails) Read(ctx context.Context, d service.DeploymentView) (map[action.ID]template.HTML, error) {
	tails := map[action.ID]template.HTML{}
	for _, stage := range d.Stages {
		for _, step := range stage.Steps {
			if step.Event != pipeline.BuildCompleted || step.Action.IsZero() || len(tails) == mostTails {
				continue
			}
			list, err := b.service.Builds(ctx, buildview.Query{Action: step.Action.String(), Limit: 10})
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
			if tails[step.Action], err = page.Render(b.template, tail); err != nil {
				return nil, err
			}
		}
	}
	return tails, nil
}

// read reads the end of the log of the first failed step, else of the last step that began.
func (b Tails) read(ctx context.Context, id string) (*tail, error) {
	reader, state, err := b.service.BuildState(ctx, id)
	if err != nil {
		return nil, err
	}
	tail := &tail{Summary: state.Summary}
	for _, step := range state.StepViews() {
		if step.Status == build.Pending || step.Status == build.Skipped {
			continue
		}
		tail.StepID, tail.Step = step.ID, step.Path()
		if step.Status.Broken() {
			break
		}
	}
	end, err := reader.Locate(ctx, tail.StepID, buildview.LogPlace{After: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	tail.Lines = end.ID
	tail.Rows, err = readRows(ctx, reader, rowRange{tail.StepID, max(0, end.ID-tailRows), tailRows})
	return tail, err
}
