package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store"
)

// promotionTopics are the topics of changes to pipelines of Kubernetes.
var promotionTopics = []store.Topic{store.TopicPromotion} //nolint:gochecknoglobals // a constant list

// The proofs of identities that are recorded with requests about pipelines of Kubernetes.
const (
	ProofToken      = "token"
	ProofKubernetes = "kubernetes"
	ProofKey        = "key"
)

// The prefixes of groups and keys in approval.by.
const (
	groupPrefix = "group:"
	keyPrefix   = "key:"
)

// EnvironmentApproval is an approval or a rejection of a revision in an environment, with the proof of who gives it.
type EnvironmentApproval struct {
	Approval
	Groups []string // with a proof of Kubernetes; else the groups of the configuration
	Proof  string   // "": ProofToken
}

// ApproveEnvironment records an approval or a rejection of the revision for which an environment waits. An opinion that an
// identity repeats returns the first record. Errors: fault.NotWaiting, whose hint names the environments that wait; fault.Forbidden if the person may not
// approve there.
func (s *Service) ApproveEnvironment(ctx context.Context, a EnvironmentApproval) (view ApprovalView, err error) {
	if err := checkReason(a.Reason); err != nil {
		return view, err
	}
	v, err := s.promotionView(ctx, a.Pipeline)
	if err != nil {
		return view, err
	}
	name, err := s.environmentOf(v, a.Stage)
	if err != nil {
		return view, err
	}
	i := slices.IndexFunc(v.Environments, func(env promotions.EnvironmentView) bool { return env.Name == name })
	if i < 0 {
		return view, fault.New(fault.Invalid, "an approval names an environment")
	}
	env := v.Environments[i]
	intent := s.opinionOf(a, env)
	if !waitsFor(env, a) {
		return s.repeatedApproval(ctx, v, a, intent)
	}
	if err := checkApprover(env.Approval, a, intent); err != nil {
		return view, err
	}
	first, _, err := s.ledger.Promotions.AddIntent(ctx, a.Pipeline, intent)
	if err != nil {
		return view, err
	}
	pending := pendingOf(env)
	who := promotions.Identity(intent.By.Name)
	if !a.Reject && !slices.Contains(pending.Given, who) { // the promoter has not counted it yet
		pending.Given = append(pending.Given, who)
	}
	if len(pending.Given) >= pending.Count || a.Reject {
		pending = nil
	}
	return s.approvalView(a.Pipeline, first, pending), nil
}

// repeatedApproval returns the first record of an opinion about an environment that does not wait for one any more.
func (s *Service) repeatedApproval(ctx context.Context, v promotions.View, a EnvironmentApproval, intent promotion.Intent) (ApprovalView, error) {
	if (a.Deployment == 0 || a.Deployment == intent.Run) && (a.Revision == "" || a.Revision == string(intent.Revision)) {
		first, given, err := s.ledger.Promotions.Opinion(ctx, a.Pipeline, intent)
		if err != nil || given {
			return s.approvalView(a.Pipeline, first, nil), err
		}
	}
	return ApprovalView{}, refuseEnvironmentApproval(v, a)
}

// opinionOf returns the intent of an approval of the wanted revision.
func (s *Service) opinionOf(a EnvironmentApproval, env promotions.EnvironmentView) promotion.Intent {
	intent := promotion.Intent{Kind: promotion.Approve, Env: promotion.EnvName(env.Name), Run: env.Run, Revision: promotion.Revision(env.Want),
		By: admission.Person{Name: a.By, Groups: a.Groups}, Proof: a.Proof, Reason: a.Reason}
	if a.Reject {
		intent.Kind = promotion.Reject
	}
	if intent.Proof == "" {
		intent.Proof, intent.By.Groups = ProofToken, s.groupsOf(a.By)
	}
	return intent
}

// waitsFor reports whether an environment waits for the approval that a person gives.
func waitsFor(env promotions.EnvironmentView, a EnvironmentApproval) bool {
	return isUndecided(env) && (a.Revision == "" || a.Revision == env.Approval.Revision) &&
		(a.Deployment == 0 || a.Deployment == env.Approval.Run)
}

// isUndecided reports whether an environment waits for an approval. After a rejection it waits for a retry instead.
func isUndecided(env promotions.EnvironmentView) bool {
	return env.Approval != nil && !hasReason(env, promotion.WhyDeclined)
}

func hasReason(env promotions.EnvironmentView, code promotion.ReasonCode) bool {
	return slices.ContainsFunc(env.Reasons, func(r promotions.ReasonView) bool { return r.Code == code })
}

// approvalView returns an opinion that was recorded. pending is the remaining need of the environment; nil: none.
func (s *Service) approvalView(name string, i promotion.Intent, pending *admission.ApprovalState) ApprovalView {
	return ApprovalView{Pipeline: name, Deployment: i.Run, Revision: string(i.Revision), Stage: string(i.Env),
		Rejected: i.Kind == promotion.Reject, Pending: pending, By: i.By.Name, At: i.At, Reason: i.Reason}
}

// refuseEnvironmentApproval reports that an environment does not wait for an approval, with the environments that do as the hint.
func refuseEnvironmentApproval(v promotions.View, a EnvironmentApproval) error {
	var waiting []string
	for _, env := range v.Environments {
		if isUndecided(env) {
			waiting = append(waiting, env.Approval.Revision+" at "+env.Name)
		}
	}
	of := ""
	if a.Revision != "" {
		of = " of " + a.Revision
	}
	err := fault.New(fault.NotWaiting, "%s does not wait for an approval%s", pipeline.Path(v.Pipeline, a.Stage), of)
	if env := environment(v, a.Stage); env != nil && hasReason(*env, promotion.WhyDeclined) {
		return err.WithHint("%s was declined there; waybill deployment retry %s %s asks again", env.Want, v.Pipeline, env.Name)
	}
	if len(waiting) == 0 {
		return err.WithHint("nothing waits for approval; waybill pipeline show %s", v.Pipeline)
	}
	return err.WithHint("what waits: %s", strings.Join(waiting, "; "))
}

// checkApprover refuses a person who may not approve an environment. Of a key, approval.by names the Secret. A user of Kubernetes
// whose name looks like that of a group or a key only counts by groups.
func checkApprover(want *promotions.ApprovalView, a EnvironmentApproval, intent promotion.Intent) error {
	who := intent.By
	switch {
	case intent.Proof == ProofKey:
		who.Name = promotions.Identity(who.Name)
	case intent.Proof == ProofKubernetes && (strings.HasPrefix(who.Name, groupPrefix) || strings.HasPrefix(who.Name, keyPrefix)):
		who.Name = ""
	}
	rule := admission.Approval{Count: want.Count, By: want.By, Self: true}
	return rule.Check(admission.Opinion{By: who, Reject: a.Reject}, pipeline.Path(a.Pipeline, a.Stage), admission.Authors{Revision: want.Revision})
}

// MayApprove reports whether a person with a token may approve in an environment that waits for it.
func (s *Service) MayApprove(name string, env promotions.EnvironmentView, by string) bool {
	a := EnvironmentApproval{Approval: Approval{Pipeline: name, Stage: env.Name, By: by}}
	return isUndecided(env) && checkApprover(env.Approval, a, s.opinionOf(a, env)) == nil
}

// commandRun records a command of a person to a run, or to an environment of its pipeline.
func (s *Service) commandRun(ctx context.Context, ref Ref, c Command) error {
	if err := checkReason(c.Reason); err != nil {
		return err
	}
	v, err := s.promotionView(ctx, ref.Pipeline)
	if err != nil {
		return err
	}
	if c.Event != "" {
		return fault.New(fault.Invalid, "%s is a pipeline of Kubernetes: name an environment, not a step of it", ref.Pipeline)
	}
	intent, err := s.runIntent(ctx, v, c)
	if err != nil {
		return err
	}
	_, _, err = s.ledger.Promotions.AddIntent(ctx, ref.Pipeline, intent)
	return err
}

// previewRun returns the request that commandRun would record, or the error with which it would refuse.
func (s *Service) previewRun(ctx context.Context, ref Ref, c Command) (CommandPreview, error) {
	preview := CommandPreview{Kind: c.Kind}
	v, err := s.promotionView(ctx, ref.Pipeline)
	if err != nil {
		return preview, err
	}
	intent, err := s.runIntent(ctx, v, c)
	preview.Target = environmentPath(ref.Pipeline, string(intent.Env))
	return preview, err
}

// environmentPath returns the full path of an environment; that of the pipeline without a name.
func environmentPath(name, env string) string {
	if env == "" {
		return name
	}
	return pipeline.Path(name, env)
}

// runIntent returns a command in the terms of the promoter.
func (s *Service) runIntent(ctx context.Context, v promotions.View, c Command) (promotion.Intent, error) {
	intent := s.intentBy(c.By, c.Reason)
	name, err := s.environmentOf(v, c.Target)
	if err != nil {
		return intent, err
	}
	intent.Env = promotion.EnvName(name)
	switch c.Kind {
	case "hold":
		intent.Kind = promotion.HoldBack
		if !c.Until.IsZero() && !c.Until.After(time.Now()) {
			return intent, fault.New(fault.Invalid, "the hold would end at %s, which has passed", c.Until.UTC().Format(time.RFC3339))
		}
		intent.Until = c.Until
	case "resume":
		return s.resumeIntent(ctx, v, c, intent)
	case "retry":
		return s.retryIntent(v, intent)
	default:
		return intent, fault.New(fault.Refused, "%s: a pipeline of Kubernetes has no %s", v.Pipeline, c.Kind).
			WithHint("it has hold, resume, retry and rollback; waybill revision reject %s REVISION keeps a revision out of it", v.Pipeline)
	}
	return intent, nil
}

// intentBy returns an intent of a person with a token.
func (s *Service) intentBy(by, reason string) promotion.Intent {
	return promotion.Intent{By: admission.Person{Name: by, Groups: s.groupsOf(by)}, Proof: ProofToken, Reason: reason}
}

// resumeIntent releases a hold or, at once, overrides the window and the soak of an environment.
func (s *Service) resumeIntent(ctx context.Context, v promotions.View, c Command, intent promotion.Intent) (promotion.Intent, error) {
	env := environment(v, string(intent.Env))
	if c.Now {
		return overrideIntent(v, env, intent)
	}
	intent.Kind = promotion.Unhold
	for _, each := range v.Environments {
		if (env == nil || each.Name == env.Name) && HoldOf(each, env == nil) != nil {
			return intent, nil
		}
	}
	state, err := s.ledger.Promotions.Load(ctx, v.Pipeline, "") // the view does not have a hold of this moment yet
	if err != nil || isHeld(state.Intents, intent.Env) {
		return intent, err
	}
	if env != nil && len(env.Holds) > 0 {
		return intent, fault.New(fault.Refused, "%s is held by its definition or with the whole pipeline", pipeline.Path(v.Pipeline, env.Name)).
			WithHint("waybill deployment resume %s ends a hold of the pipeline; the field hold of the environment is in the definition", v.Pipeline)
	}
	return intent, fault.New(fault.Refused, "%s is not held", environmentPath(v.Pipeline, string(intent.Env)))
}

// isHeld reports whether a hold of a scope is the last request about it: an environment, or the pipeline with "".
func isHeld(intents []promotion.Intent, scope promotion.EnvName) bool {
	for _, in := range slices.Backward(intents) {
		if in.Env == scope && (in.Kind == promotion.HoldBack || in.Kind == promotion.Unhold) {
			return in.Kind == promotion.HoldBack && (in.Until.IsZero() || time.Now().Before(in.Until))
		}
	}
	return false
}

// overrideIntent skips the window and the soak of an environment once. env is nil where none is named.
func overrideIntent(v promotions.View, env *promotions.EnvironmentView, intent promotion.Intent) (promotion.Intent, error) {
	switch {
	case env == nil:
		return intent, fault.New(fault.Invalid, "resume with now needs an environment, whose window and soak it skips once")
	case intent.Reason == "":
		return intent, fault.New(fault.Invalid, "resume with now needs a reason").WithHint(`--reason "fix for the outage"`)
	case env.Want == "":
		return intent, fault.New(fault.Refused, "%s waits for no revision", pipeline.Path(v.Pipeline, env.Name))
	case env.Phase == promotion.PhaseComplete:
		return intent, fault.New(fault.Refused, "%s has %s: nothing waits there", pipeline.Path(v.Pipeline, env.Name), env.Want)
	}
	intent.Kind, intent.Run, intent.Revision = promotion.Override, env.Run, promotion.Revision(env.Want)
	return intent, nil
}

// HoldOf returns the hold that people have put on an environment, or with ofPipeline on the whole pipeline; nil if there is none.
func HoldOf(env promotions.EnvironmentView, ofPipeline bool) *promotions.HoldView {
	for i, hold := range env.Holds {
		if !hold.Definition && hold.Pipeline == ofPipeline {
			return &env.Holds[i]
		}
	}
	return nil
}

// environment returns an environment of a view by its name; nil if it has none.
func environment(v promotions.View, name string) *promotions.EnvironmentView {
	for i := range v.Environments {
		if v.Environments[i].Name == name {
			return &v.Environments[i]
		}
	}
	return nil
}

// retryIntent requests the promotion of the wanted revision into an environment again. Without a name it is the one environment
// that is stuck.
func (s *Service) retryIntent(v promotions.View, intent promotion.Intent) (promotion.Intent, error) {
	intent.Kind = promotion.Retry
	env := environment(v, string(intent.Env))
	if env == nil {
		var stuck []string
		for i := range v.Environments {
			if isStuck(v.Environments[i]) {
				stuck, env = append(stuck, v.Environments[i].Name), &v.Environments[i]
			}
		}
		switch {
		case len(stuck) == 0:
			return intent, fault.New(fault.Refused, "no environment of %s needs a retry", v.Pipeline).
				WithHint("waybill deployment why %s lists what is in the way", v.Pipeline)
		case len(stuck) > 1:
			return intent, fault.New(fault.Refused, "several environments of %s need a retry", v.Pipeline).
				WithHint("name one: %s", strings.Join(stuck, ", "))
		}
	}
	switch {
	case env.Want == "":
		return intent, fault.New(fault.Refused, "%s waits for no revision", pipeline.Path(v.Pipeline, env.Name))
	case len(env.DependsOn) == 0:
		return intent, fault.New(fault.Refused, "%s is the first environment: nothing is promoted into it", pipeline.Path(v.Pipeline, env.Name))
	case (env.Phase == promotion.PhaseComplete || env.Phase == promotion.PhaseFailed) && !isStuck(*env):
		return intent, fault.New(fault.Refused, "a retry of %s in %s would change nothing: its state is %s", env.Want,
			pipeline.Path(v.Pipeline, env.Name), phaseWords(*env)).
			WithHint("waybill deployment rollback %s %s --to REVISION brings another revision there", v.Pipeline, env.Name)
	}
	intent.Env, intent.Revision = promotion.EnvName(env.Name), promotion.Revision(env.Want)
	return intent, nil
}

// isStuck reports whether an environment waits for a person to retry.
func isStuck(env promotions.EnvironmentView) bool {
	return slices.ContainsFunc(env.Reasons, func(r promotions.ReasonView) bool { return CanRetry(r.Code) })
}

// CanRetry reports whether a retry may end a reason. A target that has failed is its controller's to repair: Git has the revision
// already, so promoting it again would change nothing there.
func CanRetry(code promotion.ReasonCode) bool {
	switch code {
	case promotion.WhyDeclined, promotion.WhyDriftedBack, promotion.WhyRolloutTimedOut, promotion.WhyGateFailed, promotion.WhyAttemptFailed,
		promotion.WhyNoMarkers, promotion.WhyChecksFailed:
		return true
	}
	return false
}

// EnvironmentRemedy returns the command by which a person ends a reason of an environment; "" without one. revision may be "".
func EnvironmentRemedy(name, env, revision string, code promotion.ReasonCode) string {
	switch {
	case code == promotion.WhyWaitingApproval && revision != "":
		return fmt.Sprintf("waybill approve %s %s --revision %s", name, env, revision)
	case code == promotion.WhyWaitingApproval:
		return fmt.Sprintf("waybill approve %s %s", name, env)
	case CanRetry(code):
		return fmt.Sprintf("waybill deployment retry %s %s", name, env)
	case code == promotion.WhyTargetFailed:
		return fmt.Sprintf("waybill deployment rollback %s %s", name, env)
	}
	return ""
}

// rollBackEnvironment requests a run of one environment that brings back an earlier revision: that of the request, or the one that
// finished there last. The promoter starts the run, so the answer has no number.
func (s *Service) rollBackEnvironment(ctx context.Context, want TargetRequest, dryRun bool) (d journal.Deployment, err error) {
	d = journal.Deployment{Pipeline: want.Pipeline, Kind: journal.Rollback, Status: pipeline.StatusActive, By: want.By}
	if err := checkReason(want.Reason); err != nil {
		return d, err
	}
	v, err := s.promotionView(ctx, want.Pipeline)
	if err != nil {
		return d, err
	}
	name, err := s.environmentOf(v, want.Target)
	if err != nil {
		return d, err
	}
	env := environment(v, name)
	switch {
	case env == nil:
		return d, fault.New(fault.Invalid, "a rollback of %s names an environment", want.Pipeline).
			WithHint("waybill deployment rollback %s %s", want.Pipeline, v.Environments[len(v.Environments)-1].Name)
	case len(env.DependsOn) == 0:
		return d, fault.New(fault.Refused, "%s is the first environment: nothing is promoted into it", pipeline.Path(v.Pipeline, name))
	case env.Strategy == "":
		return d, fault.New(fault.Refused, "%s has no strategy: people promote into it", pipeline.Path(v.Pipeline, name))
	}
	if d.Label = want.To; d.Label == "" {
		d.Label = env.Previous
	}
	if d.Label == "" {
		return d, fault.New(fault.Refused, "no earlier revision has finished %s", pipeline.Path(v.Pipeline, name)).
			WithHint("--to names one")
	}
	if want.Revision != "" && want.Revision != d.Label {
		return d, fault.New(fault.Refused, "the rollback would now bring back %s", d.Label).WithHint("look at it, and confirm it again")
	}
	if env.Phase == promotion.PhaseComplete && env.Want == d.Label {
		return d, fault.New(fault.Refused, "%s has %s already", pipeline.Path(v.Pipeline, name), d.Label)
	}
	if err := s.checkKnown(ctx, v, d.Label); err != nil || dryRun {
		return d, err
	}
	intent := s.intentBy(want.By, want.Reason)
	intent.Kind, intent.Env, intent.Revision = promotion.RollBack, promotion.EnvName(name), promotion.Revision(d.Label)
	stored, _, err := s.ledger.Promotions.AddIntent(ctx, want.Pipeline, intent)
	d.CreatedAt = stored.At
	return d, err
}

// judgePromoted rejects a revision in every environment, or accepts it again.
func (s *Service) judgePromoted(ctx context.Context, name, label string, intent promotion.Intent) (pipeline.RegisteredRevision, error) {
	r := pipeline.RegisteredRevision{Pipeline: name, Label: label, State: journal.RevisionSealed}
	if err := checkReason(intent.Reason); err != nil {
		return r, err
	}
	v, err := s.promotionView(ctx, name)
	if err != nil {
		return r, err
	}
	if err := s.checkKnown(ctx, v, label); err != nil {
		return r, err
	}
	if intent.Kind == promotion.RejectAll {
		r.State = journal.RevisionRejected
	}
	intent.Revision = promotion.Revision(label)
	stored, _, err := s.ledger.Promotions.AddIntent(ctx, name, intent)
	r.By, r.CreatedAt = stored.By.Name, stored.At
	return r, err
}

// checkKnown refuses a revision that no environment of a pipeline runs, tried or was to get. One that is rejected is known: its sightings
// may no longer be kept, and it can be accepted all the same.
func (s *Service) checkKnown(ctx context.Context, v promotions.View, label string) error {
	for _, env := range v.Environments {
		if label == env.Previous || slices.ContainsFunc(env.Targets, func(t promotions.TargetState) bool {
			return label == t.Revision || label == t.Attempted
		}) {
			return nil
		}
	}
	state, err := s.ledger.Promotions.Load(ctx, v.Pipeline, "")
	if err != nil {
		return err
	}
	revision := promotion.Revision(label)
	if promotion.IsRejectedEverywhere(state.Intents, revision) ||
		slices.ContainsFunc(state.Sightings, func(seen promotion.Sighting) bool { return seen.Revision == revision }) ||
		slices.ContainsFunc(state.Runs, func(r promotion.Run) bool { return r.Revision == revision }) {
		return nil
	}
	return fault.New(fault.NotFound, "%s has not seen revision %q", v.Pipeline, label).
		WithHint("waybill revision list %s shows those that it has promoted", v.Pipeline)
}

// freezePromotions freezes a pipeline of Kubernetes, or all with the name "".
func (s *Service) freezePromotions(ctx context.Context, name string, freeze admission.Freeze) (FreezeView, error) {
	if err := s.checkFreeze(ctx, name, freeze.Reason); err != nil {
		return FreezeView{Pipeline: name}, err
	}
	if err := s.ledger.Promotions.Freeze(ctx, name, freeze); err != nil {
		return FreezeView{Pipeline: name}, err
	}
	return s.frozen(ctx, name)
}

// thawPromotions ends the freeze of a pipeline of Kubernetes, or that of all with the name "".
func (s *Service) thawPromotions(ctx context.Context, name, by, reason string) (FreezeView, error) {
	if err := s.checkFreeze(ctx, name, reason); err != nil {
		return FreezeView{Pipeline: name}, err
	}
	if err := s.ledger.Promotions.Thaw(ctx, name, by); err != nil {
		return FreezeView{Pipeline: name}, err
	}
	return s.frozen(ctx, name)
}

// checkFreeze refuses a reason that is too long, and a pipeline that does not exist.
func (s *Service) checkFreeze(ctx context.Context, name, reason string) error {
	if err := checkReason(reason); err != nil || name == "" {
		return err
	}
	_, err := s.promotionView(ctx, name)
	return err
}

// frozen returns the freeze of a pipeline of Kubernetes, or of all with the name "".
func (s *Service) frozen(ctx context.Context, name string) (FreezeView, error) {
	view := FreezeView{Pipeline: name}
	all, err := s.ledger.Promotions.Freezes(ctx)
	if f, ok := all[name]; ok {
		view.Freeze = &f
	}
	return view, err
}

// FreezeAll freezes all pipelines of Kubernetes, also those that come later.
func (s *Service) FreezeAll(ctx context.Context, freeze admission.Freeze) (FreezeView, error) {
	return s.freezePromotions(ctx, "", freeze)
}

// ThawAll ends the freeze of all pipelines of Kubernetes. Freezes of single pipelines remain.
func (s *Service) ThawAll(ctx context.Context, by, reason string) (FreezeView, error) {
	return s.thawPromotions(ctx, "", by, reason)
}

// runDetail is the detail of an entry of a run: who, why, and the action.
type runDetail struct {
	By     string `json:"by,omitempty"`
	Text   string `json:"text,omitempty"`
	Action string `json:"action,omitempty"`
}

// RunDetail returns the detail of an entry of a run in one line, and the id of its action; "" if it has none.
func RunDetail(raw json.RawMessage) (text, action string) {
	var detail runDetail
	if json.Unmarshal(raw, &detail) != nil {
		return "", ""
	}
	return admission.Attributed(detail.By, detail.Text), detail.Action
}

// entryDetail returns the detail of an entry.
func entryDetail(e promotions.Entry) json.RawMessage {
	var detail runDetail
	detail.By, detail.Text = e.By, e.Detail
	if !e.ActionID.IsZero() {
		detail.Action = e.ActionID.String()
	}
	if detail.By == "" && detail.Text == "" && detail.Action == "" {
		return nil
	}
	raw, err := json.Marshal(detail)
	if err != nil {
		return nil // texts can always be encoded
	}
	return raw
}
