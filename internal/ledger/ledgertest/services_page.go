package ledgertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// pagesOfServicesHaveTheirOperations: a list has the same states as one look at each, in pages, and an empty one is none.
func pagesOfServicesHaveTheirOperations(t *testing.T, s setup) {
	empty, err := s.ServicePage(s.ctx, "", 10)
	storetest.Check(t, err)
	if len(empty) != 0 {
		t.Errorf("a log without service instances has %+v", empty)
	}
	want := map[string]action.ID{}
	for _, id := range []string{"b", "a/2", "a", "ä"} {
		want[id] = s.operate(t, id, services.Provision)
	}
	got := map[string]action.ID{}
	var order []string
	for after, more := "", true; more; {
		page, err := s.ServicePage(s.ctx, after, 3)
		storetest.Check(t, err)
		for _, state := range page {
			after = state.Row.ID
			order = append(order, after)
			if got[after] = state.Row.Operation; state.Thread == nil || state.Thread.ID != state.Row.Operation {
				t.Errorf("service instance %q has the operation of %+v", after, state.Thread)
			}
			if alone := s.service(t, after); !cmp.Equal(alone.Row, state.Row) || alone.Thread.Thread.Status != state.Thread.Thread.Status {
				t.Errorf("in its page service instance %q is %+v, alone %+v", after, state, alone)
			}
		}
		more = len(page) == 3
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "a/2", "b", "ä"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
