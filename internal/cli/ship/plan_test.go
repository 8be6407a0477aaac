package ship

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// planning returns the options of a plan on a fake log.
func planning(f *clitest.Log, o *clitest.Output) planOptions {
	return planOptions{Log: f,
		Proposal: service.Proposal{Definition: pipeline.Definition{Pipeline: "greeter"}},
		Query:    operation.PlanInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, File: "waybill.yaml", Simulate: true},
		Label:    func(context.Context) (string, error) { return "r1", nil }, Out: o.Printer}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	r1, r2 := pipeline.RegisteredRevision{Pipeline: "greeter", Seq: 1,
		Label: "r1"}, pipeline.RegisteredRevision{Pipeline: "greeter", Seq: 2, Label: "r2"}
	steps := service.PlanView{Steps: []pipeline.PlanStep{
		{StepKey: pipeline.StepKey{Target: "greeter", Event: pipeline.PipelineStarted}},
		{StepKey: pipeline.StepKey{Target: "greeter/build", Event: pipeline.BuildCompleted}, End: time.Second, Work: true}}}
	for name, c := range map[string]struct {
		fake clitest.Log
		edit bool
		todo string
		want int // planned steps
		ends fault.Code
	}{
		"a new revision": {clitest.Log{Edit: service.EditView{Unchanged: true}, Planned: steps}, false, show.TodoShip, 1, fault.Pending},
		"an active one": {clitest.Log{Edit: service.EditView{Unchanged: true}, Revisions: []pipeline.RegisteredRevision{
			r1}, Recent: []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusActive)}}, false, show.TodoContinue, 0, fault.Pending},
		"a failed one": {clitest.Log{Edit: service.EditView{Unchanged: true}, Revisions: []pipeline.RegisteredRevision{
			r1}, Recent: []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusFailed)}}, false, show.TodoRetry, 0, fault.Pending},
		"a finished one": {clitest.Log{Edit: service.EditView{Unchanged: true},
			Revisions: []pipeline.RegisteredRevision{r1}, Recent: []journal.Deployment{clitest.Deployed(2, 1,
				pipeline.StatusFinished)}, Pipelines: []service.PipelineView{{Name: "greeter"}}}, false, show.TodoNothing, 0, ""},
		"finished and edited": {clitest.Log{Edit: service.EditView{Version: 2}, Revisions: []pipeline.RegisteredRevision{r1},
			Recent:    []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusFinished)},
			Pipelines: []service.PipelineView{{Name: "greeter"}}}, false, show.TodoApply, 0, fault.Pending},
		"an older one": {clitest.Log{Edit: service.EditView{Version: 2},
			Revisions: []pipeline.RegisteredRevision{r2, r1}, Recent: []journal.Deployment{clitest.Deployed(2, 1,
				pipeline.StatusFinished)}, Pipelines: []service.PipelineView{{Name: "greeter"}}}, false, show.TodoNothing, 0, ""},
		"an edit": {clitest.Log{Edit: service.EditView{Version: 2}, Planned: steps}, true, show.TodoApply, 1, fault.Pending},
		"no edit": {clitest.Log{Edit: service.EditView{Unchanged: true}}, true, show.TodoNothing, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := clitest.NewOutput(clitest.AsJSON)
			options := planning(&c.fake, o)
			options.EditOnly = c.edit
			if err := runPlan(t.Context(), options); fault.CodeOf(err) != c.ends {
				t.Errorf("ended with %v, want %q", err, c.ends)
			}
			text := o.Printed.String()
			if !strings.Contains(text, `"todo": "`+c.todo+`"`) || strings.Count(text, `"Work": true`) != c.want {
				t.Errorf("printed %s, want %s with %d steps", text, c.todo, c.want)
			}
		})
	}
}

func TestPlanOfAStoredPipeline(t *testing.T) {
	t.Parallel()
	f, o := &clitest.Log{}, clitest.NewOutput(clitest.AsText)
	clitest.WantFault(t, runPlanStored(t.Context(),
		planStoredOptions{Log: f, Query: operation.PlanInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"},
			Simulate: true}, Out: o.Printer}), fault.Pending, "something would be done", "")
	f.WantCalls(t, "Plan greeter false")
}
