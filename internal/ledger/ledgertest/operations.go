package ledgertest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// operationsEndInTheirRow, and a row needs no action that is not retained any more.
func operationsEndInTheirRow(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	provision := s.operate(t, oddID, services.Provision)
	s.end(t, host, s.claimOperation(t, host, provision), done())
	s.wantService(t, oddID, provision, action.Successful, true)
	update := s.operate(t, oddID, services.Update)
	s.wantService(t, oddID, update, 0, true)
	s.end(t, host, s.claimOperation(t, host, update), action.Outcome{Kind: action.Fatal, Error: "no"})
	s.wantService(t, oddID, update, action.Failed, true)
	storetest.Check(t, s.Operate(s.ctx, ledger.ServiceKey{Instance: oddID, Binding: "b"}, bindTo(oddID)))
	deprovision := s.operate(t, oddID, services.Deprovision)
	s.end(t, host, s.claimOperation(t, host, deprovision), done())
	s.wantService(t, oddID, deprovision, action.Successful, true)
	state, err := s.Service(s.ctx, ledger.ServiceKey{Instance: oddID, Binding: "b"})
	storetest.Check(t, err)
	if state.Row.GoneAt.IsZero() || state.Row.GoneAt.After(state.Now) || state.Binding != nil {
		t.Errorf("after the delete: %+v", state)
	}
	again := s.operate(t, oddID, services.Provision)
	s.wantService(t, oddID, again, 0, false)
	storetest.Check(t, s.Cancel(s.ctx, again, queue.CancelNow))
	s.wantService(t, oddID, again, action.Canceled, false)
}

// deletesEndWaitingOperations: an operation that no conductor works on is canceled in the transaction of the delete,
// which begins at once.
func deletesEndWaitingOperations(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	provision := s.operate(t, "demo-1", services.Provision)
	deprovision := s.operate(t, "demo-1", services.Deprovision)
	s.wantStatus(t, provision, action.Canceled)
	s.wantService(t, "demo-1", deprovision, 0, false)
	s.end(t, host, s.claimOperation(t, host, deprovision), done())
	s.wantService(t, "demo-1", deprovision, action.Successful, false)
	s.wantHistory(t, deprovision, action.Running, action.Successful)
}

// deletesWaitForRunningOperations, however these end.
func deletesWaitForRunningOperations(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	for id, c := range map[string]struct {
		outcome action.Outcome
		status  action.Status
	}{
		"stopped":   {action.Outcome{Kind: action.Stopped}, action.Canceled},
		"succeeded": {done(), action.Successful},
		"failed":    {action.Outcome{Kind: action.Fatal, Error: "no"}, action.Failed},
		"retried":   {action.Outcome{Kind: action.Retry, Error: "not yet"}, action.Canceled},
	} {
		provision := s.operate(t, id, services.Provision)
		claimed := s.claimOperation(t, host, provision)
		deprovision := s.operate(t, id, services.Deprovision)
		if asked, err := s.CancelAsked(s.ctx, host.ID); err != nil || len(asked) != 1 || asked[0] != provision {
			t.Errorf("%s: requested to stop: %v, %v", id, asked, err)
		}
		s.wantNothingReady(t, host)
		s.wantStatus(t, deprovision, action.Pending)
		s.end(t, host, claimed, c.outcome)
		s.wantStatus(t, provision, c.status)
		s.wantService(t, id, deprovision, 0, c.status == action.Successful)
		s.end(t, host, s.claimOperation(t, host, deprovision), done())
		s.wantService(t, id, deprovision, action.Successful, c.status == action.Successful)
	}
}

// laterDeletesWaitForOperationsToo: a delete that has ended before it could begin does not let the next one overtake
// the operation that both cancel.
func laterDeletesWaitForOperationsToo(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	update := s.operate(t, "demo-1", services.Update)
	claimed := s.claimOperation(t, host, update)
	first := s.operate(t, "demo-1", services.Deprovision)
	storetest.Check(t, s.Cancel(s.ctx, first, queue.CancelNow))
	s.wantService(t, "demo-1", first, action.Canceled, false)
	second := s.operate(t, "demo-1", services.Deprovision)
	s.wantNothingReady(t, host)
	s.end(t, host, claimed, action.Outcome{Kind: action.Stopped})
	s.end(t, host, s.claimOperation(t, host, second), done())
	s.wantService(t, "demo-1", second, action.Successful, false)
}

// deletesThatWaitTooLongTimeOut: one whose deadline has passed does not begin, and does not keep the operation that it waits
// for from ending.
func deletesThatWaitTooLongTimeOut(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	provision := s.operate(t, "demo-1", services.Provision)
	claimed := s.claimOperation(t, host, provision)
	var deprovision action.ID
	var deadline time.Time
	storetest.Check(t, s.Operate(s.ctx, of("demo-1"), func(state found) (decision, error) {
		d := starts(state, "demo-1", services.Deprovision)
		d.Start.Action.Policy.Deadline = action.Duration(time.Millisecond)
		deprovision, deadline = d.Row.Operation, state.Now.Add(time.Millisecond)
		return d, nil
	}))
	for now := (time.Time{}); !now.After(deadline); {
		var err error
		now, err = s.Now(s.ctx)
		storetest.Check(t, err)
	}
	s.end(t, host, claimed, action.Outcome{Kind: action.Stopped})
	s.wantStatus(t, provision, action.Canceled)
	s.wantNothingReady(t, host)
	s.wantStatus(t, deprovision, action.TimedOut)
	s.wantService(t, "demo-1", deprovision, action.TimedOut, false)
}

// repairsLeaveTheirRow, and a delete waits for a repair, and for an update beside it.
func repairsLeaveTheirRow(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	provision := s.operate(t, "demo-1", services.Provision)
	s.end(t, host, s.claimOperation(t, host, provision), done())
	repair := s.operate(t, "demo-1", services.Repair)
	s.wantService(t, "demo-1", provision, action.Successful, true)
	repairing := s.claimOperation(t, host, repair)
	update := s.operate(t, "demo-1", services.Update) // waits for the repair
	s.wantNothingReady(t, host)
	deprovision := s.operate(t, "demo-1", services.Deprovision)
	s.wantStatus(t, update, action.Canceled)
	s.wantNothingReady(t, host)
	s.end(t, host, repairing, done())
	s.wantService(t, "demo-1", deprovision, 0, true)
	s.claimOperation(t, host, deprovision)
}

// operationsAreAllOrNothing: a crash before the commit of a request, or of an end, leaves row and actions as they were.
func operationsAreAllOrNothing(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	cut := ledger.New(failing{s.driver}, ledger.Options{})
	operate := func(id string, verb services.Verb) {
		t.Helper()
		err := cut.Operate(s.ctx, of(id), func(state found) (decision, error) {
			return starts(state, id, verb), nil
		})
		if !errors.Is(err, errCut) {
			t.Fatalf("%s of %s: %v", verb, id, err)
		}
	}
	operate("new", services.Provision)
	if state, err := s.Service(s.ctx, of("new")); err != nil || state.Row != nil {
		t.Errorf("a request that was cut has left %+v, %v", state.Row, err)
	}
	provision := s.operate(t, "demo-1", services.Provision)
	operate("demo-1", services.Deprovision)
	s.wantStatus(t, provision, action.Pending)
	s.wantService(t, "demo-1", provision, 0, false)

	claimed := s.claimOperation(t, host, provision)
	deprovision := s.operate(t, "demo-1", services.Deprovision)
	completion := []queue.Completion{{ID: claimed.ID, Attempt: 1, Outcome: done(), Claimed: &claimed}}
	if _, err := cut.CompleteAndClaim(s.ctx, host, completion, nil); !errors.Is(err, errCut) {
		t.Fatalf("got %v", err)
	}
	s.wantStatus(t, provision, action.Running)
	s.wantService(t, "demo-1", deprovision, 0, false)
	s.wantNothingReady(t, host)
	s.end(t, host, claimed, done())
	s.wantService(t, "demo-1", deprovision, 0, true)
	s.claimOperation(t, host, deprovision)
}

// repeatedOperationsAreNotDoubled: an operation that a person has repeated keeps a new one with its verb from
// starting, and changes nothing that was decided since.
func repeatedOperationsAreNotDoubled(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	provision := s.operate(t, "demo-1", services.Provision)
	s.end(t, host, s.claimOperation(t, host, provision), action.Outcome{Kind: action.Fatal, Error: "no"})
	ended, err := s.Action(s.ctx, provision)
	storetest.Check(t, err)
	repeated := s.enqueue(t, ended.Again(action.RandomID(time.Now()), "ana"))
	err = s.Operate(s.ctx, of("demo-1"), func(state found) (decision, error) {
		return starts(state, "demo-1", services.Provision), nil
	})
	storetest.WantCode(t, err, fault.DuplicateKey)
	s.wantService(t, "demo-1", provision, action.Failed, false)
	s.end(t, host, s.claimOperation(t, host, repeated), done())
	s.wantService(t, "demo-1", provision, action.Failed, false)
	s.operate(t, "demo-1", services.Provision)
}

// repeat stores an operation again, as a person does with an ended one.
func (s setup) repeat(t *testing.T, id string, verb services.Verb) action.ID {
	t.Helper()
	a := job("repeated")
	a.Kind, a.UniqueKey = services.Kind, services.Key(id, verb)
	return s.enqueue(t, a)
}

// deletesWaitForAllOperations: also for those that a person has repeated, of which several may run.
func deletesWaitForAllOperations(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	var running []queue.Claimed
	for _, verb := range []services.Verb{services.Provision, services.Update, services.Repair} {
		running = append(running, s.claimOperation(t, host, s.repeat(t, "demo-1", verb)))
	}
	deprovision := s.operate(t, "demo-1", services.Deprovision)
	for _, c := range running {
		s.wantNothingReady(t, host)
		s.end(t, host, c, action.Outcome{Kind: action.Stopped})
	}
	s.claimOperation(t, host, deprovision)
}

// endsHastenNoBackOff: the end of one operation lets another begin that waits for it, and not one that is to be tried later.
func endsHastenNoBackOff(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	provision := s.operate(t, "demo-1", services.Provision)
	s.end(t, host, s.claimOperation(t, host, provision), action.Outcome{Kind: action.Retry, Error: "not yet"})
	repeated := s.claimOperation(t, host, s.repeat(t, "demo-1", services.Repair))
	s.end(t, host, repeated, done())
	s.wantStatus(t, provision, action.Backoff)
	s.wantNothingReady(t, host)
}

// endsAgainstOperationsDoNotDeadlock: turns end operations of several service instances, in one transaction with other
// actions, while requests start and cancel them.
func endsAgainstOperationsDoNotDeadlock(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	const rounds = 12
	var all sync.WaitGroup
	ended := make(chan struct{})
	for _, id := range []string{"demo-1", "demo-2", "demo-3"} {
		other, _ := s.another(t)
		all.Go(func() {
			for n := range rounds {
				verb := []services.Verb{services.Provision, services.Repair, services.Deprovision}[n%3]
				err := other.Operate(s.ctx, of(id), func(state found) (decision, error) {
					return starts(state, id, verb), nil
				})
				if err != nil && !fault.Is(err, fault.DuplicateKey) {
					t.Errorf("%s of %s: %v", verb, id, err)
				}
			}
		})
	}
	go func() {
		all.Wait()
		close(ended)
	}()
	live := func() int {
		some, err := s.Actions(s.ctx, queue.ActionQuery{LiveOnly: true})
		storetest.Check(t, err)
		return len(some)
	}
	var completions []queue.Completion
	for running, left := true, 100; running || live() > 0; {
		select {
		case <-ended:
			running = false
			left--
		default:
		}
		if left == 0 {
			t.Fatalf("%d operations never begin", live())
		}
		_, err := s.Due(s.ctx)
		storetest.Check(t, err)
		turned, err := s.CompleteAndClaim(s.ctx, host, completions, []queue.Want{{Lane: "noop", N: 5}})
		storetest.Check(t, err)
		completions = nil
		for _, c := range turned.Claimed {
			completions = append(completions,
				queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: done(), Claimed: &c})
		}
	}
	for _, id := range []string{"demo-1", "demo-2", "demo-3"} {
		if row := s.service(t, id).Row; !row.End.Ended() {
			t.Errorf("every action has ended, and the row of %s is %+v", id, row)
		}
	}
}
