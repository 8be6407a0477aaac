package build

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// buildOutcome is the result of a build and its steps.
type buildOutcome struct {
	show.BuildSummary
	plan    *build.Plan
	updates map[int][]build.Update // by step
}

// outcome reads the outcome of the build.
func (o buildLogOptions) outcome(ctx context.Context) (b buildOutcome, err error) {
	if o.Server != nil {
		view, err := operation.GetBuild.Call(ctx, o.Server, operation.BuildPath{ID: o.Build})
		return buildOutcome{summaryFrom(view.Summary), cmp.Or(view.Plan, &build.Plan{}), view.Done}, err
	}
	d, _, err := showBuildOptions{Builds: o.Builds, Name: o.Build}.readHere()
	return buildOutcome{d.BuildSummary, d.Plan, d.Updates}, err
}

// explainEmpty reports why a log has no entries, unless a program ran that printed none. A step that may still run is
// a remark, and so is a skipped one; every other end is an error with the exit status of that end. missing is the
// error if the build has no such step, which is because it has none yet if it never began.
func (o buildLogOptions) explainEmpty(ctx context.Context, missing error) error {
	b, err := o.outcome(ctx)
	switch {
	case missing != nil && (err != nil || len(b.plan.Steps) > 0):
		return missing
	case err != nil:
		return err
	}
	text, status, empty := b.explain(o.Build, o.Step)
	if !empty {
		return nil
	}
	switch status {
	case build.Failed, build.TimedOut, build.Lost:
		return fault.New(fault.Failed, "%s", text)
	case build.Canceled:
		return fault.New(fault.Canceled, "%s", text)
	}
	o.Out.Warn("%s", text)
	return nil
}

// explain returns the outcome of a build or of one of its steps, and whether no program of it ran.
func (b buildOutcome) explain(id, name string) (text string, status build.Status, empty bool) {
	text, status = fmt.Sprintf("build %s: %s", id, statusLine(b.Status, b.Reason)), b.Status
	if step, err := buildview.FindStep(b.plan, name); err == nil && step.ID != 0 {
		if last := b.last(step.ID); last.Status.Ended() {
			text, status = b.stepLine(step), last.Status
		}
		return text, status, !b.ran(step.ID)
	}
	for i := range b.plan.Steps {
		step := &b.plan.Steps[i]
		switch last := b.last(step.ID); {
		case b.ran(step.ID):
			return "", "", false
		case last.Status.Ended() && last.Status != build.Skipped && last.Status != build.Canceled:
			text += "\n" + b.stepLine(step)
		}
	}
	return text, status, true
}

// stepLine names a step with its status and the reason.
func (b buildOutcome) stepLine(step *build.PlanStep) string {
	last := b.last(step.ID)
	return step.Path() + ": " + statusLine(last.Status, last.Reason)
}

// last returns the newest status of a step.
func (b buildOutcome) last(step int) build.Update {
	if updates := b.updates[step]; len(updates) > 0 {
		return updates[len(updates)-1]
	}
	return build.Update{Status: build.Pending}
}

// ran reports whether a step's program has begun, so that it may have printed something.
func (b buildOutcome) ran(step int) bool {
	return slices.ContainsFunc(b.updates[step], func(u build.Update) bool {
		return u.Status == build.Running || u.Status == build.Completed || u.Status == build.Reused
	})
}

// statusLine returns a status with its reason.
func statusLine(status build.Status, reason string) string {
	if reason == "" {
		return string(status)
	}
	return string(status) + ", " + reason
}
