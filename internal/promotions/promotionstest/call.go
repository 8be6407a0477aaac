package promotionstest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func signaturesAreUsedOnce(t *testing.T, s setup) {
	now := s.load(t).Now
	use := func(key, nonce string, at time.Duration) error {
		return s.UseSignature(s.ctx, promotions.Signature{Nonce: promotions.Nonce{Key: key, Value: nonce}, At: now.Add(at)})
	}
	storetest.Check(t, use("apps/fleet#1", "n1", 0))
	for _, at := range []time.Duration{0, time.Minute} {
		if err := use("apps/fleet#1", "n1", at); !errors.Is(err, promotions.ErrReplayed) {
			t.Errorf("a signature that was used: %v", err)
		}
	}
	storetest.Check(t, use("apps/fleet#2", "n1", 4*time.Minute))
	storetest.Check(t, use("apps/fleet#1", "n2", -4*time.Minute))
	for _, at := range []time.Duration{-6 * time.Minute, 6 * time.Minute} {
		if err := use("apps/fleet#1", "n3", at); !errors.Is(err, promotions.ErrStale) {
			t.Errorf("a signature of another time: %v", err)
		}
	}
	storetest.Check(t, use("apps/fleet#1", "n3", 0)) // a refused one is not used
	storetest.WantCode(t, use("a\x00", "n", 0), fault.Invalid)
}

// aSignatureIsUsedOnceByConcurrentRequests: of many requests with one signature one counts, as if replicas received them.
func aSignatureIsUsedOnceByConcurrentRequests(t *testing.T, s setup) {
	used := promotions.Signature{Nonce: promotions.Nonce{Key: "k", Value: "n"}, At: s.load(t).Now}
	results := make(chan error)
	for range 8 {
		go func() { results <- s.UseSignature(s.ctx, used) }()
	}
	counted := 0
	for range 8 {
		switch err := <-results; {
		case err == nil:
			counted++
		case !errors.Is(err, promotions.ErrReplayed):
			t.Error(err)
		}
	}
	if counted != 1 {
		t.Errorf("the signature counted %d times", counted)
	}
}

// callsAreKeptOnce: a repeated call is one row, and wakes who waits.
func callsAreKeptOnce(t *testing.T, s setup) {
	waiter := s.db.Signals().Waiter()
	done := make(chan error, 1)
	go func() { done <- waiter.Wait(s.ctx, store.TopicPromotion, time.Time{}) }()
	made := []promotions.Call{{Name: "apps:podinfo"}, {Host: "gitea", Name: "apps/fleet", Number: 4}, {Host: "gitea", Name: "apps/fleet"},
		{Host: "gitea", Name: "apps/fleet", Number: 4}}
	var first time.Time
	for i, c := range made {
		storetest.Check(t, s.Call(s.ctx, c))
		calls, err := s.Calls(s.ctx)
		storetest.Check(t, err)
		if i == 1 {
			first = calls[1].At
		}
	}
	storetest.Check(t, <-done)
	calls, err := s.Calls(s.ctx)
	storetest.Check(t, err)
	if len(calls) != 3 || calls[0].Name != "apps:podinfo" || calls[1].Number != 0 || calls[2].Number != 4 || !calls[2].At.After(first) {
		t.Errorf("calls: %+v; the first of number 4 was at %s", calls, first)
	}
	for _, bad := range []promotions.Call{{}, {Name: "a\x00"}, {Name: strings.Repeat("a", 2000)}, {Name: "a", Number: -1}} {
		storetest.WantCode(t, s.Call(s.ctx, bad), fault.Invalid)
	}
}
