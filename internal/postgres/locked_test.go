//go:build services

package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue/queuetest"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestALockedRowFailsNoOtherRequest that shares a transaction with the request about it.
func TestALockedRowFailsNoOtherRequest(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	l := ledger.New(open(t, url), ledger.Options{})
	provision := func(ctx context.Context, id string) error {
		return l.Operate(ctx, ledger.ServiceKey{Instance: id}, func(state ledger.ServiceState) (change ledger.ServiceChange, err error) {
			operation := action.RandomID(state.Now)
			change.Row = &services.Instance{ID: id, User: "platform", Operation: operation, Verb: services.Provision, Asked: []byte(`{}`)}
			if state.Row == nil {
				change.Start = &ledger.ServiceOperation{Verb: services.Provision,
					Action: action.Action{ID: operation, Handler: "noop", Policy: queuetest.Policy()}}
			}
			return change, nil
		})
	}
	if err := provision(t.Context(), "locked"); err != nil {
		t.Fatal(err)
	}
	holder := connect(t, url)
	lock, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `SELECT FROM service_instance WHERE id = 'locked' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			if err := provision(t.Context(), fmt.Sprintf("free-%d", n)); err != nil {
				t.Errorf("free-%d: %v", n, err)
			}
		})
	}
	for range 2 {
		all.Go(func() {
			if err := provision(t.Context(), "locked"); !fault.Is(err, fault.LedgerUnavailable) {
				t.Errorf("locked: %v", err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); took >= store.CallTimeout {
		t.Errorf("the requests took %s", took)
	}
}
