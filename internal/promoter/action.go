package promoter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// attemptTimeout bounds one attempt at a promotion: a fetch, a push and a few requests.
const attemptTimeout = 5 * time.Minute

// policy returns the policy of actions that promote. They have no deadline: the promoter cancels one that is not wanted any more.
func policy() action.Policy {
	return action.Policy{Retries: 11, Initial: action.Duration(2 * time.Second), Factor: 2, Max: action.Duration(5 * time.Minute),
		Jitter: 0.1, AttemptTimeout: action.Duration(attemptTimeout)}
}

// start returns the attempt of a step.
func (l *look) start(ctx context.Context, step promotion.Step) (promotions.Start, error) {
	env := l.environment(step.Env)
	run, found := l.run(step.Run)
	if !found {
		return promotions.Start{}, fmt.Errorf("step %s %s of unknown run %d", step.Op, step.Env, step.Run)
	}
	again := step.Repeats || run.Cause != promotion.ByCandidate // an earlier closing or merge does not count
	s := promotions.Start{Base: step.Base, Head: step.Head,
		Work: promotion.Work{Namespace: l.pipeline.Namespace, Pipeline: l.pipeline.Name, UID: l.pipeline.UID, Run: step.Run,
			Started: run.StartedAt, Env: step.Env, Op: step.Op, Revision: step.Revision, Was: l.present(step.Env), Number: step.Number,
			Head: step.Head, Repeats: again, Redo: step.Redo, Inputs: l.input.Inputs[step.Env]}, Action: action.Action{Policy: policy(),
			Delivery: action.AtLeastOnce, CreatedBy: role, Name: fmt.Sprintf("%s %s/%s", step.Op, l.pipeline.ID(), step.Env)}}
	switch step.Op {
	case promotion.OpNotify:
		s.Work.Sink = env.Webhook
		s.Action.Handler, s.Action.Lane = promotion.HandlerNotification, promotion.HandlerNotification
		if env.Webhook != nil {
			s.Action.Lane = lane(promotion.HandlerNotification, env.Webhook.URL, false)
		}
	case promotion.OpGate:
		for _, gate := range env.Gates {
			if gate.Name == step.Gate {
				work := gate.Work(resource.Placeholders{Revision: step.Revision, Environment: step.Env})
				s.Work.Gate, s.Action.Policy = &work, gate.Policy
				s.Action.Handler = handlerOf(gate)
				s.Action.Lane = s.Action.Handler + "/" + l.pipeline.Namespace
			}
		}
	default:
		if p := l.state.Proposals[step.Env]; step.Op == promotion.OpClose && p.Host != nil {
			env.Host = p.Host
		}
		if env.Host == nil {
			return s, fmt.Errorf("step %s in %s, which has no pull-request strategy", step.Op, step.Env)
		}
		s.Action.Handler, s.Action.Lane = promotion.HandlerPullRequest, lane(promotion.HandlerPullRequest, env.Host.URL, true)
		s.Work.Host, s.Work.Proof, s.Work.Link = env.Host, l.proof(step), l.link(step.Run)
		if step.Op == promotion.OpClose {
			s.Work.Reason = l.closingReason(step)
		}
		s.Work.Inputs = hashOf(env, l.secretVersion(ctx, env))
	}
	return s, nil
}

// link returns the address of a run on the page of the pipeline; "" if the address of the pages is not known.
func (l *look) link(run int64) string {
	if l.cfg.Pages == "" {
		return ""
	}
	return fmt.Sprintf("%s/pipelines/%s#run-%d", strings.TrimSuffix(l.cfg.Pages, "/"), l.pipeline.ID(), run)
}

// closingReason returns why a proposal is closed, for the comment on it.
func (l *look) closingReason(step promotion.Step) string {
	for _, verdict := range l.plan.Verdicts {
		if verdict.Env == step.Env && verdict.Want != "" && verdict.Want != step.Revision && !l.isMoved(step.Env) {
			return "superseded by " + string(verdict.Want)
		}
	}
	switch {
	case l.environment(step.Env).Name == "":
		return "the pipeline has no environment " + string(step.Env) + " any more"
	case l.isMoved(step.Env):
		return "the pipeline promotes to " + string(step.Env) + " in another way"
	}
	return "no longer wanted"
}

// handlerOf returns the handler of a gate.
func handlerOf(gate resource.Gate) string {
	switch {
	case gate.Job != nil:
		return promotion.HandlerJob
	case gate.CEL != "":
		return promotion.HandlerExpression
	}
	return promotion.HandlerGate
}

// environment returns the definition of an environment, which exists: a decision is about those of the definition.
func (l *look) environment(name promotion.EnvName) resource.Environment {
	for _, env := range l.pipeline.Environments {
		if env.Name == name {
			return env
		}
	}
	return resource.Environment{}
}

// present returns the revision that the first known target of an environment has.
func (l *look) present(name promotion.EnvName) promotion.Revision {
	for _, target := range l.environment(name).Targets {
		if seen := l.seen[target.TargetID]; seen.Class != promotion.Unknown {
			return seen.Applied
		}
	}
	return ""
}

// lane returns the lane of actions that go to an address: its host, and with owner the first part of its path, since hosts
// limit by credential and owner.
func lane(handler, address string, owner bool) string {
	name, path := address, ""
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		name, path = u.Host, u.Path
	} else if at, after, found := strings.Cut(address, ":"); found { // git@host:owner/repository
		_, name, _ = strings.Cut(at, "@")
		path = after
	}
	if first, _, _ := strings.Cut(strings.Trim(path, "/"), "/"); owner && first != "" {
		name += "/" + first
	}
	return handler + "/" + strings.ToLower(name)
}

// inputs returns, for each environment, a hash of the settings that a promotion depends on. A permanently failed one is tried
// again when it changes. Only then the hash is needed, and the version of the Secret is read: pipelines at rest ask nothing.
func (l *look) inputs(ctx context.Context) map[promotion.EnvName]string {
	hashes := map[promotion.EnvName]string{}
	for key, attempt := range l.state.Attempts {
		if _, known := hashes[key.Env]; known || attempt.Status != promotion.AttemptFailed {
			continue
		}
		env := l.environment(key.Env)
		hashes[key.Env] = hashOf(env, l.secretVersion(ctx, env))
	}
	return hashes
}

// hashOf returns a hash of the settings of an environment's promotions.
func hashOf(env resource.Environment, secretVersion string) string {
	text, _ := json.Marshal([]any{env.Host, env.Webhook, secretVersion}) // texts always marshal
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// secretVersion returns the version of the Secret with an environment's credentials; "" if there is none.
func (l *look) secretVersion(ctx context.Context, env resource.Environment) string {
	if env.Host == nil || env.Host.Secret == "" {
		return ""
	}
	_, version, err := l.cfg.Management.In(l.pipeline.Namespace).Secret(ctx, env.Host.Secret)
	if err != nil {
		return ""
	}
	return version
}

// proof returns sentences about where the revision of a step has proved itself.
func (l *look) proof(step promotion.Step) (sentences []string) {
	for _, run := range l.state.Runs {
		if run.Revision != step.Revision {
			continue
		}
		for _, fact := range run.Facts {
			switch {
			case fact.Event == promotion.StageFinished:
				sentences = append(sentences, fmt.Sprintf("complete in %s since %s", fact.Env, fact.At.UTC().Format(time.RFC3339)))
			case strings.HasPrefix(string(fact.Event), string(promotion.GatePassed)+"/"):
				gate := strings.TrimPrefix(string(fact.Event), string(promotion.GatePassed)+"/")
				sentences = append(sentences, fmt.Sprintf("gate %s passed in %s at %s", gate, fact.Env, fact.At.UTC().Format(time.RFC3339)))
			}
		}
	}
	return sentences
}
