package resource

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Observed is everything that a status is computed from.
type Observed struct {
	Pipeline Pipeline
	Faults   Faults // those of Parse, and a collision of branches; the plan is empty, unless the latter is the only one
	Input    promotion.Input
	Plan     promotion.Plan
	RunIDs   map[int64]string // ids of the runs' rows, by number
}

// Status returns the status of a pipeline. Its conditions have no times of transition; Settle adds them.
func Status(o Observed) v1alpha1.PipelineStatus {
	s := v1alpha1.PipelineStatus{
		ObservedGeneration: o.Pipeline.Generation,
		Conditions:         o.conditions(),
		LatestRevision:     string(o.Plan.Latest),
		Run:                o.run(),
	}
	verdicts := map[promotion.EnvName]promotion.Verdict{}
	for _, v := range o.Plan.Verdicts {
		verdicts[v.Env] = v
	}
	for _, e := range o.Pipeline.Environments {
		if s.Environments == nil {
			s.Environments = map[string]v1alpha1.EnvironmentStatus{}
		}
		s.Environments[string(e.Name)] = o.environment(e, verdicts[e.Name])
	}
	return s
}

// conditions returns the conditions that apply, Ready first.
func (o Observed) conditions() []metav1.Condition {
	list := []metav1.Condition{o.ready()}
	for _, standing := range []promotion.Standing{promotion.StandsPending, promotion.StandsFailed, promotion.StandsStalled} {
		if c := o.standing(standing); c != nil {
			list = append(list, *c)
		}
	}
	return list
}

// condition returns a condition of this generation.
func (o Observed) condition(of string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: of, Status: status, Reason: reason, Message: message,
		ObservedGeneration: o.Pipeline.Generation}
}

// ready reports whether the definition is valid and every target could be read, whatever its health.
func (o Observed) ready() metav1.Condition {
	if len(o.Faults) > 0 {
		return o.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, o.Faults[0].Reason, o.Faults.Message())
	}
	unread, first := 0, ""
	for _, e := range o.Pipeline.Environments {
		for _, t := range e.Targets {
			if s := o.seen(t); isUnreadable(s) {
				if unread++; unread == 1 {
					first = t.Field + ": " + describe(s)
				}
			}
		}
	}
	switch unread {
	case 0:
		return o.condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "every target could be read")
	case 1:
	default:
		first = fmt.Sprintf("%s (and %d more)", first, unread-1)
	}
	return o.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetNotReadable, first)
}

// starving is added to the message of a pipeline whose runs supersede one another.
const starving = " (Starving: five runs were superseded and none was finished)"

// standing returns the condition for the first environment with a reason of a standing; nil: none has one.
func (o Observed) standing(of promotion.Standing) *metav1.Condition {
	if of == promotion.StandsStalled {
		for _, f := range o.Faults {
			if f.Reason == v1alpha1.ReasonInvalidSpec {
				c := o.condition(string(of), metav1.ConditionTrue, f.Reason, o.Faults.Message())
				return &c
			}
		}
	}
	for _, v := range o.Plan.Verdicts {
		for _, why := range v.Why {
			standing, reason := why.Code.Condition()
			if standing != of {
				continue
			}
			message := string(v.Env) + ": " + cmp.Or(why.Message, string(why.Code))
			if o.Plan.Starving && of == promotion.StandsPending {
				message += starving
			}
			c := o.condition(string(of), metav1.ConditionTrue, string(reason), message)
			return &c
		}
	}
	return nil
}

// run returns the newest run through all environments, unless a newer one has superseded it and not begun yet.
func (o Observed) run() *v1alpha1.RunStatus {
	if len(o.Faults) > 0 && len(o.Plan.Verdicts) == 0 {
		return nil
	}
	var newest promotion.Run
	for number, r := range o.runs() {
		if r.Env == "" && number > newest.Number {
			newest = r
		}
	}
	if newest.Number == 0 || newest.End == promotion.Superseded {
		return nil
	}
	return &v1alpha1.RunStatus{ID: o.RunIDs[newest.Number], Number: newest.Number, Revision: string(newest.Revision),
		StartedAt: metav1.NewTime(newest.StartedAt.UTC().Truncate(time.Second))}
}

// runs returns the runs after the changes of the plan, by number.
func (o Observed) runs() map[int64]promotion.Run {
	all := make(map[int64]promotion.Run, len(o.Input.Runs)+1)
	for _, r := range o.Input.Runs {
		all[r.Number] = r
	}
	for _, change := range o.Plan.Runs {
		r := change.Run
		r.End = change.End
		all[r.Number] = r
	}
	return all
}

// environment returns the status of an environment.
func (o Observed) environment(e Environment, v promotion.Verdict) v1alpha1.EnvironmentStatus {
	s := v1alpha1.EnvironmentStatus{Want: string(v.Want), Phase: string(v.Phase), Since: timeOf(v.Since),
		Promotion: o.promotion(e.Name)}
	for _, t := range e.Targets {
		s.Targets = append(s.Targets, o.target(t))
	}
	for _, why := range v.Why {
		s.Blocked = append(s.Blocked, v1alpha1.Blocked{Reason: string(why.Code), Message: why.Message, Until: timeOf(why.Until)})
	}
	if IsApprovable(v) {
		s.WaitingApproval = &v1alpha1.WaitingApproval{Revision: string(v.Want)}
	}
	return s
}

// IsApprovable reports whether the wanted revision of an environment waits for approval, and may get it.
func IsApprovable(v promotion.Verdict) bool {
	return !waitsForPredecessor(v) && slices.ContainsFunc(v.Why,
		func(why promotion.Reason) bool { return why.Code == promotion.WhyWaitingApproval })
}

// waitsForPredecessor reports whether the predecessors of an environment have not passed its revision: until then
// it cannot be approved.
func waitsForPredecessor(v promotion.Verdict) bool {
	for _, why := range v.Why {
		switch why.Code {
		case promotion.WhyPredecessorUnknown, promotion.WhyPredecessorWaiting, promotion.WhyPredecessorUnhealthy,
			promotion.WhyPredecessorSoaking, promotion.WhyPredecessorVerifying, promotion.WhyPredecessorMovedOn,
			promotion.WhyPredecessorWentBack:
			return true
		}
	}
	return false
}

// target returns the status of a target.
func (o Observed) target(t Target) v1alpha1.TargetStatus {
	s := o.seen(t)
	class, _, _ := s.At(o.Input.Now)
	app := o.Pipeline.App
	version, kind := app.Kind.ToAPIVersionAndKind()
	out := v1alpha1.TargetStatus{Ready: class == promotion.Ready, Revision: string(s.Applied),
		ClusterAppRef: v1alpha1.ClusterAppReference{
			LocalAppReference: v1alpha1.LocalAppReference{APIVersion: version, Kind: kind, Name: app.Name},
			ClusterRef:        t.Ref,
		}}
	switch class {
	case promotion.Unknown:
		out.Error = describe(s)
	case promotion.Failed:
		out.Error = cmp.Or(s.Message, "not ready")
	}
	return out
}

// seen returns the state of a target. Nothing is known of one that was not observed yet.
func (o Observed) seen(t Target) promotion.Seen {
	if s, ok := o.Input.Seen[t.TargetID]; ok && s.Class != "" {
		return s
	}
	return promotion.UnknownTarget(promotion.NotSynced, "not observed yet")
}

// isUnreadable reports whether a target could not be read. Other reasons for an unknown state are in its status.
func isUnreadable(s promotion.Seen) bool {
	if s.Class != promotion.Unknown {
		return false
	}
	switch s.Why {
	case promotion.ClusterNotFound, promotion.ClusterNotReady, promotion.ClusterUnreachable, promotion.NotSynced,
		promotion.Forbidden, promotion.TargetNotFound:
		return true
	}
	return false
}

// describe returns why the state of a target is not known.
func describe(s promotion.Seen) string {
	if s.Message == "" {
		return string(s.Why)
	}
	return string(s.Why) + ": " + s.Message
}

// promotion returns the last attempt to promote into an environment, and its pull request; nil: there was none.
func (o Observed) promotion(env promotion.EnvName) *v1alpha1.PromotionStatus {
	var key promotion.AttemptKey
	var last promotion.Attempt
	for k, a := range o.Input.Attempts {
		if k.Env == env && (k.Op == promotion.OpPropose || k.Op == promotion.OpNotify) && k.Run > key.Run {
			key, last = k, a
		}
	}
	proposal, proposed := o.Input.Proposals[env]
	if key.Run == 0 && !proposed {
		return nil
	}
	out := &v1alpha1.PromotionStatus{Revision: string(proposal.Revision)}
	if key.Run > 0 {
		if r, ok := o.runs()[key.Run]; ok {
			out.Revision = string(r.Revision)
		}
		out.LastAttemptedTime, out.ActionID, out.Succeeded = timeOf(last.At), last.ActionID, last.Status == promotion.AttemptDone
	}
	if proposed {
		out.PullRequest = &v1alpha1.PullRequestStatus{URL: proposal.URL, Number: proposal.Number, State: string(proposal.State)}
	}
	return out
}

// timeOf returns a time of the API, which has whole seconds; nil for the zero time.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	whole := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &whole
}
