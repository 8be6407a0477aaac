package service

import (
	"context"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// CatchUp creates a deployment that brings the current revision of a group to the hosts of the target that lack it, since they
// joined late, their failure was tolerated, or they have lost it. The error is fault.Refused if it has none of these, or if
// they lack different revisions.
func (s *Service) CatchUp(ctx context.Context, want TargetRequest) (journal.Deployment, error) {
	asked, err := s.askForReleases(ctx, want)
	if err != nil {
		return journal.Deployment{}, err
	}
	d, err := s.createDecided(ctx, want, func(e *pipeline.Engine, target string) ([]pipeline.Entry, error) {
		return e.CatchUp(pipeline.CatchUp{Target: target, By: want.By, Reason: want.Reason, Lost: asked.lost})
	})
	return d, asked.explain(err)
}

// PreviewCatchUp returns what CatchUp would do, or the error with which it would refuse.
func (s *Service) PreviewCatchUp(ctx context.Context, want TargetRequest) (RollbackPreview, error) {
	preview := RollbackPreview{Target: targetOrAll(want.Pipeline, want.Target)}
	if _, err := s.ReadHead(ctx, want.Pipeline); err != nil {
		return preview, err
	}
	asked, err := s.askForReleases(ctx, want)
	if err != nil {
		return preview, err
	}
	return preview, asked.explain(s.withFold(ctx, want.Pipeline, func(f *fold) error {
		rows, err := f.engine.CatchUp(pipeline.CatchUp{Target: preview.Target, Lost: asked.lost})
		if err != nil {
			return err
		}
		return s.readRollback(ctx, f, rows, &preview)
	}))
}

// askedReleases holds the answers of hosts about their releases.
type askedReleases struct {
	pipeline string
	lost     []string // hosts that do not have the release in the log
	silent   []string // hosts that did not answer
	left     int      // how many hosts more than mostLooks the target has
}

// askForReleases asks at most mostLooks hosts of a target which releases they have. A person may ask right after something has
// happened to a host, so earlier observations do not count for these.
func (s *Service) askForReleases(ctx context.Context, want TargetRequest) (asked askedReleases, err error) {
	asked.pipeline = want.Pipeline
	view, err := s.pipelineView(ctx, want.Pipeline, 1)
	if err != nil {
		return asked, err
	}
	target := targetOrAll(want.Pipeline, want.Target)
	view.Hosts = slices.DeleteFunc(view.Hosts, func(v HostView) bool { return !isWithin(v.Target, target) })
	s.lookAtServices(ctx, view.Hosts, func(*HostView) (sight, bool) { return sight{}, false })
	for _, d := range append(view.Drift, s.lostReleases(&view)...) {
		if d.Lost && isWithin(d.Target, target) {
			asked.lost = append(asked.lost, d.Target)
		}
	}
	for i := range view.Hosts {
		if view.Hosts[i].skipped {
			asked.left++
		}
		if view.Hosts[i].seen.err != nil {
			asked.silent = append(asked.silent, view.Hosts[i].Target)
		}
	}
	return asked, nil
}

// explain adds to a refusal which host may lack a release although it did not report it.
func (a askedReleases) explain(err error) error {
	switch {
	case !fault.Is(err, fault.Refused), fault.HintOf(err) != "":
		return err
	case len(a.silent) > 0:
		return fault.New(fault.Refused, "%w; %s does not answer", err, below(a.silent[0])).
			WithHint("waybill service status %s %s says why", a.pipeline, below(a.silent[0]))
	case a.left > 0:
		return fault.New(fault.Refused, "%w; %d hosts of the target were not asked", err, a.left).
			WithHint("name a stage, a group or a host: at most %d hosts are asked at a time", mostLooks)
	}
	return err
}
