package service

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/pullrequest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/marker"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// Proposals reads repositories and their hosts, with the credentials of pipelines of Kubernetes. Nothing is changed. Implemented by
// pullrequest.Handler.
type Proposals interface {
	// Preview returns the change that a proposal would make.
	Preview(ctx context.Context, w promotion.Work) (pullrequest.Preview, error)
	// Inspect reports the permissions of the credentials of an environment, and its markers.
	Inspect(ctx context.Context, w promotion.Work) (pullrequest.Inspection, error)
}

// PromotionQuery selects a plan for a pipeline of Kubernetes.
type PromotionQuery struct {
	Pipeline string
	Revision string // assumed: the first environment is ready at it; "": as it is
	Files    bool   // also the changes of files
	Input    bool   // also the input and the plan as they are
}

// PromotionPlan holds the next steps for a pipeline of Kubernetes.
type PromotionPlan struct {
	Pipeline     string               `json:"pipeline"`
	Now          time.Time            `json:"now"`
	Assumed      string               `json:"assumed,omitempty"` // revision that the first environment is assumed to be ready at
	Todo         bool                 `json:"todo"`              // something would be done
	Run          *promotions.RunView  `json:"run,omitempty"`     // run that would start, of several one through all environments; left out: none
	Environments []PlannedEnvironment `json:"environments"`
	Faults       []string             `json:"faults,omitempty"` // faults of the definition: nothing is decided
	Input        json.RawMessage      `json:"input,omitempty"`  // exact input of the decision, without secrets
	Plan         json.RawMessage      `json:"plan,omitempty"`   // exact decision
}

// PlannedEnvironment holds the next steps for an environment, or the reasons for its waiting.
type PlannedEnvironment struct {
	Name    string                  `json:"name"`
	Want    string                  `json:"want,omitempty"`
	Run     int64                   `json:"run,omitempty"`
	Phase   promotion.Phase         `json:"phase"`
	Steps   []PlannedStep           `json:"steps"`
	Reasons []promotions.ReasonView `json:"reasons"`
	Files   *PlannedFiles           `json:"files,omitempty"` // left out: nothing is to be changed, or it was not requested
}

// PlannedStep is a step that is due.
type PlannedStep struct {
	Op       promotion.Op `json:"op"`
	Revision string       `json:"revision"`
	Gate     string       `json:"gate,omitempty"`
	Proposal int64        `json:"proposal,omitempty"` // number of the pull request to merge or to close
	Cancel   bool         `json:"cancel,omitempty"`   // a running attempt would be ended
}

// PlannedFiles is the change that a promotion into an environment makes.
type PlannedFiles struct {
	Repository string `json:"repository"`
	Branch     string `json:"branch"`           // base branch
	Commit     string `json:"commit,omitempty"` // hash of the base branch
	Diff       string `json:"diff,omitempty"`   // unified; left out: the branch has the revision already
	Error      string `json:"error,omitempty"`  // why it is not known
}

// previewLimit bounds the time in which the repositories are read for one plan.
const previewLimit = 40 * time.Second

// PlanPromotion returns the next steps of the promoter for a pipeline, by the functions that it uses itself, from the states that it saw last
// and the log. It writes nothing.
func (s *Service) PlanPromotion(ctx context.Context, q PromotionQuery) (PromotionPlan, error) {
	p := PromotionPlan{Pipeline: q.Pipeline, Assumed: q.Revision, Environments: []PlannedEnvironment{}}
	v, in, err := s.promotionInput(ctx, q)
	if err != nil {
		return p, err
	}
	p.Now, p.Faults = in.Now, v.Observed.Faults
	plan := promotion.Plan{}
	if len(p.Faults) == 0 {
		plan = promotion.Decide(in)
	}
	for _, change := range plan.Runs {
		p.Todo = true
		if change.End == promotion.Running && (p.Run == nil || change.Run.Env == "") {
			run := promotions.ViewRun(change.Run)
			p.Run = &run
		}
	}
	for _, verdict := range plan.Verdicts {
		env := plannedEnvironment(verdict)
		p.Todo = p.Todo || len(env.Steps) > 0
		p.Environments = append(p.Environments, env)
	}
	if q.Files {
		if err := s.planFiles(ctx, decision{v, in, plan}, &p); err != nil {
			return p, err
		}
	}
	if q.Input {
		if p.Input, err = json.Marshal(in); err == nil {
			p.Plan, err = json.Marshal(plan)
		}
	}
	return p, err
}

// promotionInput returns the input of a decision about a pipeline.
func (s *Service) promotionInput(ctx context.Context, q PromotionQuery) (promotions.View, promotion.Input, error) {
	v, err := s.promotionView(ctx, q.Pipeline)
	if err != nil {
		return v, promotion.Input{}, err
	}
	if v.Observed == nil {
		return v, promotion.Input{}, errNotObserved(q.Pipeline)
	}
	if err := marker.CheckRevision(q.Revision); q.Revision != "" && err != nil {
		return v, promotion.Input{}, fault.New(fault.Invalid, "revision: %w", err)
	}
	state, err := s.ledger.Promotions.Load(ctx, q.Pipeline, "")
	if err != nil {
		return v, promotion.Input{}, err
	}
	in := state.Input().With(v.Observed.Input)
	if q.Revision != "" {
		in = in.Assume(promotion.Revision(q.Revision))
	}
	return v, in, nil
}

func plannedEnvironment(v promotion.Verdict) PlannedEnvironment {
	env := PlannedEnvironment{Name: string(v.Env), Want: string(v.Want), Run: v.Run, Phase: v.Phase, Steps: []PlannedStep{},
		Reasons: []promotions.ReasonView{}}
	for _, step := range v.Do {
		env.Steps = append(env.Steps, PlannedStep{Op: step.Op, Revision: string(step.Revision), Gate: step.Gate, Proposal: step.Number,
			Cancel: step.Cancel})
	}
	for _, reason := range v.Why {
		env.Reasons = append(env.Reasons, promotions.ReasonView(reason))
	}
	return env
}

// decision is a plan with its origin.
type decision struct {
	view promotions.View
	in   promotion.Input
	plan promotion.Plan
}

// planFiles adds the changes of files in the environments that do not have the wanted revision yet.
func (s *Service) planFiles(ctx context.Context, d decision, p *PromotionPlan) error {
	release, err := s.plans.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, previewLimit, fmt.Errorf("the repositories were not read within %s", previewLimit))
	defer cancel()
	for i, verdict := range d.plan.Verdicts {
		host, ok := d.view.Observed.Hosts[verdict.Env]
		if !ok || verdict.Want == "" || isThere(d.in, i, verdict.Want) {
			continue
		}
		files := &PlannedFiles{Repository: host.URL, Branch: host.Base}
		p.Environments[i].Files = files
		preview, err := s.preview(ctx, proposalOf(d.view.Pipeline, verdict, host, d.in.Now))
		if err != nil {
			files.Error = err.Error()
			continue
		}
		files.Commit, files.Diff = preview.Base, preview.Diff
	}
	return nil
}

// isThere reports whether every target of an environment has a revision.
func isThere(in promotion.Input, env int, want promotion.Revision) bool {
	for _, id := range in.Spec.Environments[env].Targets {
		if s := in.Seen[id]; s.Applied != want {
			return false
		}
	}
	return true
}

// proposalOf returns the parameters of a proposal for a verdict.
func proposalOf(pipeline string, v promotion.Verdict, host promotion.Host, now time.Time) promotion.Work {
	namespace, name, _ := strings.Cut(pipeline, ":")
	return promotion.Work{Namespace: namespace, Pipeline: name, Run: v.Run, Started: now, Env: v.Env, Op: promotion.OpPropose,
		Revision: v.Want, Host: &host}
}

func (s *Service) preview(ctx context.Context, w promotion.Work) (pullrequest.Preview, error) {
	proposals, err := s.openProposals()
	if err != nil {
		return pullrequest.Preview{}, err
	}
	return proposals.Preview(ctx, w)
}

// openProposals returns the way to repositories.
func (s *Service) openProposals() (Proposals, error) {
	if s.proposals == nil {
		return nil, fault.New(fault.Unavailable, "this process reads no repositories of pipelines of Kubernetes")
	}
	return s.proposals()
}
