package ship

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// nextStep is the next step of ship with a registered revision.
type nextStep struct {
	todo       string              // such as show.TodoShip
	deployment *journal.Deployment // the one that is taken further, or has ended; nil to make one
	refused    error               // why ship ends with an error, although there is nothing to do
	differs    []string            // gaps of hosts, and the command that fills them, when the revision has finished
}

// decideNext decides the next step of ship with a registered revision. It is the only decision: plan prints it, ship
// executes it.
func decideNext(ctx context.Context, log operation.Caller, r pipeline.RegisteredRevision,
	flags shipFlags) (nextStep, error) {
	made, err := operation.ListDeployments.Call(ctx, log,
		operation.DeploymentsInput{Pipeline: r.Pipeline, Revision: r.Seq, Limit: ancestryLimit})
	if err != nil {
		return nextStep{}, err
	}
	// A deployment to one target alone proves nothing about other targets.
	made = slices.DeleteFunc(made, func(d journal.Deployment) bool { return d.Kind == journal.Part && d.Status != pipeline.StatusActive })
	if len(made) == 0 || flags.again && made[0].Status != pipeline.StatusActive {
		return nextStep{todo: show.TodoShip}, nil
	}
	d := &made[0]
	if d.Status != pipeline.StatusActive && !flags.detach {
		active, err := operation.ListDeployments.Call(ctx, log,
			operation.DeploymentsInput{Pipeline: r.Pipeline, Status: string(pipeline.StatusActive), Limit: 1})
		if err != nil {
			return nextStep{}, err
		}
		if len(active) > 0 {
			d = &active[0]
		}
	}
	switch d.Status {
	case pipeline.StatusActive:
		return nextStep{todo: show.TodoContinue, deployment: d}, nil
	case pipeline.StatusFailed:
		return nextStep{todo: show.TodoRetry, deployment: d}, nil
	case pipeline.StatusFinished:
		return finishedBefore(ctx, log, d)
	default:
		v, err := operation.GetDeployment.Call(ctx, log, operation.PathOf(show.RefOf(*d)))
		return nextStep{todo: show.TodoNothing, deployment: d, refused: show.Stopped(v)}, err
	}
}

// finishedBefore returns the step for a revision that has finished: nothing. It is refused when a newer one has replaced
// it since.
func finishedBefore(ctx context.Context, log operation.Caller, d *journal.Deployment) (nextStep, error) {
	next := nextStep{todo: show.TodoNothing, deployment: d}
	newer, err := replacement(ctx, log, *d)
	if err != nil {
		return next, err
	}
	if newer != nil {
		v, err := operation.GetDeployment.Call(ctx, log, operation.PathOf(show.RefOf(*d)))
		next.refused = show.Replaced(v, *newer)
		return next, err
	}
	p, err := operation.GetPipeline.Call(ctx, log, operation.PipelinePath{Pipeline: d.Pipeline})
	if err != nil {
		return next, err
	}
	next.differs = differences(p)
	return next, nil
}

// differences returns the gaps of a pipeline's hosts, each with the command that brings it.
func differences(p service.PipelineView) (differs []string) {
	drift := map[string]bool{}
	for _, each := range p.Drift {
		drift[each.Target] = true
		host := strings.TrimPrefix(each.Target, p.Name+"/")
		differs = append(differs, host+" "+each.Reason+": "+each.Remedy(p.Name)+" deploys to it once more")
	}
	for _, h := range p.Hosts {
		if h.Service != nil && h.Service.State == service.ServiceDown && !drift[h.Target] {
			differs = append(differs, "the service on "+strings.TrimPrefix(h.Target, p.Name+"/")+" is down: waybill ship --again starts it")
		}
	}
	return differs
}

// replacement returns the newest deployment of another revision that is active or has finished after d; nil without one.
func replacement(ctx context.Context, log operation.Caller, d journal.Deployment) (*journal.Deployment, error) {
	recent, err := operation.ListDeployments.Call(ctx, log, operation.DeploymentsInput{Pipeline: d.Pipeline, Limit: ancestryLimit})
	if err != nil {
		return nil, err
	}
	for _, other := range recent {
		if other.Number > d.Number && other.Revision != d.Revision &&
			(other.Status == pipeline.StatusFinished || other.Status == pipeline.StatusActive) {
			return &other, nil
		}
	}
	return nil, nil
}

// isNewest reports whether a revision is the one registered last: only its waybill.yaml is applied.
func isNewest(ctx context.Context, log operation.Caller, r pipeline.RegisteredRevision) (bool, error) {
	newest, err := operation.ListRevisions.Call(ctx, log,
		operation.RevisionsInput{PipelinePath: operation.PipelinePath{Pipeline: r.Pipeline}, Limit: 1})
	return err == nil && len(newest) > 0 && newest[0].Seq == r.Seq, err
}
