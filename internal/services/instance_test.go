package services_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/services"
)

var now = time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC)

// op returns the id of an operation.
func op(n byte) action.ID { return action.ID{n} }

// TestRowsThroughALife follows the row of one service instance from its provision to its second one.
func TestRowsThroughALife(t *testing.T) {
	t.Parallel()
	i := services.Instance{ID: "demo-1", Operation: op(1), Verb: services.Provision, Asked: []byte(`2`)}
	next := func(operation action.ID, verb services.Verb, asked string) {
		i.Operation, i.Verb, i.End, i.Asked = operation, verb, 0, []byte(asked)
	}
	check := func(name string, end action.Status, applied string, gone time.Time) {
		t.Helper()
		if i.End != end || string(i.Applied) != applied || !i.GoneAt.Equal(gone) {
			t.Errorf("%s: ended %s, applied %q, gone at %s; want %s, %q, %s", name, i.End, i.Applied, i.GoneAt, end,
				applied, gone)
		}
	}
	i = i.Ended(op(1), services.Provision, action.Successful, now)
	check("provisioned", action.Successful, "2", time.Time{})
	next(op(2), services.Update, "4")
	i = i.Ended(op(1), services.Provision, action.Failed, now)
	check("an old operation ends", 0, "2", time.Time{})
	i = i.Ended(op(2), services.Update, action.Failed, now)
	check("the update failed", action.Failed, "2", time.Time{})
	next(op(3), services.Update, "4")
	next(op(4), services.Deprovision, "4")
	i = i.Ended(op(3), services.Update, action.Successful, now)
	check("the update succeeded before it was canceled", 0, "4", time.Time{})
	i = i.Ended(op(4), services.Deprovision, action.TimedOut, now)
	check("the delete failed", action.TimedOut, "4", time.Time{})
	next(op(5), services.Deprovision, "4")
	i = i.Ended(op(5), services.Deprovision, action.Successful, now)
	check("deleted", action.Successful, "4", now)
	next(op(6), services.Provision, "8")
	i.Applied, i.GoneAt = nil, time.Time{}
	i = i.Ended(op(5), services.Deprovision, action.Successful, now)
	check("an operation of its former life ends", 0, "", time.Time{})
}

func TestOnlySuccessApplies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		verb    services.Verb // verb of the row, whose operation is 2
		gone    time.Time
		ended   action.ID
		by      services.Verb
		status  action.Status
		applied bool
	}{
		{"a provision", services.Provision, time.Time{}, op(2), services.Provision, action.Successful, true},
		{"an update", services.Update, time.Time{}, op(2), services.Update, action.Successful, true},
		{"a failed provision", services.Provision, time.Time{}, op(2), services.Provision, action.Failed, false},
		{"a deprovision", services.Deprovision, time.Time{}, op(2), services.Deprovision, action.Successful, false},
		{"a canceled provision", services.Deprovision, time.Time{}, op(1), services.Provision, action.Canceled, false},
		{"a provision that went on", services.Deprovision, time.Time{}, op(1), services.Provision, action.Successful, true},
		{"a repair that went on", services.Deprovision, time.Time{}, op(1), services.Repair, action.Successful, false},
		{"a repair", services.Update, time.Time{}, op(1), services.Repair, action.Successful, false},
		{"another update", services.Update, time.Time{}, op(1), services.Update, action.Successful, false},
		{"an update after the delete", services.Deprovision, now, op(1), services.Update, action.Successful, false},
	} {
		before := services.Instance{Operation: op(2), Verb: c.verb, Asked: []byte(`1`), GoneAt: c.gone}
		if got := before.Ended(c.ended, c.by, c.status, now); (got.Applied != nil) != c.applied {
			t.Errorf("%s: applied %q, want one: %t", c.name, got.Applied, c.applied)
		}
		if before.Applied != nil || before.End != 0 {
			t.Errorf("%s: the row that was given has changed: %+v", c.name, before)
		}
	}
}

func TestActionsOfOperations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, key, instance string
		verb                services.Verb
		ok                  bool
	}{
		{services.Kind, "osb/demo-1/provision", "demo-1", services.Provision, true},
		{services.Kind, "osb/a/b//repair", "a/b/", services.Repair, true},
		{services.Kind, "osb///update", "/", services.Update, true},
		{services.Kind, "osb//update", "", "", false},
		{services.Kind, "osb/update", "", "", false},
		{services.Kind, "event/demo-1/provision", "", "", false},
		{services.Kind, "", "", "", false},
		{"job", "osb/demo-1/provision", "", "", false},
	} {
		instance, verb, ok := services.OfAction(&action.Action{Kind: c.kind, UniqueKey: c.key})
		if instance != c.instance || verb != c.verb || ok != c.ok {
			t.Errorf("%s %q: got %q, %q, %t", c.kind, c.key, instance, verb, ok)
		}
	}
}

// FuzzKeys checks that every id is read back from its keys, and that no two operations share a key.
func FuzzKeys(f *testing.F) {
	f.Add("demo-1", "demo-1/update")
	f.Add("/", "//provision")
	f.Fuzz(func(t *testing.T, id, other string) {
		if id == "" || other == "" {
			return
		}
		key := services.Key(id, services.Update)
		got, verb, ok := services.OfAction(&action.Action{Kind: services.Kind, UniqueKey: key})
		if !ok || got != id || verb != services.Update {
			t.Errorf("%q: got %q, %q, %t", key, got, verb, ok)
		}
		if id != other && key == services.Key(other, services.Update) {
			t.Errorf("%q and %q have one key", id, other)
		}
	})
}

func TestOtherKeys(t *testing.T) {
	t.Parallel()
	got := services.OtherKeys("a", services.Deprovision)
	if diff := cmp.Diff([]string{"osb/a/provision", "osb/a/update", "osb/a/repair"}, got); diff != "" {
		t.Error(diff)
	}
	if longest := services.Key(strings.Repeat("x", services.MostID), services.Deprovision); len(longest) > 1024 {
		t.Errorf("a unique key has %d bytes: the queue stores 1024", len(longest))
	}
}
