package service

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
)

// ServiceRestart is a person's wish to have the service on a host restarted.
type ServiceRestart struct {
	Pipeline string
	Target   string // a host, such as greeter/beta/all/oak
	Reason   string
	Verify   bool // a release whose files have changed is built beside and switched to
	By       string
}

// RestartService stores the action that restarts the service of a host's current release; a live one for the host is the
// answer. The error is fault.NotFound if the definition in force does not have the host, and fault.Refused if Waybill runs no
// service there, or a deployment is at work on it.
func (s *Service) RestartService(ctx context.Context, r ServiceRestart) (AddedAction, error) {
	if err := checkReason(r.Reason); err != nil {
		return AddedAction{}, err
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return AddedAction{}, err
	}
	var made action.Action
	if err := s.withFold(ctx, r.Pipeline, func(f *fold) (err error) {
		made, err = s.restartAction(ctx, f, r, now)
		return err
	}); err != nil {
		return AddedAction{}, err
	}
	return s.enqueue(ctx, made, queue.EnqueueOptions{})
}

// restartAction returns the action of a restart, or why there is none.
func (s *Service) restartAction(ctx context.Context, f *fold, r ServiceRestart, now time.Time) (action.Action, error) {
	version, plan := f.engine.Current()
	if plan == nil {
		return action.Action{}, fault.New(fault.NotFound, "pipeline %s has no definition yet", r.Pipeline)
	}
	d := plan.Definition()
	for _, host := range s.hostViews(ctx, f, d) {
		if host.Target != r.Target {
			continue
		}
		switch {
		case !host.service.Supervised():
			return action.Action{}, fault.New(fault.Refused, "no service runs on %s: its manager is %s", r.Target, host.service.Manager)
		case host.Runs == nil:
			return action.Action{}, fault.New(fault.Refused, "nothing was deployed to %s yet", r.Target)
		}
		if number := f.atWork(d, host.place, now); number != 0 {
			ref := Ref{Pipeline: r.Pipeline, Number: number}
			return action.Action{}, fault.New(fault.Refused, "%s is at work on %s", ref, r.Target).
				WithHint("waybill deployment watch %s, then restart", ref)
		}
		return step.RestartAction(step.Restart{Pipeline: r.Pipeline, Target: r.Target, Version: version, Deployment: host.Runs.Deployment,
			Revision: host.Runs.Revision, Reason: r.Reason, Verify: r.Verify}, host.place, host.service, r.By)
	}
	return action.Action{}, fault.New(fault.NotFound, "pipeline %s has no host %q", r.Pipeline, r.Target)
}

// atWork returns the number of the deployment that has a live step on a host, also by another target of the same service; 0
// if there is none.
func (f *fold) atWork(d *pipeline.Definition, at pipeline.Place, now time.Time) int64 {
	resource, same := d.ResourceOf(at.Stage, at.Group, at.Host), map[string]bool{}
	for each := range d.EachHost() {
		same[each.Target] = d.ResourceOf(each.Stage, each.Group, each.Host) == resource
	}
	for _, active := range f.engine.Deployments(true) {
		if active.Live == 0 {
			continue
		}
		for _, open := range f.engine.Explain(active.Deployment, now) {
			if open.State == pipeline.StateClaimed && same[open.Target] {
				return active.Deployment
			}
		}
	}
	return 0
}
