package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/pullrequest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// PipelineCheck lists everything that was found of a pipeline of Kubernetes.
type PipelineCheck struct {
	Pipeline string    `json:"pipeline"`
	OK       bool      `json:"ok"` // nothing is wrong
	Findings []Finding `json:"findings"`
}

// Finding is one thing that a check has found.
type Finding struct {
	Level   FindingLevel `json:"level"`
	Subject string       `json:"subject"` // path of an environment or a target; that of the pipeline
	Code    string       `json:"code"`    // such as TargetNotFound
	Message string       `json:"message"`
}

// FindingLevel is the weight of a finding.
type FindingLevel string

// The levels.
const (
	FindingOK    FindingLevel = "ok"
	FindingNote  FindingLevel = "note"  // it works, and may surprise
	FindingWrong FindingLevel = "wrong" // promotions will not work
)

const hookOnlyWakes = "a call of the old hook /promotion only has the pipeline looked at: Providers and Alerts for it are not needed"

// The codes of findings, besides the reasons of package promotion. Some are reasons of Events too.
const (
	codeInvalid       = "InvalidSpec"
	codeHost          = "GitHost"
	codeCredentials   = "Credentials"
	codeMarkers       = "Markers"
	codeByHand        = "PromotedByHand"
	codeUnsigned      = "ApprovalUnsigned"
	codeBodyless      = "ApprovalBodyless"
	codeHookOnlyWakes = "HookOnlyWakes"
)

const (
	checkLimit = time.Minute      // bounds a check
	syncLimit  = 20 * time.Second // bounds the wait for targets of clusters that are being connected
)

// InspectPipeline reports whether a pipeline can work: it reads the states of its targets, the markers in its repositories, and the
// permissions on their hosts. It changes nothing.
func (s *Service) InspectPipeline(ctx context.Context, name string) (PipelineCheck, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, fmt.Errorf("the check took longer than %s", checkLimit))
	defer cancel()
	c := check{PipelineCheck{Pipeline: name, OK: true, Findings: []Finding{}}}
	v, err := s.syncedView(ctx, name)
	if err != nil {
		return c.PipelineCheck, err
	}
	for _, text := range v.Observed.Faults {
		c.add(FindingWrong, name, codeInvalid, text)
	}
	for i, env := range v.Environments {
		c.targets(name, env)
		if i == 0 {
			continue
		}
		spec := environmentSpec(v, env.Name)
		if host, ok := v.Observed.Hosts[spec.Name]; ok {
			s.checkHost(ctx, &c, spec, proposalOf(name, promotion.Verdict{Env: spec.Name}, host, time.Now()))
		} else if spec.Strategy == promotion.ByHand {
			c.add(FindingNote, environmentPath(name, env.Name), codeByHand, "it has no strategy, so people promote into it")
		}
		c.approvals(name, spec, v.Observed.Keys[spec.Name])
	}
	c.add(FindingNote, name, codeHookOnlyWakes, hookOnlyWakes)
	return c.PipelineCheck, nil
}

// check collects findings.
type check struct{ PipelineCheck }

func (c *check) add(level FindingLevel, subject, code, message string) {
	c.Findings = append(c.Findings, Finding{level, subject, code, message})
	c.OK = c.OK && level != FindingWrong
}

// syncedView returns the view of a pipeline, once no target waits for the connection of its cluster.
func (s *Service) syncedView(ctx context.Context, name string) (promotions.View, error) {
	waiter, until := s.Waiter(), time.Now().Add(syncLimit)
	for {
		v, err := s.promotionView(ctx, name)
		switch {
		case err != nil:
			return v, err
		case v.Observed == nil:
			return v, errNotObserved(name)
		case !isConnecting(v) || time.Now().After(until):
			return v, nil
		}
		if err := waiter.Wait(ctx, time.Second, promotionTopics...); err != nil {
			return v, err
		}
	}
}

// errNotObserved returns the error for a pipeline of an older promoter.
func errNotObserved(name string) error {
	return fault.New(fault.Unavailable, "the promoter has not looked at %s since it was upgraded", name)
}

// isConnecting reports whether a target waits for the connection of its cluster.
func isConnecting(v promotions.View) bool {
	return slices.ContainsFunc(v.Environments, func(env promotions.EnvironmentView) bool {
		return slices.ContainsFunc(env.Targets, func(t promotions.TargetState) bool { return t.Reason == promotion.NotSynced })
	})
}

// environmentSpec returns the definition of an environment.
func environmentSpec(v promotions.View, name string) promotion.Environment {
	for _, env := range v.Observed.Input.Spec.Environments {
		if string(env.Name) == name {
			return env
		}
	}
	return promotion.Environment{Name: promotion.EnvName(name)}
}

// targets reports the states of the targets of an environment.
func (c *check) targets(name string, env promotions.EnvironmentView) {
	for _, target := range env.Targets {
		at := TargetPath(name, env.Name, target)
		message := cmp.Or(target.Message, TargetHealth(target))
		switch target.Reason {
		case "":
			level := FindingOK
			if target.Health != promotion.Ready {
				level = FindingNote
			}
			c.add(level, at, string(target.Health), fmt.Sprintf("%s at %s", TargetHealth(target), cmp.Or(target.Revision, "no revision")))
		case promotion.Stale, promotion.NotReconciled, promotion.Deleting, promotion.SuspendedTarget:
			c.add(FindingNote, at, string(target.Reason), message)
		default:
			c.add(FindingWrong, at, string(target.Reason), message)
		}
	}
}

// checkHost reports the permissions of the credentials of an environment, and its markers.
func (s *Service) checkHost(ctx context.Context, c *check, env promotion.Environment, w promotion.Work) {
	at := environmentPath(c.Pipeline, string(env.Name))
	proposals, err := s.openProposals()
	if err == nil {
		var found pullrequest.Inspection
		if found, err = proposals.Inspect(ctx, w); err == nil {
			c.credentials(at, env, w, found)
			c.markers(at, w, found)
			return
		}
	}
	text := err.Error()
	if hint := fault.HintOf(err); hint != "" {
		text += "; " + hint
	}
	c.add(FindingWrong, at, codeHost, text)
}

// credentials reports the rights that promotions need and the credentials lack.
func (c *check) credentials(at string, env promotion.Environment, w promotion.Work, found pullrequest.Inspection) {
	merges := env.AutoMerge != nil
	wrong := false
	for _, need := range []struct {
		missing bool
		text    string
	}{
		{!found.Access.Push, "they may not push branches"},
		{!found.Access.Propose, "they may not open pull requests"},
		{merges && !found.Access.Merge, "they may not merge, which autoMerge needs"},
		{merges && !env.AutoMerge.IgnoreChecks && !found.Access.Checks, "they may not read checks, which autoMerge needs"},
		{merges && !found.Guarded && !w.Host.Unguarded, "the host cannot check the head commit of a merge: autoMerge needs allowUnguarded"},
		{w.Host.Queue && !found.Queues, "the host has no merge queues"},
	} {
		if need.missing {
			wrong = true
			c.add(FindingWrong, at, codeCredentials, need.text)
		}
	}
	if !wrong {
		user := found.Access.User
		if user != "" {
			user = " of " + user
		}
		c.add(FindingOK, at, codeCredentials, fmt.Sprintf("the credentials%s suffice for %s", user, w.Host.URL))
	}
	for _, text := range found.Access.Warnings {
		c.add(FindingNote, at, codeCredentials, text)
	}
}

// markers reports the marked lines of an environment.
func (c *check) markers(at string, w promotion.Work, found pullrequest.Inspection) {
	switch {
	case found.Unread != nil:
		c.add(FindingWrong, at, codeMarkers, found.Unread.Error())
	case found.Markers == 0:
		c.add(FindingWrong, at, codeMarkers, fmt.Sprintf(`no file of the branch %s has a marker # {"$promotion": "%s:%s:%s"}`, w.Host.Base,
			w.Namespace, w.Pipeline, w.Env))
	default:
		c.add(FindingOK, at, codeMarkers, fmt.Sprintf("marked lines in the branch %s: %d", w.Host.Base, found.Markers))
	}
}

// approvals reports in which way approvals differ from those of the original controller.
func (c *check) approvals(name string, env promotion.Environment, key string) {
	at := environmentPath(name, string(env.Name))
	switch {
	case env.Approval == nil:
	case key == "":
		c.add(FindingNote, at, codeUnsigned, "approvals without a proof are refused: promotion.strategy.secretRef names no Secret that signs them; tokens count")
	default:
		c.add(FindingNote, at, codeBodyless, "an X-Signature over an empty body is refused unless the server accepts it (promoter.bodylessHMAC)")
	}
}
