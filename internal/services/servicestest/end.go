package servicestest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// bind stores a binding, with the row of its service instance under the id.
func (s setup) bind(t *testing.T, b services.Binding, id string) {
	t.Helper()
	b.Instance = id
	storetest.Check(t, s.write(id, func(tx *store.Tx, _ *services.Instance) error { return s.BindIn(tx, b) }))
}

// endsOfOperationsAreRecorded in their rows, and lets the operations begin that wait for them.
func endsOfOperationsAreRecorded(t *testing.T, s setup) {
	i := row("demo-1", op(1), services.Provision)
	s.put(t, i)
	s.ends(t, action.Failed,
		action.Action{ID: op(9), Kind: services.Kind, UniqueKey: services.Key("demo-1", services.Repair)},
		action.Action{ID: op(8), Kind: services.Kind, UniqueKey: services.Key("unknown", services.Update)},
		action.Action{ID: op(1), Kind: "job", UniqueKey: services.Key("demo-1", services.Provision)})
	s.want(t, "demo-1", &i)
	s.ends(t, action.Successful, operation(i))
	i.End, i.Applied = action.Successful, i.Asked
	s.want(t, "demo-1", &i)
	var released []string
	for _, keys := range s.released.keys {
		if len(keys) != 4 {
			t.Errorf("released: %v", keys)
		}
		released = append(released, keys[0])
	}
	want := []string{"osb/demo-1/provision", "osb/unknown/provision", "osb/demo-1/provision"}
	if diff := cmp.Diff(want, released); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
	storetest.Check(t, s.db.Write(s.ctx, "end another action", func(tx *store.Tx) error {
		if record, err := s.OnEnd(tx, []*action.Action{{Kind: "job"}}); record != nil || err != nil {
			t.Errorf("the end of a job is recorded: %v", err)
		}
		return nil
	}))
}

// endsFindTheRowThatIsStored: a deprovision ends in its transaction the operation that it cancels.
func endsFindTheRowThatIsStored(t *testing.T, s setup) {
	provision := row("demo-1", op(1), services.Provision)
	s.put(t, provision)
	deprovision := row("demo-1", op(2), services.Deprovision)
	storetest.Check(t, s.write("demo-1", func(tx *store.Tx, _ *services.Instance) error {
		if err := s.PutIn(tx, deprovision); err != nil {
			return err
		}
		return s.end(tx, action.Successful, operation(provision))
	}))
	deprovision.Applied = deprovision.Asked
	s.want(t, "demo-1", &deprovision)
}

// endsOfManyServicesDoNotDeadlock, in whatever order a turn names them.
func endsOfManyServicesDoNotDeadlock(t *testing.T, s setup) {
	const many = 20
	var actions []action.Action
	for n := range many {
		i := row(fmt.Sprintf("demo-%d", n), op(byte(n+1)), services.Update)
		s.put(t, i)
		actions = append(actions, operation(i))
	}
	var all sync.WaitGroup
	for n := range 4 {
		other, some := s.another(t), slices.Clone(actions)
		if n%2 == 1 {
			slices.Reverse(some)
		}
		all.Go(func() {
			for range 5 {
				err := other.db.Write(other.ctx, "end actions", func(tx *store.Tx) error {
					return other.end(tx, action.Failed, some...)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func bindingsLeaveWithTheirService(t *testing.T, s setup) {
	mine, other := row("demo-1", op(1), services.Deprovision), row("demo-2", op(2), services.Update)
	s.put(t, mine)
	s.put(t, other)
	bound := func(id string) (ids []string) {
		t.Helper()
		for _, b := range []string{"a", "b"} {
			found, err := s.Binding(s.ctx, id, b)
			storetest.Check(t, err)
			if found != nil {
				ids = append(ids, b+string(found.Document))
			}
		}
		return ids
	}
	want := func(name, id string, ids ...string) {
		t.Helper()
		if diff := cmp.Diff(ids, bound(id)); diff != "" {
			t.Errorf("%s: bindings of %s (-want +got):\n%s", name, id, diff)
		}
	}
	for _, id := range []string{"demo-1", "demo-2"} {
		s.bind(t, services.Binding{ID: "a", Document: json.RawMessage(`1`)}, id)
		s.bind(t, services.Binding{ID: "b", Document: json.RawMessage(`1`)}, id)
	}
	s.bind(t, services.Binding{ID: "b", Document: json.RawMessage(`2`)}, "demo-1")
	want("stored again", "demo-1", "a1", "b2")
	for range 2 {
		storetest.Check(t, s.write("demo-2", func(tx *store.Tx, _ *services.Instance) error {
			return s.UnbindIn(tx, "demo-2", "a")
		}))
	}
	s.ends(t, action.Failed, operation(mine))
	want("its delete failed", "demo-1", "a1", "b2")
	mine.Operation = op(3)
	s.put(t, mine)
	s.ends(t, action.Successful, operation(mine))
	want("gone", "demo-1")
	want("not gone", "demo-2", "b1")
	err := s.write("demo-3", func(tx *store.Tx, _ *services.Instance) error {
		return s.BindIn(tx, services.Binding{Instance: "demo-3", ID: "a", Document: json.RawMessage(`1`)})
	})
	storetest.WantCode(t, err, fault.NotFound)
}

// gone stores a service instance that was gone some time ago.
func (s setup) gone(t *testing.T, id string, age time.Duration) services.Instance {
	t.Helper()
	now, err := store.Now(s.ctx, s.db)
	storetest.Check(t, err)
	i := row(id, op(1), services.Deprovision)
	i.End, i.GoneAt = action.Successful, now.Add(-age)
	s.put(t, i)
	return i
}

// goneServicesAreForgotten after 30 days, in pieces, and with their bindings.
func goneServicesAreForgotten(t *testing.T, s setup) {
	const old, many = services.Retention + time.Minute, 501
	now, err := store.Now(s.ctx, s.db)
	storetest.Check(t, err)
	storetest.Check(t, s.db.Write(s.ctx, "store many", func(tx *store.Tx) error {
		for n := range many {
			id := fmt.Sprintf("old-%d", n)
			if _, err := s.LockIn(tx, id); err != nil {
				return err
			}
			i := row(id, op(1), services.Deprovision)
			i.End, i.GoneAt = action.Successful, now.Add(-old)
			if err := s.PutIn(tx, i); err != nil {
				return err
			}
		}
		return nil
	}))
	s.bind(t, services.Binding{ID: "a", Document: json.RawMessage(`1`)}, "old-0") // as after a restore of parts
	recent := s.gone(t, "recent", services.Retention-time.Minute)
	live := row("live", op(2), services.Provision)
	s.put(t, live)
	storetest.Check(t, s.Retain(s.ctx))
	rest, err := s.List(s.ctx, "", 0)
	storetest.Check(t, err)
	if diff := cmp.Diff([]services.Instance{live, recent}, rest); diff != "" {
		t.Errorf("rows that are left (-want +got):\n%s", diff)
	}
	if b, err := s.Binding(s.ctx, "old-0", "a"); b != nil || err != nil {
		t.Errorf("binding: %+v, %v", b, err)
	}
}

// servicesThatReturnAreKept: one that is provisioned again while it is to be forgotten stays.
func servicesThatReturnAreKept(t *testing.T, s setup) {
	gone, other := s.gone(t, "demo-1", services.Retention+time.Minute), s.another(t)
	other.want(t, "demo-1", &gone) // it is connected
	retained := make(chan error, 1)
	again := row("demo-1", op(2), services.Provision)
	begun := false
	storetest.Check(t, s.write("demo-1", func(tx *store.Tx, found *services.Instance) error {
		if found == nil {
			t.Error("it was forgotten before it returned")
			return nil
		}
		if err := s.PutIn(tx, again); err != nil {
			return err
		}
		if !begun { // the database may run this again
			begun = true
			go func() { retained <- other.Retain(other.ctx) }()
		}
		for range 1000 { // so that Retain finds the row as it was
			if _, err := s.BindingIn(tx, "demo-1", "b"); err != nil {
				return err
			}
		}
		return nil
	}))
	storetest.Check(t, <-retained)
	s.want(t, "demo-1", &again)
}
