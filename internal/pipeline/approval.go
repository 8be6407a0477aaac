package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// approval is what people have said about one stage of one deployment.
type approval struct {
	by       []approver // approved, in the order of their approvals
	rejected *hold      // who rejected it last, and why; nil: nobody, or somebody has approved since
}

// approver is a person and the groups that the person was in when they approved. A log is folded
// again and again, and a group may have other members by then, so the note of an approval says
// which they were.
type approver struct {
	name   string
	groups []string
}

// groupPrefix marks the name of a group in Approval.By.
const groupPrefix = "group:"

// GroupOf returns the group that a name in Approval.By stands for.
func GroupOf(name string) (group string, is bool) { return strings.CutPrefix(name, groupPrefix) }

// allows reports whether By has a person, or a group of theirs.
func (a *Approval) allows(who approver) bool {
	return len(a.By) == 0 || slices.ContainsFunc(a.By, func(name string) bool {
		group, is := GroupOf(name)
		return is && slices.Contains(who.groups, group) || !is && name == who.name
	})
}

// groups lists the groups in By.
func (a *Approval) groups() (names []string) {
	for _, name := range a.By {
		if group, is := GroupOf(name); is {
			names = append(names, group)
		}
	}
	return names
}

// isApproved reports whether the stage needs no approval, as in a rollback, or as many people have
// approved as it needs. Approvals are counted by the definition in force for the deployment: an
// edit may change how many are needed, and whose.
func (t *deployment) isApproved(stage int32) bool {
	want := t.plan.def.Stages[stage].Approval
	if want == nil || t.undoes != nil {
		return true
	}
	given := t.approvals[t.plan.stages[stage].path]
	return given.rejected == nil && len(t.counted(want, given)) >= want.Count
}

// counted lists the people whose approval of a stage counts.
func (t *deployment) counted(want *Approval, given approval) (names []string) {
	for _, who := range given.by {
		if t.mayApprove(want, who) {
			names = append(names, who.name)
		}
	}
	return names
}

// mayApprove reports whether a person is one of those who may approve the deployment in a stage. What is deployed comes from who
// registered the revision and from who uploaded what others have built.
func (t *deployment) mayApprove(want *Approval, who approver) bool {
	return want.allows(who) && (want.Self || who.name != t.registrant && !t.uploaders[who.name])
}

// uploadersOf returns the people who have uploaded artifacts of a revision.
func (e *Engine) uploadersOf(revision int64) map[string]bool {
	if e.uploaders[revision] == nil {
		e.uploaders[revision] = map[string]bool{}
	}
	return e.uploaders[revision]
}

// approve records the approval of a person, once, and ends a rejection. A later one counts with the
// groups that the person is in by then.
func (t *deployment) approve(stage string, who approver) {
	a := t.approvals[stage]
	a.rejected, a.by = nil, slices.Clone(a.by)
	if i := a.index(who.name); i >= 0 {
		a.by[i] = who
	} else {
		a.by = append(a.by, who)
	}
	t.approvals[stage] = a
}

// reject records a rejection; an earlier approval of that person counts no more.
func (t *deployment) reject(stage string, why hold) {
	a := t.approvals[stage]
	a.rejected = &why
	a.by = slices.DeleteFunc(slices.Clone(a.by), func(who approver) bool { return who.name == why.by })
	t.approvals[stage] = a
}

// index returns the place of a person's approval, or -1.
func (a approval) index(name string) int {
	return slices.IndexFunc(a.by, func(who approver) bool { return who.name == name })
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

// ApprovalState is a stage of a deployment that waits for people.
type ApprovalState struct {
	Stage string   `json:"stage"` // by name
	Count int      `json:"count"` // approvals that it needs
	Given []string `json:"given"` // who has approved, of those who may
	By    []string `json:"by"`    // who may approve; none: everybody with the scope approve
	// Not is who registered the revision and therefore may not approve it; "": nobody is left out.
	Not string `json:"not,omitempty"`
	// Uploaders are those who uploaded artifacts of the revision and therefore may not approve it.
	Uploaders []string `json:"uploaders,omitempty"`
	// Rejected is who rejected it and why, such as "by bob: too slow"; "": nobody.
	Rejected string `json:"rejected,omitempty"`
}

// pendingApprovals lists the stages that begin as soon as enough people have approved, as far as
// approvals are concerned.
func (t *deployment) pendingApprovals() []ApprovalState {
	var list []ApprovalState
	for _, stage := range t.plan.approvals {
		if t.status == StatusActive && !t.isApproved(stage) && t.begins(stage) {
			list = append(list, t.approvalState(stage))
		}
	}
	return list
}

// approvalState returns what people have said about a stage that needs approval.
func (t *deployment) approvalState(stage int32) ApprovalState {
	want, given := t.plan.def.Stages[stage].Approval, t.approvals[t.plan.stages[stage].path]
	state := ApprovalState{Stage: t.plan.def.Stages[stage].Name, Count: want.Count, Given: append([]string{}, t.counted(want, given)...), By: append([]string{}, want.By...)}
	if !want.Self {
		state.Not, state.Uploaders = t.registrant, slices.Sorted(maps.Keys(t.uploaders))
	}
	if given.rejected != nil {
		state.Rejected = given.rejected.String()
	}
	return state
}

// String returns the state as a reason, such as "approval 0 of 1".
func (a ApprovalState) String() string {
	if a.Rejected != "" {
		return "rejected " + a.Rejected
	}
	return fmt.Sprintf("approval %d of %d", len(a.Given), a.Count)
}

// opinion returns the note of an approval or a rejection; none if the person has said the same.
func (e *Engine) opinion(t *deployment, c Command) ([]Entry, error) {
	if err := e.checkApproval(t, c); err != nil || t.isRepeated(c) {
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
func (e *Engine) checkApproval(t *deployment, c Command) error {
	at, ok := t.plan.targets[c.Target]
	if !ok || at.stage < 0 || at.group >= 0 {
		return fault.New(fault.Refused, "%s is not a stage", t.plan.short(c.Target)).WithHint("name the stage that waits")
	}
	want, name, who := t.plan.def.Stages[at.stage].Approval, e.heldName(t, c.Target), approver{c.By, c.Groups}
	switch {
	case t.undoes != nil:
		return fault.New(fault.Refused, "%s is a rollback, which needs no approval", e.label(t))
	case want == nil:
		return fault.New(fault.Refused, "stage %s needs no approval", t.plan.short(c.Target))
	case c.By == "":
		return fault.New(fault.Invalid, "an approval needs the name of a person")
	case t.status == StatusFailed:
		return fault.New(fault.Refused, "%s has failed", e.label(t)).WithHint("waybill deployment retry %s", e.label(t))
	case !t.begins(at.stage):
		return fault.New(fault.Refused, "%s does not wait for approval: %s", name, t.whyNotBegins(at.stage))
	case !want.allows(who):
		return fault.New(fault.Forbidden, "%s may not approve %s", c.By, t.plan.short(c.Target)).WithHint("one of these may: %s", strings.Join(want.By, ", "))
	case c.Kind == ApprovalGiven && !t.mayApprove(want, who):
		return fault.New(fault.Forbidden, "%s %s revision %s and may not approve it", c.By, t.partOf(c.By), t.label).
			WithHint("another person may; approval.self: true in waybill.yaml would allow it")
	}
	return nil
}

// partOf returns what a person who may not approve the revision has done for it.
func (t *deployment) partOf(person string) string {
	if person == t.registrant {
		return "registered"
	}
	return "uploaded an artifact of"
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

// isRepeated reports whether the person has said the same about the stage before, so that recording
// it again would change nothing.
func (t *deployment) isRepeated(c Command) bool {
	a := t.approvals[c.Target]
	if c.Kind == ApprovalRejected {
		return a.rejected != nil && *a.rejected == hold{by: c.By, reason: c.Reason}
	}
	i := a.index(c.By)
	return a.rejected == nil && i >= 0 && slices.Equal(a.by[i].groups, c.Groups)
}
