package pipeline

import (
	"slices"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
)

// isApproved reports whether the stage needs no approval, as in a rollback, or as many people have
// approved as it needs. Approvals are counted by the definition in force for the deployment: an
// edit may change how many are needed, and whose.
func (t *deployment) isApproved(stage int32) bool {
	want := t.plan.def.Stages[stage].Approval
	return want == nil || t.undoes != nil || t.approvals[t.plan.stages[stage].path].Suffice(want, t.authors())
}

// authors returns the people from whom the revision comes.
func (t *deployment) authors() admission.Authors {
	return admission.Authors{Revision: t.label, Registrant: t.registrant, Uploaders: t.uploaders}
}

// uploadersOf returns the people who have uploaded artifacts of a revision.
func (e *Engine) uploadersOf(revision int64) map[string]bool {
	if e.uploaders[revision] == nil {
		e.uploaders[revision] = map[string]bool{}
	}
	return e.uploaders[revision]
}

// begins reports whether some start of the stage is to be done now, whatever else keeps it from
// running. Before that a stage cannot be approved, since the stages before it may yet fail.
func (t *deployment) begins(stage int32) bool {
	s := &t.plan.stages[stage]
	doable := func(n int32) bool { return t.isDoable(n) && !t.is(n, complete) }
	if doable(s.started) {
		return true
	}
	for _, g := range s.groups {
		group := &t.plan.groups[g]
		if doable(group.started) || slices.ContainsFunc(group.waves, func(w int32) bool { return doable(t.plan.waves[w].started()) }) ||
			slices.ContainsFunc(group.hosts, func(h int32) bool { return doable(t.plan.hosts[h].started()) }) {
			return true
		}
	}
	return false
}

// pendingApprovals lists the stages that begin as soon as enough people have approved, as far as
// approvals are concerned.
func (t *deployment) pendingApprovals() []admission.ApprovalState {
	var list []admission.ApprovalState
	for _, stage := range t.plan.approvals {
		if t.status == StatusActive && !t.isApproved(stage) && t.begins(stage) {
			list = append(list, t.approvalState(stage))
		}
	}
	return list
}

// approvalState returns the approvals of a stage that needs some.
func (t *deployment) approvalState(stage int32) admission.ApprovalState {
	want := &t.plan.def.Stages[stage]
	return t.approvals[t.plan.stages[stage].path].State(want.Name, want.Approval, t.authors())
}

// opinion returns the note of an approval or a rejection; none if the person has said the same.
func (e *Engine) opinion(t *deployment, c Command) ([]Entry, error) {
	o := admission.Opinion{By: admission.Person{Name: c.By, Groups: c.Groups}, Reject: c.Kind == ApprovalRejected, Reason: c.Reason}
	if err := e.checkApproval(t, c.Target, o); err != nil || t.approvals[c.Target].Repeats(o) {
		return nil, err
	}
	d := endDetail{By: c.By, Reason: c.Reason}
	if c.Kind == ApprovalGiven {
		d.Groups = c.Groups
	}
	return e.intent(t, c, d)
}

// checkApproval refuses an approval, or a rejection, of a stage that does not wait for one, and one
// of a person who may not give it. The person who registered the revision may reject it.
func (e *Engine) checkApproval(t *deployment, target string, o admission.Opinion) error {
	at, ok := t.plan.targets[target]
	if !ok || at.stage < 0 || at.group >= 0 {
		return fault.New(fault.Refused, "%s is not a stage", t.plan.short(target)).WithHint("name the stage that waits")
	}
	want := t.plan.def.Stages[at.stage].Approval
	switch {
	case t.undoes != nil:
		return fault.New(fault.Refused, "%s is a rollback, which needs no approval", e.label(t))
	case want == nil:
		return fault.New(fault.Refused, "stage %s needs no approval", t.plan.short(target))
	case o.By.Name == "":
		return fault.New(fault.Invalid, "an approval needs the name of a person")
	case t.status == StatusFailed:
		return fault.New(fault.Refused, "%s has failed", e.label(t)).WithHint("waybill deployment retry %s", e.label(t))
	case !t.begins(at.stage):
		return fault.New(fault.Refused, "%s does not wait for approval: %s", e.heldName(t, target), t.whyNotBegins(at.stage))
	}
	return want.Check(o, t.plan.short(target), t.authors())
}

// whyNotBegins returns why no start of a stage is to be done now.
func (t *deployment) whyNotBegins(stage int32) string {
	switch started := t.plan.stages[stage].started; {
	case t.is(started, complete):
		return "all of it has started"
	case t.isElided(started):
		return "it is left out"
	default:
		return "it waits for " + t.plan.name(t.fronts().of(started))
	}
}
