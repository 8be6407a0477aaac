package cli

import (
	"context"
	"strings"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// nextStep is what ship does with a revision that is registered.
type nextStep struct {
	todo       string
	deployment *ledger.Deployment // that is taken further, or has ended; nil to make one
	refused    error              // why ship ends with an error, although there is nothing to do
	differs    []string           // what hosts lack, and the command that brings it, when the revision has finished
}

// nextStep decides what ship does with a registered revision. It is the only decision: plan prints it, ship executes it.
func (a *app) nextStep(ctx context.Context, ops assembly.Operations, r ledger.Revision, flags shipFlags) (nextStep, error) {
	made, err := ops.Deployments(ctx, ledger.DeploymentQuery{Pipeline: r.Pipeline, Revision: r.Seq, Limit: 1})
	if err != nil {
		return nextStep{}, err
	}
	if len(made) == 0 || flags.again && made[0].Status != pipeline.StatusActive {
		return nextStep{todo: show.TodoShip}, nil
	}
	d := &made[0]
	if d.Status != pipeline.StatusActive && !flags.detach {
		active, err := ops.Deployments(ctx, ledger.DeploymentQuery{Pipeline: r.Pipeline, Status: pipeline.StatusActive, Limit: 1})
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
		return finishedBefore(ctx, ops, d)
	default:
		v, err := ops.Deployment(ctx, show.RefOf(*d))
		return nextStep{todo: show.TodoNothing, deployment: d, refused: show.Stopped(v)}, err
	}
}

// finishedBefore is the step of a revision that has finished: none. It is refused when a newer one has replaced it since.
func finishedBefore(ctx context.Context, ops assembly.Operations, d *ledger.Deployment) (nextStep, error) {
	next := nextStep{todo: show.TodoNothing, deployment: d}
	newer, err := replacement(ctx, ops, *d)
	if err != nil {
		return next, err
	}
	if newer != nil {
		next.refused = fault.New(fault.Canceled, "%s finished as %s; %s has replaced it by %s since", d.Label, show.RefOf(*d), show.RefOf(*newer), newer.Label).
			WithHint("waybill ship --again, to deploy %s once more", d.Label)
		return next, nil
	}
	p, err := ops.Pipeline(ctx, d.Pipeline)
	if err != nil {
		return next, err
	}
	drift := map[string]bool{}
	for _, each := range p.Drift {
		drift[each.Target] = true
		next.differs = append(next.differs, strings.TrimPrefix(each.Target, d.Pipeline+"/")+" "+each.Reason+": waybill ship --again deploys to it once more")
	}
	for _, h := range p.Hosts {
		if h.Service != nil && h.Service.State == server.ServiceDown && !drift[h.Target] {
			next.differs = append(next.differs, "the service on "+strings.TrimPrefix(h.Target, d.Pipeline+"/")+" is down: waybill ship --again starts it")
		}
	}
	return next, nil
}

// isNewest reports whether a revision is the one registered last: only its waybill.yaml is applied.
func isNewest(ctx context.Context, ops assembly.Operations, r ledger.Revision) (bool, error) {
	newest, err := ops.Revisions(ctx, r.Pipeline, 1)
	return err == nil && len(newest) > 0 && newest[0].Seq == r.Seq, err
}
