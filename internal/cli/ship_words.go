package cli

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// inProgress prints what a deployment that an earlier run left active continues with.
func (s *shipment) inProgress(ctx context.Context, d ledger.Deployment) error {
	v, err := s.Deployment(ctx, show.RefOf(d))
	if err != nil || v.State.Status != pipeline.StatusActive {
		return err
	}
	s.printer().Note("%s", show.InProgress(v))
	return nil
}

// nothingToDo prints that a revision has finished. When hosts differ from that, it offers at a terminal to deploy again.
func (s *shipment) nothingToDo(ctx context.Context, r ledger.Revision, next nextStep) (*ledger.Deployment, error) {
	d := *next.deployment
	if s.json() {
		if err := s.printer().Line(d); err != nil {
			return nil, err
		}
	}
	s.printer().Note("nothing to do: %s finished as %s, %s", d.Label, show.RefOf(d), show.Ago(time.Now(), d.EndedAt))
	for _, text := range next.differs {
		s.printer().Note("but %s", text)
	}
	if len(next.differs) > 0 && !s.json() && !s.flags.detach && s.ask(ctx, "deploy it again now?") {
		return s.deployAgain(ctx, r)
	}
	return nil, nil
}

// replacement is the newest deployment of another revision that is under way or has finished after d; nil without one.
func replacement(ctx context.Context, ops assembly.Operations, d ledger.Deployment) (*ledger.Deployment, error) {
	recent, err := ops.Deployments(ctx, ledger.DeploymentQuery{Pipeline: d.Pipeline, Limit: ancestryLimit})
	if err != nil {
		return nil, err
	}
	for _, other := range recent {
		if other.Number > d.Number && other.Revision != d.Revision && (other.Status == pipeline.StatusFinished || other.Status == pipeline.StatusActive) {
			return &other, nil
		}
	}
	return nil, nil
}

// outcome says how a deployment ended. again is true when somebody at the terminal asked for a retry.
func (s *shipment) outcome(ctx context.Context, v server.DeploymentView) (again bool, err error) {
	switch v.State.Status {
	case pipeline.StatusFinished:
		s.printer().Note("%s", show.Finished(v, s.printer().Style, s.printer().Columns))
		return false, nil
	case pipeline.StatusFailed:
		return s.failed(ctx, v)
	case pipeline.StatusActive:
		s.printer().Note("%s", show.Halfway(v, s.printer().Style))
		return false, nil
	default:
		return false, show.Stopped(v)
	}
}

// failed says what failed, why, and what to do; at a terminal it offers the retry.
func (s *shipment) failed(ctx context.Context, v server.DeploymentView) (again bool, err error) {
	ref, err := show.RefOf(v.Deployment), show.Failed(v)
	if s.json() || !onTerminal(s.out) || !s.canAsk() {
		return false, err
	}
	s.report(err)
	if !s.ask(ctx, "retry it now?") {
		return false, shown{err}
	}
	if err := s.Command(ctx, ref, server.Command{Kind: "retry", By: s.User()}); err != nil {
		return false, err
	}
	return true, nil
}
