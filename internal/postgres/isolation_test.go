//go:build services

package postgres_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue"
)

// TestEveryDefaultIsolationWorks: what the database's default_transaction_isolation is changes nothing: the first
// start migrates, also beside another, and everything works.
func TestEveryDefaultIsolationWorks(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			name := connect(t, url).Config().Database
			execute(t, url, `ALTER DATABASE "`+name+`" SET default_transaction_isolation = '`+level+`'`)
			l := ledger.New(open(t, url), ledger.Options{})
			other := ledger.New(open(t, url), ledger.Options{})
			if _, err := l.Enqueue(t.Context(), action.Action{Kind: "action", Name: "a", Handler: "noop",
				Policy: action.DefaultPolicy()}); err != nil {
				t.Fatal(err)
			}
			for _, one := range []*ledger.Ledger{l, other} {
				self := queue.Instance{ID: action.RandomID(time.Now()), Name: "a", Roles: []string{"conductor"}, Handlers: []string{"noop"}}
				if err := one.Join(t.Context(), self); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					if _, err := one.Pulse(t.Context(), self, true); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := one.CompleteAndClaim(t.Context(), self, nil, []queue.Want{{Lane: "noop", N: 1}}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
