package servicestest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
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

// servicesAreReadBack with every column, and documents byte by byte.
func servicesAreReadBack(t *testing.T, s setup) {
	i := row("demo-1", op(1), services.Provision)
	i.Asked = json.RawMessage("{ \"b\": 1e2, \"a\": \"\\u0000 \\ud800 <é>\",\t\"a\": [ ] }")
	s.put(t, i)
	s.want(t, "demo-1", &i)
	i.User, i.Operation, i.Verb, i.End = "other", op(2), services.Deprovision, action.TimedOut
	i.Applied, i.GoneAt = i.Asked, time.Date(2026, 3, 1, 14, 2, 0, 1000, time.UTC)
	s.put(t, i)
	s.want(t, "demo-1", &i)
	s.want(t, "demo", nil)
	again := row("demo-1", op(3), services.Provision)
	s.put(t, again)
	s.want(t, "demo-1", &again)
}

// identicalRequestsMakeOneService: of many requests that find no row one stores its operation, and the rest find that
// one.
func identicalRequestsMakeOneService(t *testing.T, s setup) {
	const askers = 6
	found := make([]action.ID, askers)
	made := make([]bool, askers)
	var all sync.WaitGroup
	start := make(chan struct{})
	for n := range askers {
		other := s.another(t)
		other.want(t, "demo-1", nil) // it is connected
		all.Go(func() {
			<-start
			err := other.write("demo-1", func(tx *store.Tx, there *services.Instance) error {
				made[n], found[n] = there == nil, op(byte(n+1))
				if there != nil {
					found[n] = there.Operation
					return nil
				}
				return other.PutIn(tx, row("demo-1", found[n], services.Provision))
			})
			if err != nil {
				t.Errorf("asker %d: %v", n, err)
			}
		})
	}
	close(start)
	all.Wait()
	stored, err := s.Get(s.ctx, "demo-1")
	storetest.Check(t, err)
	makers := 0
	for n := range askers {
		if made[n] {
			makers++
		}
		if found[n] != stored.Operation {
			t.Errorf("asker %d got operation %s, stored is %s", n, found[n], stored.Operation)
		}
	}
	if makers != 1 {
		t.Errorf("%d requests have made the service instance", makers)
	}
}

// changesOfAServiceTakeTurns: no transaction changes a row that it has read before the change of another.
func changesOfAServiceTakeTurns(t *testing.T, s setup) {
	first := row("demo-1", op(1), services.Update)
	s.put(t, first)
	const askers, rounds = 4, 25
	var all sync.WaitGroup
	start := make(chan struct{})
	for range askers {
		other := s.another(t)
		other.want(t, "demo-1", &first) // it is connected
		all.Go(func() {
			<-start
			for range rounds {
				if err := other.write("demo-1", func(tx *store.Tx, there *services.Instance) error {
					there.User += "+"
					return other.PutIn(tx, *there)
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	close(start)
	all.Wait()
	got, err := s.Get(s.ctx, "demo-1")
	storetest.Check(t, err)
	if n := strings.Count(got.User, "+"); n != askers*rounds {
		t.Errorf("%d changes are left of %d", n, askers*rounds)
	}
}

// attributesChangeWithoutOperation, both of the row, after the end of an operation.
func attributesChangeWithoutOperation(t *testing.T, s setup) {
	i := row("demo-1", op(1), services.Provision)
	s.put(t, i)
	s.ends(t, action.Successful, operation(i))
	i.End = action.Successful
	i.Asked, i.Applied = json.RawMessage(`{"size":2,"context":"a"}`), json.RawMessage(`{"size":1,"context":"a"}`)
	s.put(t, i)
	s.want(t, "demo-1", &i)
	s.another(t).want(t, "demo-1", &i)
	s.ends(t, action.Failed, operation(row("demo-2", op(2), services.Update)))
	i.Operation, i.Verb, i.End = op(3), services.Update, 0
	s.put(t, i)
	s.ends(t, action.Failed, operation(i))
	i.End = action.Failed
	s.want(t, "demo-1", &i)
}

func anErrorStoresNothing(t *testing.T, s setup) {
	before := row("old", op(1), services.Provision)
	s.put(t, before)
	refused := errors.New("refused")
	for _, id := range []string{"old", "new"} {
		err := s.write(id, func(tx *store.Tx, _ *services.Instance) error {
			return errors.Join(s.PutIn(tx, row(id, op(2), services.Update)),
				s.BindIn(tx, services.Binding{Instance: id, ID: "b", Document: json.RawMessage(`{}`)}), refused)
		})
		if !errors.Is(err, refused) {
			t.Errorf("%s: %v", id, err)
		}
		if b, err := s.Binding(s.ctx, id, "b"); err != nil || b != nil {
			t.Errorf("%s: binding %+v, %v", id, b, err)
		}
	}
	s.want(t, "old", &before)
	s.want(t, "new", nil)
	storetest.Check(t, s.write("new", func(*store.Tx, *services.Instance) error { return nil }))
	s.want(t, "new", nil)
}

// odd returns ids that a database might confuse, in the order of their bytes.
func odd() []string {
	ids := []string{"a", "A", "a ", " a", "a\t", "ä", "a\u0308", "Å", "\u212b", "ß", "ss", "%41",
		"'; --", "\"", "a/b", "a/b/provision", "1", "01", "1.0", "null", "\u200b", "\U0001f600", "\x01", "\n", "\\", "_", "%", "*",
		strings.Repeat("x", services.MostID), strings.Repeat("x", services.MostID-1) + "y"}
	slices.Sort(ids)
	return ids
}

// idsAreComparedByteByByte: each odd id has a row of its own, and bindings.
func idsAreComparedByteByByte(t *testing.T, s setup) {
	ids := odd()
	for n, id := range ids {
		s.want(t, id, nil)
		i := row(id, op(byte(n+1)), services.Provision)
		s.put(t, i)
		s.bind(t, services.Binding{ID: id, Document: json.RawMessage(`"` + op(byte(n+1)).String() + `"`)}, ids[0])
	}
	for n, id := range ids {
		want := row(id, op(byte(n+1)), services.Provision)
		s.want(t, id, &want)
		b, err := s.Binding(s.ctx, ids[0], id)
		storetest.Check(t, err)
		if b == nil || string(b.Document) != `"`+op(byte(n+1)).String()+`"` {
			t.Errorf("binding %q: %+v", id, b)
		}
	}
}

// servicesAreListedInPages, in the order of the bytes of their ids on every database.
func servicesAreListedInPages(t *testing.T, s setup) {
	ids := odd()
	for n, id := range ids {
		i := row(id, op(byte(n+1)), services.Provision)
		if n%2 == 0 {
			i.Verb, i.End, i.GoneAt = services.Deprovision, action.Successful, time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC)
		}
		s.put(t, i)
	}
	for _, limit := range []int{1, 7, len(ids), 100} {
		var got []string
		for after := ""; ; {
			page, err := s.List(s.ctx, after, limit)
			storetest.Check(t, err)
			for _, i := range page {
				got = append(got, i.ID)
			}
			if len(page) < limit {
				break
			}
			after = page[limit-1].ID
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	if _, err := s.List(s.ctx, "a\x00", 5); !fault.Is(err, fault.Invalid) {
		t.Errorf("after a NUL: %v", err)
	}
}

// servicesWithoutMeaningAreRefused, on every database alike.
func servicesWithoutMeaningAreRefused(t *testing.T, s setup) {
	change := func(fn func(*services.Instance)) services.Instance {
		i := row("demo-1", op(1), services.Provision)
		fn(&i)
		return i
	}
	for name, i := range map[string]services.Instance{
		"repair":       change(func(i *services.Instance) { i.Verb = services.Repair }),
		"no verb":      change(func(i *services.Instance) { i.Verb = "" }),
		"no operation": change(func(i *services.Instance) { i.Operation = action.ID{} }),
		"no end":       change(func(i *services.Instance) { i.End = action.Running }),
		"user":         change(func(i *services.Instance) { i.User = "a\x00" }),
		"asked":        change(func(i *services.Instance) { i.Asked = nil }),
		"not JSON":     change(func(i *services.Instance) { i.Asked = json.RawMessage(`{`) }),
		"applied":      change(func(i *services.Instance) { i.Applied = json.RawMessage("\"\xff\"") }),
	} {
		err := s.write(i.ID, func(tx *store.Tx, _ *services.Instance) error { return s.PutIn(tx, i) })
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"", "a\x00", "\xff", strings.Repeat("x", services.MostID+1)} {
		err := s.write(id, func(*store.Tx, *services.Instance) error { return nil })
		storetest.WantCode(t, err, fault.Invalid)
		_, err = s.Get(s.ctx, id)
		storetest.WantCode(t, err, fault.Invalid)
		_, err = s.Binding(s.ctx, "demo-1", id)
		storetest.WantCode(t, err, fault.Invalid)
	}
	s.want(t, "demo-1", nil)
	err := s.db.Write(s.ctx, "write without a lock", func(tx *store.Tx) error {
		return s.PutIn(tx, row("demo-1", op(1), services.Update))
	})
	storetest.WantCode(t, err, fault.Internal)
}
