package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// environmentsOf returns the environments of a pipeline of a waybill.yaml by their stages, as the promoter saw them last.
func (s *Service) environmentsOf(ctx context.Context, name string) (map[string]promotions.EnvironmentView, error) {
	view, err := s.ledger.Promotions.View(ctx, promotions.NameOf(promotion.StageNamespace, name))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	found := make(map[string]promotions.EnvironmentView, len(view.Environments))
	for _, env := range view.Environments {
		found[env.Name] = env
	}
	return found, err
}

// addEnvironments adds to a deployment the state of the environments that it promotes to or has promoted to: those that want its
// revision. The live step has the sentences about it as its output.
func (s *Service) addEnvironments(ctx context.Context, view *DeploymentView) error {
	var environments map[string]promotions.EnvironmentView
	for i := range view.Stages {
		stage := &view.Stages[i]
		if stage.Kind != pipeline.EnvironmentStage {
			continue
		}
		if environments == nil {
			var err error
			if environments, err = s.environmentsOf(ctx, view.Pipeline); err != nil || len(environments) == 0 {
				return err
			}
		}
		env, known := environments[stage.Name]
		if !known || env.Want != view.Label || stage.State == RunWaiting {
			continue
		}
		stage.Environment = &env
		for k := range stage.Steps {
			step := &stage.Steps[k]
			if step.Event == pipeline.EnvPromoted && step.State == pipeline.StateClaimed {
				step.Output = EnvironmentText(env, view.Now)
				if stage.Reason == "" {
					stage.Reason = step.Output
				}
			}
		}
	}
	return nil
}

// addPromotionReasons gives the live promotions among the open steps of a deployment the reasons of their environments.
func (s *Service) addPromotionReasons(ctx context.Context, ref Ref, open []pipeline.StepState) error {
	isLive := func(step pipeline.StepState) bool {
		return step.Event == pipeline.EnvPromoted && step.State == pipeline.StateClaimed
	}
	if !slices.ContainsFunc(open, isLive) {
		return nil
	}
	d, err := s.ReadDeployment(ctx, ref)
	if err != nil {
		return err
	}
	environments, err := s.environmentsOf(ctx, ref.Pipeline)
	for i, step := range open {
		env, known := environments[strings.TrimPrefix(step.Target, ref.Pipeline+"/")]
		if known && isLive(step) && env.Want == d.Label {
			open[i].Reason = WaitOf(env)
		}
	}
	return err
}

// EnvironmentText returns the sentences about an environment in one line, with the address of its open pull request.
func EnvironmentText(env promotions.EnvironmentView, now time.Time) string {
	var parts []string
	for _, sentence := range EnvironmentSentences(env, now) {
		parts = append(parts, sentence.String(func(at time.Time) string { return at.UTC().Format("15:04 UTC") }))
	}
	if p := env.Proposal; p != nil && p.State == promotion.Open {
		parts = append(parts, p.URL)
	}
	return strings.Join(parts, "; ")
}
