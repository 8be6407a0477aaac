package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
)

// made are the authors of a revision: ana registered it, and bob uploaded an artifact of it.
var made = admission.Authors{Revision: "3f2c9a1", Registrant: "ana", Uploaders: map[string]bool{"bob": true}}

func approves(name string, groups ...string) admission.Opinion {
	return admission.Opinion{By: admission.Person{Name: name, Groups: groups}}
}

func rejects(name, reason string) admission.Opinion {
	return admission.Opinion{By: admission.Person{Name: name}, Reject: true, Reason: reason}
}

// after returns the approvals after some opinions.
func after(opinions ...admission.Opinion) (a admission.Approvals) {
	for _, o := range opinions {
		a = a.With(o)
	}
	return a
}

func TestApprovalsAreCounted(t *testing.T) {
	t.Parallel()
	anyone, ops := admission.Approval{Count: 1}, admission.Approval{Count: 1, By: []string{"cyd", "group:ops"}}
	two, self := admission.Approval{Count: 2}, admission.Approval{Count: 2, Self: true}
	for _, c := range []struct {
		name     string
		want     admission.Approval
		opinions []admission.Opinion
		counts   []string
		suffice  bool
	}{
		{"none", anyone, nil, nil, false},
		{"one", anyone, []admission.Opinion{approves("cyd")}, []string{"cyd"}, true},
		{"the registrant's", anyone, []admission.Opinion{approves("ana")}, nil, false},
		{"an uploader's", anyone, []admission.Opinion{approves("bob")}, nil, false},
		{"those of authors, with self", self, []admission.Opinion{approves("ana"), approves("bob")}, []string{"ana",
			"bob"}, true},
		{"one of two", two, []admission.Opinion{approves("cyd")}, []string{"cyd"}, false},
		{"the same person twice", two, []admission.Opinion{approves("cyd"), approves("cyd")}, []string{"cyd"}, false},
		{"two", two, []admission.Opinion{approves("dan"), approves("cyd")}, []string{"dan", "cyd"}, true},
		{"by name", ops, []admission.Opinion{approves("cyd")}, []string{"cyd"}, true},
		{"by group", ops, []admission.Opinion{approves("dan", "dev", "ops")}, []string{"dan"}, true},
		{"of another group", ops, []admission.Opinion{approves("dan", "dev")}, nil, false},
		{"a person with the name of a group", ops, []admission.Opinion{approves("group:ops")}, nil, false},
		{"the last groups count", ops, []admission.Opinion{approves("dan", "ops"), approves("dan", "dev")}, nil, false},
		{"rejected", anyone, []admission.Opinion{approves("cyd"), rejects("dan", "")}, []string{"cyd"}, false},
		{"approved after a rejection", two, []admission.Opinion{approves("cyd"), rejects("dan", ""), approves("eve")},
			[]string{"cyd", "eve"}, true},
		{"rejected by a person who approved", two, []admission.Opinion{approves("cyd"), rejects("cyd", ""),
			approves("eve")}, []string{"eve"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := after(c.opinions...)
			if got := a.Suffice(&c.want, made); got != c.suffice {
				t.Errorf("suffice: got %v, want %v", got, c.suffice)
			}
			if diff := cmp.Diff(append([]string{}, c.counts...), a.State("prod", &c.want, made).Given); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpinionChangesNoEarlierApprovals(t *testing.T) {
	t.Parallel()
	before := after(approves("cyd", "dev"), approves("dan"))
	same := after(approves("cyd", "dev"), approves("dan"))
	for _, o := range []admission.Opinion{approves("cyd", "ops"), approves("eve"), rejects("cyd", "slow")} {
		before.With(o)
		if diff := cmp.Diff(same, before); diff != "" {
			t.Errorf("%v changed what was there (-before +after):\n%s", o, diff)
		}
	}
}

func TestRepeatedOpinionsAreKnown(t *testing.T) {
	t.Parallel()
	approved, rejected := after(approves("cyd", "ops")), after(approves("cyd", "ops"), rejects("dan", "slow"))
	for _, c := range []struct {
		name   string
		before admission.Approvals
		next   admission.Opinion
		want   bool
	}{
		{"the same approval", approved, approves("cyd", "ops"), true},
		{"in other groups", approved, approves("cyd"), false},
		{"of another person", approved, approves("dan"), false},
		{"a first rejection", approved, rejects("dan", "slow"), false},
		{"an approval that ends a rejection", rejected, approves("cyd", "ops"), false},
		{"the same rejection", rejected, rejects("dan", "slow"), true},
		{"a rejection for another reason", rejected, rejects("dan", "red"), false},
		{"the rejection of another person", rejected, rejects("cyd", "slow"), false},
	} {
		if got := c.before.Repeats(c.next); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestCheckRefusesOpinionsThatDoNotCount(t *testing.T) {
	t.Parallel()
	anyone, ops := admission.Approval{Count: 1}, admission.Approval{Count: 1, By: []string{"ana", "group:ops"}}
	self := admission.Approval{Count: 1, Self: true}
	const notTheirs = " revision 3f2c9a1 and may not approve it"
	for _, c := range []struct {
		name string
		want admission.Approval
		o    admission.Opinion
		text string // "": accepted
	}{
		{"anyone", anyone, approves("cyd"), ""},
		{"one of a group", ops, approves("cyd", "ops"), ""},
		{"not named", ops, approves("cyd", "dev"), "cyd may not approve prod"},
		{"not named, rejects", ops, rejects("cyd", ""), "cyd may not approve prod"},
		{"the registrant", ops, approves("ana"), "ana registered" + notTheirs},
		{"an uploader", anyone, approves("bob"), "bob uploaded an artifact of" + notTheirs},
		{"the registrant rejects", ops, rejects("ana", ""), ""},
		{"the registrant, with self", self, approves("ana"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code := fault.Forbidden
			if c.text == "" {
				code = ""
			}
			wantFault(t, c.want.Check(c.o, "prod", made), code, c.text)
		})
	}
}

func TestStateShowsWhoMayNotApprove(t *testing.T) {
	t.Parallel()
	want := admission.Approval{Count: 2, By: []string{"ana", "group:ops"}}
	got := after(approves("dan", "ops"), rejects("cyd", "too slow\nline 2")).State("prod", &want, made)
	if diff := cmp.Diff(admission.ApprovalState{Stage: "prod", Count: 2, Given: []string{"dan"},
		By:  []string{"ana", "group:ops"},
		Not: "ana", Uploaders: []string{"bob"}, Rejected: "by cyd: too slow …"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.String() != "rejected by cyd: too slow …" {
		t.Errorf("got %q", got)
	}
	got = after(approves("dan")).State("prod", &admission.Approval{Count: 2, Self: true}, made)
	if diff := cmp.Diff(admission.ApprovalState{Stage: "prod", Count: 2, Given: []string{"dan"}, By: []string{}},
		got); diff != "" {
		t.Errorf("with self (-want +got):\n%s", diff)
	}
	if got.String() != "approval 1 of 2" {
		t.Errorf("got %q", got)
	}
}

func TestAttributedNamesThePersonIfAny(t *testing.T) {
	t.Parallel()
	for want, words := range map[string][2]string{"": {"", ""}, "slow": {"", "slow"}, "by ana": {"ana", ""},
		"by ana: slow": {"ana", "slow"}} {
		if got := admission.Attributed(words[0], words[1]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestGroupsOfAnApproval(t *testing.T) {
	t.Parallel()
	a := admission.Approval{By: []string{"ops", "group:ops", "group:", "dan"}}
	if diff := cmp.Diff([]string{"ops", ""}, a.Groups()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
