package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Approval is a person's approval or rejection of a stage.
type Approval struct {
	Pipeline   string `json:"pipeline"`
	Stage      string `json:"stage"`      // by name
	Revision   string `json:"revision"`   // label; "": of the one deployment that waits
	Deployment int64  `json:"deployment"` // 0: the one of the revision that waits
	Reject     bool   `json:"reject"`
	Reason     string `json:"reason"`
	By         string `json:"by"`
}

// ApprovalView is a recorded approval or rejection.
type ApprovalView struct {
	Pipeline   string                   `json:"pipeline"`
	Deployment int64                    `json:"deployment"`
	Revision   string                   `json:"revision"` // label
	Stage      string                   `json:"stage"`
	Rejected   bool                     `json:"rejected"`
	Pending    *admission.ApprovalState `json:"pending,omitempty"` // the remaining need of the stage; left out: none
	// By, At and Reason are those of the record in a pipeline of Kubernetes, where the first one of a person remains.
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// Approve records an approval or a rejection. Repeating it changes nothing. The error is fault.Refused if the stage
// does not wait, or several deployments do and none is named, and fault.Forbidden if the person may not approve it.
func (s *Service) Approve(ctx context.Context, a Approval) (view ApprovalView, err error) {
	if OfKubernetes(a.Pipeline) {
		return s.ApproveEnvironment(ctx, EnvironmentApproval{Approval: a})
	}
	if err := checkReason(a.Reason); err != nil {
		return view, err
	}
	if _, err := s.ReadHead(ctx, a.Pipeline); err != nil {
		return view, err
	}
	if a.Deployment != 0 {
		if err := s.checkLive(ctx, Ref{a.Pipeline, a.Deployment}); err != nil {
			return view, err
		}
	}
	err = s.appendDecided(ctx, a.Pipeline, a.By, func(e *pipeline.Engine, _ time.Time) ([]pipeline.Entry, error) {
		d, err := waitingAt(e, a)
		if err != nil {
			return nil, err
		}
		view = ApprovalView{Pipeline: a.Pipeline, Deployment: d.Deployment, Revision: d.Label, Stage: a.Stage, Rejected: a.Reject}
		intent := pipeline.Command{Kind: pipeline.ApprovalGiven, Deployment: d.Deployment,
			Target: pipeline.Path(a.Pipeline, a.Stage), By: a.By, Groups: s.groupsOf(a.By), Reason: a.Reason}
		if a.Reject {
			intent.Kind = pipeline.ApprovalRejected
		}
		return e.Command(intent)
	})
	if err != nil {
		return view, err
	}
	return view, s.withFold(ctx, a.Pipeline, func(f *fold) error {
		d, _ := f.engine.Deployment(view.Deployment)
		view.Pending = pendingAt(d, a.Stage)
		return nil
	})
}

// groupsOf lists the groups that a person is in now, in alphabetical order.
func (s *Service) groupsOf(person string) (names []string) {
	if s.offers.Groups == nil {
		return nil
	}
	for name, people := range s.offers.Groups() {
		if slices.Contains(people, person) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// waitingAt returns the deployment that an approval is for.
func waitingAt(e *pipeline.Engine, a Approval) (pipeline.DeploymentState, error) {
	active := e.Deployments(true)
	named := slices.DeleteFunc(slices.Clone(active), func(d pipeline.DeploymentState) bool {
		return a.Revision != "" && d.Label != a.Revision || a.Deployment != 0 && d.Deployment != a.Deployment
	})
	waiting := slices.DeleteFunc(slices.Clone(named), func(d pipeline.DeploymentState) bool { return pendingAt(d, a.Stage) == nil })
	switch {
	case len(waiting) == 1 || len(waiting) > 1 && a.Revision != "": // several of one revision: the oldest first
		return waiting[0], nil
	case len(waiting) > 1:
		return pipeline.DeploymentState{}, fault.New(fault.Refused, "several deployments wait for approval of %s", a.Stage).
			WithHint("name the revision: %s", strings.Join(waitingWords(a.Pipeline, waiting), "; "))
	case len(named) > 0 && (a.Revision != "" || a.Deployment != 0): // the engine knows why it does not wait
		return named[len(named)-1], nil
	case a.Deployment != 0:
		return pipeline.DeploymentState{Deployment: a.Deployment}, nil // likewise
	}
	return pipeline.DeploymentState{}, refuseApproval(e, a, active)
}

// refuseApproval reports why no deployment waits for an approval.
func refuseApproval(e *pipeline.Engine, a Approval, active []pipeline.DeploymentState) error {
	if _, plan := e.Current(); plan != nil {
		if _, _, _, known := plan.Definition().Find(pipeline.Path(a.Pipeline, a.Stage)); !known {
			var names []string
			for _, stage := range plan.Definition().Stages {
				names = append(names, stage.Name)
			}
			return fault.New(fault.NotFound, "pipeline %s has no stage %q", a.Pipeline, a.Stage).WithNearest(a.Stage, names)
		}
	}
	err := fault.New(fault.Refused, "nothing waits for approval of %s in %s", a.Stage, a.Pipeline)
	if words := waitingWords(a.Pipeline, active); len(words) > 0 {
		return err.WithHint("what waits: %s", strings.Join(words, "; "))
	}
	return err.WithHint("waybill pipeline show %s shows where its deployments are", a.Pipeline)
}

// waitingWords returns the stages that wait for approval, such as "greeter#4 (3f2c9a1) at prod".
func waitingWords(name string, list []pipeline.DeploymentState) (words []string) {
	for _, d := range list {
		for _, a := range d.Approvals {
			words = append(words, Ref{name, d.Deployment}.String()+" ("+d.Label+") at "+a.Stage)
		}
	}
	return words
}

// pendingAt returns the remaining need of a deployment at a stage; nil if it does not wait for people there.
func pendingAt(d pipeline.DeploymentState, stage string) *admission.ApprovalState {
	for i := range d.Approvals {
		if d.Approvals[i].Stage == stage {
			return &d.Approvals[i]
		}
	}
	return nil
}

// FreezeView is whether a pipeline is frozen.
type FreezeView struct {
	Pipeline string            `json:"pipeline"`         // "": all pipelines of Kubernetes
	Freeze   *admission.Freeze `json:"freeze,omitempty"` // left out: it is not
}

// Freeze records that nothing starts in a pipeline from now on. The error is fault.Refused if it is frozen already.
func (s *Service) Freeze(ctx context.Context, name string, freeze admission.Freeze) (FreezeView, error) {
	if OfKubernetes(name) {
		return s.freezePromotions(ctx, name, freeze)
	}
	return s.changeFreeze(ctx, name, freeze.By, freeze.Reason,
		func(e *pipeline.Engine, now time.Time) (pipeline.Entry, error) { return e.SetFreeze(freeze, now) })
}

// Thaw ends a freeze. The error is fault.Refused if there is none.
func (s *Service) Thaw(ctx context.Context, name, by, reason string) (FreezeView, error) {
	if OfKubernetes(name) {
		return s.thawPromotions(ctx, name, by, reason)
	}
	return s.changeFreeze(ctx, name, by, reason,
		func(e *pipeline.Engine, now time.Time) (pipeline.Entry, error) { return e.ClearFreeze(by, reason, now) })
}

// changeFreeze appends a change that the engine has checked, and returns the state after it.
func (s *Service) changeFreeze(ctx context.Context, name, by, reason string, change func(*pipeline.Engine,
	time.Time) (pipeline.Entry, error)) (FreezeView, error) {
	view := FreezeView{Pipeline: name}
	if err := checkReason(reason); err != nil {
		return view, err
	}
	if _, err := s.ReadHead(ctx, name); err != nil {
		return view, err
	}
	var now time.Time
	err := s.appendDecided(ctx, name, by, func(e *pipeline.Engine, at time.Time) ([]pipeline.Entry, error) {
		now = at
		entry, err := change(e, now)
		return []pipeline.Entry{entry}, err
	})
	if err != nil {
		return view, err
	}
	return view, s.withFold(ctx, name, func(f *fold) error {
		view.Freeze = f.engine.Frozen(now)
		return nil
	})
}
