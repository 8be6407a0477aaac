package osb

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/services"
)

func TestStateFollowsFromRowAndThread(t *testing.T) {
	t.Parallel()
	live := []action.Status{action.Pending, action.Queued, action.Running, action.Backoff}
	bad := []action.Status{action.Failed, action.Canceled, action.TimedOut, action.Invalid, action.RetriesExhausted}
	for _, c := range []struct {
		verb               Verb
		live, done, failed State
	}{
		{VerbProvision, Provisioning, Ready, ProvisionFailed},
		{VerbUpdate, Updating, Ready, UpdateFailed},
		{VerbDeprovision, Deprovisioning, Gone, DeprovisionFailed},
	} {
		want := map[action.Status]State{action.Successful: c.done}
		for _, status := range live {
			want[status] = c.live
		}
		for _, status := range bad {
			want[status] = c.failed
		}
		for status, state := range want {
			row := &Instance{Verb: c.verb}
			if got := row.State(&Thread{Status: status}); got != state {
				t.Errorf("%s, thread %s: got %s, want %s", c.verb, status, got, state)
			}
			if !status.Ended() {
				continue
			}
			row.End = status
			for _, thread := range []*Thread{nil, {}, {Status: action.Running}} {
				if got := row.State(thread); got != state {
					t.Errorf("%s, ended %s: got %s, want %s", c.verb, status, got, state)
				}
			}
		}
		if got := (&Instance{Verb: c.verb}).State(nil); got != c.live {
			t.Errorf("%s without thread and end: got %s, want %s", c.verb, got, c.live)
		}
	}
	var none *Instance
	if none.State(nil) != None || none.Purged(now) {
		t.Error("a service instance without a row has a state")
	}
}

// TestRowsThroughALife follows the row of one service instance from its provision to its second one.
func TestRowsThroughALife(t *testing.T) {
	t.Parallel()
	two, four := attributes(), attributes()
	four.Parameters = `{"size":4}`
	var row Instance
	start := func(verb Verb, asked Attributes) *Start {
		return &Start{Verb: verb, Asked: asked, Applied: row.Applied}
	}
	row = start(VerbProvision, two).Row("demo-1", "platform", op(1))
	check := func(name string, state State, applied *Attributes) {
		t.Helper()
		if got := row.State(nil); got != state {
			t.Errorf("%s: got %s, want %s", name, got, state)
		}
		if diff := cmp.Diff(applied, row.Applied); diff != "" {
			t.Errorf("%s: applied (-want +got):\n%s", name, diff)
		}
	}
	check("provision started", Provisioning, nil)
	row = ended(row, op(1), VerbProvision, action.Successful, now)
	check("provisioned", Ready, &two)
	row = start(VerbUpdate, four).Row("demo-1", "platform", op(2))
	check("update started", Updating, &two)
	row = ended(row, op(2), VerbUpdate, action.Failed, now)
	check("update failed", UpdateFailed, &two)
	row = start(VerbUpdate, four).Row("demo-1", "platform", op(3))
	row = start(VerbDeprovision, four).Row("demo-1", "platform", op(4))
	check("deleted while it was updated", Deprovisioning, &two)
	row = ended(row, op(3), VerbUpdate, action.Successful, now)
	check("the update succeeded before it was cancelled", Deprovisioning, &four)
	row = ended(row, op(4), VerbDeprovision, action.TimedOut, now)
	check("delete failed", DeprovisionFailed, &four)
	row = start(VerbDeprovision, four).Row("demo-1", "platform", op(5))
	row = ended(row, op(5), VerbDeprovision, action.Successful, now)
	check("deleted", Gone, &four)
	if !row.GoneAt.Equal(now) || row.Purged(now.Add(30*24*time.Hour-time.Second)) || !row.Purged(now.Add(30*24*time.Hour)) {
		t.Errorf("gone at %s: want %s, and 30 days more", row.GoneAt, now)
	}
	row = (&Start{Verb: VerbProvision, Asked: two}).Row("demo-1", "other", op(6))
	check("provisioned again", Provisioning, nil)
	if !row.GoneAt.IsZero() || row.User != "other" || row.Operation != op(6) {
		t.Errorf("provisioned again: got %+v", row)
	}
	row = ended(row, op(5), VerbDeprovision, action.Successful, now)
	check("an old operation ends", Provisioning, nil)
}

// TestACancelledProvisionAppliesNothing checks that only success applies attributes.
func TestACancelledProvisionAppliesNothing(t *testing.T) {
	t.Parallel()
	row := (&Start{Verb: VerbDeprovision, Asked: attributes()}).Row("demo-1", "platform", op(2))
	row = ended(row, op(1), VerbProvision, action.Canceled, now)
	if row.Applied != nil || row.State(nil) != Deprovisioning {
		t.Errorf("got %+v", row)
	}
}

// ended returns the row after an operation has ended, as the store writes it.
func ended(i Instance, operation action.ID, verb Verb, status action.Status, at time.Time) Instance {
	row := services.Instance{Operation: i.Operation, Verb: services.Verb(i.Verb), End: i.End, GoneAt: i.GoneAt, Asked: []byte("{}")}.
		Ended(operation, services.Verb(verb), status, at)
	i.End, i.GoneAt = row.End, row.GoneAt
	if row.Applied != nil {
		asked := i.Asked
		i.Applied = &asked
	}
	return i
}
