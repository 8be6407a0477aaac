package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/queue/queuetest"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// oddID is an id of the most bytes that looks like a unique key.
var oddID = "demo/ä/provision" + strings.Repeat("/", services.MostID-17)

// found and decision are short names.
type (
	found    = ledger.ServiceState
	decision = ledger.ServiceChange
)

// of returns the key of a service instance.
func of(id string) ledger.ServiceKey { return ledger.ServiceKey{Instance: id} }

// serviceRow returns the row of a service instance with a live operation.
func serviceRow(id string, operation action.ID, verb services.Verb) services.Instance {
	return services.Instance{ID: id, User: "platform", Operation: operation, Verb: verb,
		Asked: json.RawMessage(`{"size":2}`)}
}

// starts returns the decision to start an operation, with the row as it is then.
func starts(state found, id string, verb services.Verb) decision {
	operation := action.RandomID(state.Now)
	change := decision{Start: &ledger.ServiceOperation{Verb: verb,
		Action: action.Action{ID: operation, Handler: "noop", Policy: queuetest.Policy()}}}
	if verb == services.Repair {
		return change
	}
	row := serviceRow(id, operation, verb)
	if state.Row != nil && verb != services.Provision {
		row.Asked, row.Applied = state.Row.Asked, state.Row.Applied
	}
	change.Row = &row
	return change
}

// operate starts an operation of a service instance, whatever its state, and returns its id.
func (s setup) operate(t *testing.T, id string, verb services.Verb) (operation action.ID) {
	t.Helper()
	storetest.Check(t, s.Operate(s.ctx, of(id), func(state found) (decision, error) {
		change := starts(state, id, verb)
		operation = change.Start.Action.ID
		return change, nil
	}))
	return operation
}

// service reads a service instance that has a row.
func (s setup) service(t *testing.T, id string) found {
	t.Helper()
	state, err := s.Service(s.ctx, of(id))
	storetest.Check(t, err)
	if state.Row == nil {
		t.Fatalf("service instance %q not found", id)
	}
	return state
}

// wantService fails unless the row has this operation, which ended so (0: lives), and has something applied or not.
func (s setup) wantService(t *testing.T, id string, operation action.ID, end action.Status, applied bool) {
	t.Helper()
	row := s.service(t, id).Row
	if row.Operation != operation || row.End != end || (row.Applied != nil) != applied {
		t.Errorf("row of %.10s: %+v; want operation %s, ended %s, applied %t", id, row, operation, end, applied)
	}
}

// wantStatus fails unless an action has a status.
func (s setup) wantStatus(t *testing.T, id action.ID, want action.Status) {
	t.Helper()
	if got := s.statusOf(t, id); got != want {
		t.Errorf("action %s is %s, want %s", id, got, want)
	}
}

// claimOperation claims the one action that is ready, which must be this one.
func (s setup) claimOperation(t *testing.T, host queue.Instance, id action.ID) queue.Claimed {
	t.Helper()
	turned, err := s.CompleteAndClaim(s.ctx, host, nil, []queue.Want{{Lane: "noop", N: 5}})
	storetest.Check(t, err)
	if len(turned.Claimed) != 1 || turned.Claimed[0].ID != id {
		t.Fatalf("claimed %+v, want action %s alone", turned.Claimed, id)
	}
	return turned.Claimed[0]
}

// wantNothingReady fails if an action may be claimed.
func (s setup) wantNothingReady(t *testing.T, host queue.Instance) {
	t.Helper()
	_, err := s.Due(s.ctx)
	storetest.Check(t, err)
	turned, err := s.CompleteAndClaim(s.ctx, host, nil, []queue.Want{{Lane: "noop", N: 5}})
	storetest.Check(t, err)
	if len(turned.Claimed) != 0 {
		t.Fatalf("claimed %+v, want nothing", turned.Claimed)
	}
}

// identicalRequestsMakeOneOperation: of many requests at a time, to several processes, one starts the operation, and
// each gets its id.
func identicalRequestsMakeOneOperation(t *testing.T, s setup) {
	const askers = 6
	got := make([]action.ID, askers)
	started := make([]bool, askers)
	var all sync.WaitGroup
	for n := range askers {
		other, _ := s.another(t)
		all.Go(func() {
			err := other.Operate(s.ctx, of(oddID), func(state found) (decision, error) {
				if started[n] = state.Row == nil; !started[n] {
					got[n] = state.Row.Operation
					if state.Thread == nil || state.Thread.ID != got[n] {
						return decision{}, errors.New("the operation's action was not found")
					}
					return decision{}, nil
				}
				change := starts(state, oddID, services.Provision)
				got[n] = change.Start.Action.ID
				return change, nil
			})
			if err != nil {
				t.Errorf("asker %d: %v", n, err)
			}
		})
	}
	all.Wait()
	count := 0
	for n := range askers {
		if started[n] {
			count++
		}
		if got[n] != got[0] {
			t.Errorf("asker %d got operation %s, the first one %s", n, got[n], got[0])
		}
	}
	actions, err := s.Actions(s.ctx, queue.ActionQuery{Kind: services.Kind})
	storetest.Check(t, err)
	if count != 1 || len(actions) != 1 || actions[0].ID != got[0] || actions[0].Name != "provision "+oddID {
		t.Errorf("%d operations were started: %+v", count, actions)
	}
	s.wantService(t, oddID, got[0], 0, false)
}

// requestsAtOnceDecideInTheOrderOfIDs in a transaction, so that two processes with the same new service instances do not hold each
// other's rows.
func requestsAtOnceDecideInTheOrderOfIDs(t *testing.T, s setup) {
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[time.Time][]string{} // by the time of the transaction
	for n := range 60 {
		all.Go(func() {
			id := fmt.Sprintf("demo-%02d", 59-n)
			storetest.Check(t, s.Operate(s.ctx, of(id), func(state found) (decision, error) {
				mu.Lock()
				defer mu.Unlock()
				ids[state.Now] = append(ids[state.Now], id)
				return decision{}, nil
			}))
		})
	}
	all.Wait()
	for _, together := range ids {
		if !slices.IsSorted(together) {
			t.Errorf("requests that share a transaction decide in the order %v", together)
		}
	}
}

func refusedRequestsStoreNothing(t *testing.T, s setup) {
	refused := errors.New("the plan is unknown")
	live := s.operate(t, "live", services.Provision)
	bad := func(change decision) decision {
		change.Start.Action.Handler = ""
		return change
	}
	for _, id := range []string{"live", "new"} {
		err := s.Operate(s.ctx, of(id), func(state found) (decision, error) {
			return starts(state, id, services.Deprovision), refused
		})
		if !errors.Is(err, refused) {
			t.Errorf("%s: %v", id, err)
		}
		err = s.Operate(s.ctx, of(id), func(state found) (decision, error) {
			return bad(starts(state, id, services.Deprovision)), nil
		})
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: an action that cannot be stored: %v", id, err)
		}
	}
	s.wantService(t, "live", live, 0, false)
	s.wantStatus(t, live, action.Pending)
	if state, err := s.Service(s.ctx, of("new")); err != nil || state.Row != nil || state.Thread != nil {
		t.Errorf("a refused request has left %+v, %v", state, err)
	}
	if actions, err := s.Actions(s.ctx, queue.ActionQuery{}); err != nil || len(actions) != 1 {
		t.Errorf("refused requests have left %d actions, %v", len(actions), err)
	}
}

// bindTo returns the decision to store the binding b of a service instance.
func bindTo(id string) func(found) (decision, error) {
	return func(found) (decision, error) {
		return decision{Bind: &services.Binding{Instance: id, ID: "b", Document: json.RawMessage(`{}`)}}, nil
	}
}

func bindingsAreDecidedUnderTheLock(t *testing.T, s setup) {
	key := ledger.ServiceKey{Instance: "demo-1", Binding: "b"}
	err := s.Operate(s.ctx, key, bindTo("demo-1"))
	storetest.WantCode(t, err, fault.NotFound)
	s.operate(t, "demo-1", services.Provision)
	storetest.Check(t, s.Operate(s.ctx, key, bindTo("demo-1")))
	want := &services.Binding{Instance: "demo-1", ID: "b", Document: json.RawMessage(`{}`)}
	storetest.Check(t, s.Operate(s.ctx, key, func(state found) (decision, error) {
		if diff := cmp.Diff(want, state.Binding); diff != "" {
			t.Errorf("the stored binding (-want +got):\n%s", diff)
		}
		return decision{Unbind: true}, nil
	}))
	if state, err := s.Service(s.ctx, key); err != nil || state.Binding != nil {
		t.Errorf("the removed binding: %+v, %v", state.Binding, err)
	}
}

// decisionsThatDoNotFitAreRefused: a mistake of the program stores nothing.
func decisionsThatDoNotFitAreRefused(t *testing.T, s setup) {
	for name, spoil := range map[string]func(*decision){
		"another row":       func(c *decision) { c.Row.ID = "demo-2" },
		"another operation": func(c *decision) { c.Row.Operation = action.ID{1} },
		"another verb":      func(c *decision) { c.Row.Verb = services.Update },
		"an end":            func(c *decision) { c.Row.End = action.Failed },
		"no id":             func(c *decision) { c.Start.Action.ID = action.ID{} },
		"another binding":   func(c *decision) { c.Bind = &services.Binding{Instance: "demo-1", ID: "c"} },
	} {
		err := s.Operate(s.ctx, of("demo-1"), func(state found) (decision, error) {
			change := starts(state, "demo-1", services.Provision)
			spoil(&change)
			return change, nil
		})
		if !fault.Is(err, fault.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	storetest.WantCode(t, s.Operate(s.ctx, ledger.ServiceKey{Instance: "a\x00"}, bindTo("a\x00")), fault.Invalid)
	if state, err := s.Service(s.ctx, of("demo-1")); err != nil || state.Row != nil {
		t.Errorf("a refused decision has left %+v, %v", state.Row, err)
	}
}

// fillServices stores service instances, some of which are gone, and a binding of each.
func (s setup) fillServices(t *testing.T, many int) {
	t.Helper()
	storetest.Check(t, s.DB.Write(s.ctx, "store service instances", func(tx *store.Tx) error {
		for n := range many {
			row := serviceRow(fmt.Sprintf("filling-%d", n), action.RandomID(tx.Now()), services.Update)
			if n%10 == 0 {
				row.GoneAt = tx.Now()
			}
			if _, err := s.Services.LockIn(tx, row.ID); err != nil {
				return err
			}
			b := services.Binding{Instance: row.ID, ID: "b", Document: json.RawMessage(`{}`)}
			if err := errors.Join(s.Services.PutIn(tx, row), s.Services.BindIn(tx, b)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// noFolders is a blob store without blobs.
type noFolders struct{}

func (noFolders) Folders(context.Context, string) ([]string, error) { return nil, nil }
func (noFolders) Clear(context.Context, string) error               { return nil }

func retentionForgetsGoneServices(t *testing.T, s setup) {
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	ages := map[string]time.Duration{"old": services.Retention + time.Minute, "new": services.Retention - time.Minute}
	for id, age := range ages {
		storetest.Check(t, s.Operate(s.ctx, of(id), func(found) (decision, error) {
			row := serviceRow(id, action.RandomID(now), services.Deprovision)
			row.End, row.GoneAt = action.Successful, now.Add(-age)
			return decision{Row: &row}, nil
		}))
	}
	storetest.Check(t, s.Retain(s.ctx, 0, noFolders{}))
	left, err := s.Services.List(s.ctx, "", 10)
	storetest.Check(t, err)
	if len(left) != 1 || left[0].ID != "new" {
		t.Errorf("left: %+v", left)
	}
}
