package osb

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
)

func TestDeletes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, state string
		request     Deprovision
		leftover    *Flow
		want        string
	}{
		{"not asynchronous", "ready", Deprovision{ServiceID: "folder", PlanID: "small"}, nil, "422 AsyncRequired"},
		{"not asynchronous, wrong plan", "ready", Deprovision{ServiceID: "folder", PlanID: "x"}, nil, "422 AsyncRequired"},
		{"not asynchronous, unknown", "none", Deprovision{ServiceID: "folder", PlanID: "small"}, &Flow{Namespace: "shop"}, "422 AsyncRequired"},
		{"wrong plan", "ready", Deprovision{AcceptsIncomplete: true, ServiceID: "folder", PlanID: "x"}, nil, "400 InvalidRequest"},
		{"wrong service", "ready", Deprovision{AcceptsIncomplete: true, ServiceID: "x", PlanID: "small"}, nil, "400 InvalidRequest"},
		{"wrong plan while it is deleted", "deprovisioning", Deprovision{AcceptsIncomplete: true, ServiceID: "folder", PlanID: "x"}, nil,
			"400 InvalidRequest"},
		{"wrong plan of none", "none", Deprovision{AcceptsIncomplete: true, ServiceID: "x", PlanID: "x"}, nil, "410 Gone"},
		{"leftovers of none", "none", Deprovision{AcceptsIncomplete: true, ServiceID: "x", PlanID: "x"}, &Flow{Namespace: "shop"}, "new deprovision"},
		{"leftovers of one that is gone", "gone", Deprovision{AcceptsIncomplete: true, ServiceID: "x", PlanID: "x"}, &Flow{Namespace: "shop"}, "new deprovision"},
	} {
		if got := show(t, subject(t, c.state).Delete(c.request, nil, c.leftover)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestDeletesAcceptThePlanOfAnUnfinishedUpdate checks that a platform may send either plan after a failed change of
// plan.
func TestDeletesAcceptThePlanOfAnUnfinishedUpdate(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"updating", "update failed"} {
		for plan, want := range map[string]bool{"small": true, "large": true, "fixed": false} {
			s, service := subject(t, state), folder()
			s.Row.Asked.PlanID = "large"
			service.Plans[1].Work = Work{Handlers: &Handlers{Deprovision: "remove-large"}, Polling: time.Minute}
			d := s.Delete(Deprovision{AcceptsIncomplete: true, ServiceID: "folder", PlanID: plan}, &Catalog{Services: []*Service{service}}, nil)
			if got := d.Start != nil; got != want {
				t.Errorf("%s, %s: got %s", state, plan, show(t, d))
			}
			if d.Start != nil && (d.Start.Given.PlanID != "small" || !cmp.Equal(d.Start.Work, handled())) {
				t.Errorf("%s, %s: the work is %+v of plan %s, want that of the applied plan", state, plan, d.Start.Work, d.Start.Given.PlanID)
			}
		}
	}
}

// TestLeftoversHaveNothingOfAFormerServiceInstance that had the id, the user's own or another's.
func TestLeftoversHaveNothingOfAFormerServiceInstance(t *testing.T) {
	t.Parallel()
	request := Deprovision{AcceptsIncomplete: true, ServiceID: "events", PlanID: "plain"}
	for _, user := range []string{"platform", "other"} {
		s := subject(t, "gone")
		s.User = user
		remove := func(step string, leftover *Flow, want string) {
			t.Helper()
			d := s.Delete(request, nil, leftover)
			if got := show(t, d); got != want {
				t.Errorf("%s, %s: got %s, want %s", user, step, got, want)
			}
			if d.Start == nil {
				return
			}
			row := d.Start.Row("demo-1", user, op(2))
			if s.Row = &row; row.Applied != nil || d.Start.Given.Parameters != "" || d.Start.Work.Flow.Namespace != "market" {
				t.Errorf("%s, %s: applied %+v, given %+v", user, step, row.Applied, d.Start.Given)
			}
		}
		remove("none found", nil, "410 Gone")
		remove("elsewhere", &Flow{Namespace: "market"}, "new deprovision")
		remove("again", nil, `202 {"operation":"`+op(2).String()+`"}`)
		s.Row.End = action.Failed
		if got := show(t, s.Get()); got != "404 NotFound" {
			t.Errorf("%s: fetched: %s", user, got)
		}
		remove("after it failed", nil, "new deprovision")
	}
}

func TestDeletesOutliveTheirPlan(t *testing.T) {
	t.Parallel()
	request := Deprovision{AcceptsIncomplete: true, ServiceID: "folder", PlanID: "small"}
	s := subject(t, "update failed")
	d := s.Delete(request, nil, nil)
	if d.Start == nil || d.Start.Work.Handlers.Of(VerbDeprovision) != "remove" {
		t.Fatalf("without the plan: got %+v", d)
	}
	if d.Start.Given.Parameters != `{"size":2}` || d.Start.Asked.Parameters != `{"size":4}` {
		t.Errorf("got %+v: want the applied attributes for the handler, and those of the update in the row", d.Start)
	}
	renamed := &Catalog{Services: []*Service{{ID: "folder", Plans: []*Plan{{ID: "small", Work: Work{Handlers: &Handlers{Deprovision: "erase"}}}}}}}
	if d = s.Delete(request, renamed, nil); d.Start.Work.Handlers.Of(VerbDeprovision) != "erase" {
		t.Errorf("with the plan of today: got %+v", d.Start.Work.Handlers)
	}
}

func TestAFailedDeleteOfWhatNeverWasHasNothingToFetch(t *testing.T) {
	t.Parallel()
	s := subject(t, "deprovision failed")
	s.Row.Applied = nil
	if got := show(t, s.Get()); got != "404 NotFound" {
		t.Errorf("got %s", got)
	}
}
