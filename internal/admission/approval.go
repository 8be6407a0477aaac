package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// MaxApprovers bounds the names in Approval.By.
const MaxApprovers = 100

// Approval configures who must agree before a stage starts in a deployment.
type Approval struct {
	Count int      `json:"count"`        // people, at least 1
	By    []string `json:"by,omitempty"` // names of tokens that may approve, or group:NAME; none: all with the right
	// Self means that the authors of the revision may approve it.
	Self bool `json:"self,omitempty"`
}

// Opinion holds the approval or the rejection of a person.
type Opinion struct {
	By     Person
	Reject bool
	Reason string
}

// Person identifies a person and the groups that the person was in at that time. A log is folded
// again and again, and a group may have other members by then, so the note of an approval records
// the groups.
type Person struct {
	Name   string
	Groups []string
}

// Authors identifies the people from whom the content of a revision comes: the one who registered
// it, and those who uploaded what others have built.
type Authors struct {
	Revision   string // label
	Registrant string
	Uploaders  map[string]bool
}

// groupPrefix marks the name of a group in Approval.By.
const groupPrefix = "group:"

// GroupOf returns the group that a name in Approval.By stands for.
func GroupOf(name string) (group string, is bool) { return strings.CutPrefix(name, groupPrefix) }

// Groups lists the groups in By.
func (a *Approval) Groups() (names []string) {
	for _, name := range a.By {
		if group, is := GroupOf(name); is {
			names = append(names, group)
		}
	}
	return names
}

// Check refuses the opinion of a person who may not give it about a stage. Authors may reject their
// own revision.
func (a *Approval) Check(o Opinion, stage string, authors Authors) error {
	switch {
	case !a.allows(o.By):
		return fault.New(fault.Forbidden, "%s may not approve %s", o.By.Name, stage).
			WithHint("one of these may: %s", strings.Join(a.By, ", "))
	case !o.Reject && !a.counts(o.By, authors):
		did := authors.partOf(o.By.Name)
		return fault.New(fault.Forbidden, "%s %s revision %s and may not approve it", o.By.Name, did, authors.Revision).
			WithHint("another person may; approval.self: true in waybill.yaml would allow it")
	}
	return nil
}

// allows reports whether By has a person, or a group of the person.
func (a *Approval) allows(who Person) bool {
	return len(a.By) == 0 || slices.ContainsFunc(a.By, func(name string) bool {
		group, is := GroupOf(name)
		return is && slices.Contains(who.Groups, group) || !is && name == who.Name
	})
}

// counts reports whether the approval of a person counts.
func (a *Approval) counts(who Person, authors Authors) bool {
	return a.allows(who) && (a.Self || who.Name != authors.Registrant && !authors.Uploaders[who.Name])
}

// partOf returns an author's part in the revision.
func (a Authors) partOf(person string) string {
	if person == a.Registrant {
		return "registered"
	}
	return "uploaded an artifact of"
}

// Approvals holds the opinions about one stage of one deployment.
type Approvals struct {
	Given    []Person   // in the order of their approvals
	Rejected *Rejection // the last one; nil: none, or a person has approved since
}

// Rejection holds who rejected and why.
type Rejection struct{ By, Reason string }

// String returns the rejection as shown to people, such as "by ana: checking dashboards". A reason
// may have the last lines of a service, so it is cut after its first line.
func (r Rejection) String() string {
	reason, _, more := strings.Cut(r.Reason, "\n")
	if more {
		reason += " …"
	}
	return Attributed(r.By, reason)
}

// Attributed returns a reason with the person who gave it, such as "by ana: checking dashboards".
// Either may be "".
func Attributed(by, reason string) string {
	switch {
	case by == "":
		return reason
	case reason == "":
		return "by " + by
	}
	return "by " + by + ": " + reason
}

// With returns the approvals after one more opinion. An approval counts once for each person, with
// the groups of the last one, and ends a rejection. After a rejection an earlier approval of that
// person no longer counts.
func (a Approvals) With(o Opinion) Approvals {
	if o.Reject {
		isTheirs := func(who Person) bool { return who.Name == o.By.Name }
		return Approvals{slices.DeleteFunc(slices.Clone(a.Given), isTheirs), &Rejection{o.By.Name, o.Reason}}
	}
	given := slices.Clone(a.Given)
	if i := a.index(o.By.Name); i >= 0 {
		given[i] = o.By
	} else {
		given = append(given, o.By)
	}
	return Approvals{Given: given}
}

// Repeats reports whether the person has given the same opinion before, so that recording it again
// would change nothing.
func (a Approvals) Repeats(o Opinion) bool {
	if o.Reject {
		return a.Rejected != nil && *a.Rejected == Rejection{o.By.Name, o.Reason}
	}
	i := a.index(o.By.Name)
	return a.Rejected == nil && i >= 0 && slices.Equal(a.Given[i].Groups, o.By.Groups)
}

// index returns the place of a person's approval, or -1.
func (a Approvals) index(name string) int {
	return slices.IndexFunc(a.Given, func(who Person) bool { return who.Name == name })
}

// Suffice reports whether as many people have approved as are needed, and no rejection came after
// them.
func (a Approvals) Suffice(want *Approval, authors Authors) bool {
	return a.Rejected == nil && len(a.counted(want, authors)) >= want.Count
}

// counted lists the people whose approval counts.
func (a Approvals) counted(want *Approval, authors Authors) (names []string) {
	for _, who := range a.Given {
		if want.counts(who, authors) {
			names = append(names, who.Name)
		}
	}
	return names
}

// ApprovalState describes a stage of a deployment that waits for people.
type ApprovalState struct {
	Stage string   `json:"stage"` // by name
	Count int      `json:"count"` // approvals that it needs
	Given []string `json:"given"` // who has approved, of those who may
	By    []string `json:"by"`    // who may approve; none: everybody with the scope approve
	// Not names the registrant of the revision, who may not approve it; "": the registrant may.
	Not string `json:"not,omitempty"`
	// Uploaders are those who uploaded artifacts of the revision and therefore may not approve it.
	Uploaders []string `json:"uploaders,omitempty"`
	// Rejected gives the person who rejected it and the reason, such as "by bob: too slow"; "": it is not rejected.
	Rejected string `json:"rejected,omitempty"`
}

// State returns the approvals of a stage as people see them.
func (a Approvals) State(stage string, want *Approval, authors Authors) ApprovalState {
	given := a.counted(want, authors)
	state := ApprovalState{Stage: stage, Count: want.Count, Given: append([]string{}, given...),
		By: append([]string{}, want.By...)}
	if !want.Self {
		state.Not, state.Uploaders = authors.Registrant, slices.Sorted(maps.Keys(authors.Uploaders))
	}
	if a.Rejected != nil {
		state.Rejected = a.Rejected.String()
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
