package promotion

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// held lists the holds of reason 5. A person's rollback is not held.
func (j *judge) held() (why []Reason) {
	if j.Cause == ByRollback {
		return nil
	}
	isEnding := func(until time.Time) bool { return !until.IsZero() && !j.Now.Before(until) }
	if h := j.Env.Hold; h != nil && !isEnding(h.Until) && (h.Revision == "" || h.Revision == j.Run.Revision) {
		why = append(why, Reason{Code: WhyHeld, Message: withReason("held in the definition", "", h.Reason), Until: h.Until})
	}
	for i := range j.Intents {
		h := &j.Intents[i]
		if h.Kind == HoldBack && concerns(h.Env, j.Env.Name) && !isEnding(h.Until) &&
			(h.Revision == "" || h.Revision == j.Run.Revision) && !isReleased(j.Intents[i+1:], h.Env) {
			why = append(why, Reason{Code: WhyHeld, Message: withReason("held", h.By.Name, h.Reason), Until: h.Until})
		}
	}
	return why
}

// isReleased reports whether a later intent releases the holds of a scope.
func isReleased(later []Intent, scope EnvName) bool {
	return slices.ContainsFunc(later, func(in Intent) bool { return in.Kind == Unhold && in.Env == scope })
}

// declined returns reason 6: people do not want the revision here. They may have rejected it, or closed its proposal, in any
// run. A retry ends that, as does a newer revision: the wanted one has to become the newest again.
func (j *judge) declined() *Reason {
	if r := j.rejected(); r != nil {
		return r
	}
	if p := j.Proposal; p != nil && p.State == Closed && !p.ClosedByUs && p.Revision == j.Run.Revision && j.isInForce(p.At) {
		return &Reason{Code: WhyDeclined, Message: withReason(proposalName(p)+" was closed", p.By, "")}
	}
	if a, ok := j.attempt(OpPropose); ok && a.Class == ErrDeclined && a.Status == AttemptFailed && j.isInForce(a.At) {
		return &Reason{Code: WhyDeclined, Message: withDetail("the proposal was closed", a.Error)}
	}
	return nil
}

// isInForce reports whether a refusal at a time still counts in this run. A retry or a rollback begins a run of this
// environment, in which earlier refusals do not.
func (j *judge) isInForce(at time.Time) bool {
	if j.Run.Env != "" && j.Run.Cause != ByDrift && j.Cause != ByFailure && !at.After(j.Run.StartedAt) {
		return false
	}
	return !j.retriedSince(at) && (j.IsRenewed == nil || !j.IsRenewed(at))
}

// rejected returns the last rejection that is in force.
func (j *judge) rejected() *Reason {
	for i, in := range slices.Backward(j.Intents) {
		if in.Revision != j.Run.Revision {
			continue
		}
		switch in.Kind {
		case Reject:
			if in.Env == j.Env.Name && j.isInForce(in.At) {
				return &Reason{Code: WhyDeclined, Message: withReason("rejected", in.By.Name, in.Reason)}
			}
		case RejectAll:
			if j.isRejectedAll(i) {
				return &Reason{Code: WhyDeclined, Message: withReason("rejected everywhere", in.By.Name, in.Reason)}
			}
		}
	}
	return nil
}

// isRejectedAll reports whether a rejection of the revision in all environments counts here. Only its acceptance ends
// it, or a retry here.
func (j *judge) isRejectedAll(i int) bool {
	in := &j.Intents[i]
	isBefore := j.Run.Env != "" && (j.Run.Cause == ByRetry || j.Run.Cause == ByRollback) && !in.At.After(j.Run.StartedAt)
	return !isBefore && !j.retriedSince(in.At) && IsRejectedEverywhere(j.Intents[i:], in.Revision)
}

// IsRejectedEverywhere reports whether people have rejected a revision in all environments, and not accepted it since.
// A retry may have ended that in one environment.
func IsRejectedEverywhere(intents []Intent, revision Revision) bool {
	for _, in := range slices.Backward(intents) {
		if in.Revision == revision && (in.Kind == RejectAll || in.Kind == AcceptAll) {
			return in.Kind == RejectAll
		}
	}
	return false
}

// unapproved returns reason 10: approvals are missing. They are counted once the predecessors have passed, since nothing
// can be approved before.
func (j *judge) unapproved() *Reason {
	need := j.Env.Approval
	switch {
	case need == nil || j.rec.approved != nil || j.Cause == ByRollback || !j.Passed && !j.isReturn():
		return nil
	case j.Cause == ByFailure && (j.Env.Rollback == nil || !j.Env.Rollback.Manual):
		return nil
	}
	given := Approvers(j.Intents, j.Run, j.Env.Name, need)
	if want := max(1, need.Count); len(given) < want {
		return &Reason{Code: WhyWaitingApproval, Message: fmt.Sprintf("approval %d of %d", len(given), want)}
	}
	j.add(Fact{Event: ApprovalGranted, By: strings.Join(given, ", ")})
	return nil
}

// Approvers lists the identities whose approval of the revision of a run in an environment counts.
func Approvers(intents []Intent, r *Run, env EnvName, need *admission.Approval) (names []string) {
	for i := range intents {
		in := &intents[i]
		if in.Kind != Approve || in.Run != r.Number || in.Env != env || in.Revision != r.Revision || !MayApprove(need, in.By, in.Proof) {
			continue
		}
		if name := identity(in); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Proofs of identities.
const (
	ProofToken      = "token"
	ProofKubernetes = "kubernetes"
	ProofKey        = "key"
)

// Prefixes of names in Approval.By, and of the identities of keys.
const (
	groupPrefix = "group:"
	keyPrefix   = "key:"
)

// MayApprove reports whether a person, proved in a way, is one whose approval counts. A key is named by its Secret.
// Names that look like a group or a key are never names of people.
func MayApprove(a *admission.Approval, by admission.Person, proof string) bool {
	if len(a.By) == 0 {
		return true
	}
	return slices.ContainsFunc(a.By, func(name string) bool {
		group, isGroup := strings.CutPrefix(name, groupPrefix)
		switch {
		case isGroup:
			return slices.Contains(by.Groups, group)
		case strings.HasPrefix(name, keyPrefix):
			return proof == ProofKey && name == secretOf(by.Name)
		}
		return proof != ProofKey && name == by.Name
	})
}

// identity returns the identity of an intent: all keys of one Secret are one.
func identity(in *Intent) string {
	if in.Proof == ProofKey {
		return secretOf(in.By.Name)
	}
	return in.By.Name
}

// secretOf returns the Secret of a key such as key:apps/fleet#2026.
func secretOf(key string) string {
	secret, _, _ := strings.Cut(key, "#")
	return secret
}
