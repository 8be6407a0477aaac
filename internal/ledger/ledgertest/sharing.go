package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
	"github.com/waybill-dev/waybill/internal/token"
)

// waitersAreWoken: within the process, from another, and for commits between two waits.
func waitersAreWoken(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	other, _ := s.another(t)
	far := time.Now().Add(time.Minute)
	for name, view := range map[string]*ledger.Ledger{"in this process": s.NewWaiter(), "in another process": other.NewWaiter()} {
		// what was committed before the first wait may show or not; drain it
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
		woken := make(chan error)
		go func() {
			for {
				before, err := view.Head(ctx, testPipeline)
				if err == nil && before.Seq > 2 {
					woken <- nil
					return
				}
				if err := view.Wait(ctx, store.TopicEntry, far); err != nil {
					woken <- err
					return
				}
			}
		}()
		s.append(t, note(1, oak, pipeline.HoldSet))
		if err := <-woken; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	view := s.NewWaiter()
	s.append(t, note(1, oak, pipeline.HoldCleared))
	storetest.Check(t, view.Wait(s.ctx, store.TopicEntry, time.Time{})) // at once: it was not seen yet
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(errCut)
	if err := view.Wait(ctx, store.TopicCancel, far); !errors.Is(err, errCut) {
		t.Errorf("an ended wait gives %v, want its cause", err)
	}
}

func tokensOpenUntilRevoked(t *testing.T, s setup) {
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	ci := token.Token{Hash: [32]byte{1}, Name: "ci", Scopes: []string{"read", "execute"}, ExpiresAt: now.Add(time.Hour)}
	storetest.Check(t, s.CreateToken(s.ctx, ci))
	storetest.WantCode(t, s.CreateToken(s.ctx, token.Token{Hash: [32]byte{2}, Name: "ci"}), fault.Conflict)
	storetest.Check(t, s.CreateToken(s.ctx, token.Token{Hash: [32]byte{3}, Name: "api"}))
	got, err := s.TokenByHash(s.ctx, ci.Hash)
	storetest.Check(t, err)
	if got.CreatedAt.IsZero() || !got.Valid(now) || got.Valid(now.Add(2*time.Hour)) {
		t.Errorf("token: %+v", got)
	}
	ci.CreatedAt = got.CreatedAt
	if diff := cmp.Diff(ci, got); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
	_, err = s.TokenByHash(s.ctx, [32]byte{9})
	storetest.WantCode(t, err, fault.NotFound)
	storetest.Check(t, s.RevokeToken(s.ctx, "ci"))
	storetest.WantCode(t, s.RevokeToken(s.ctx, "gone"), fault.NotFound)
	list, err := s.ListTokens(s.ctx)
	storetest.Check(t, err)
	if len(list) != 2 || list[0].Name != "api" || list[1].Valid(now) || !list[0].Valid(now) {
		t.Errorf("tokens: %+v", list)
	}
}

func sessionsLastUntilEndedOrExpired(t *testing.T, s setup) {
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	old := token.Session{Hash: [32]byte{1}, By: "ana", ExpiresAt: now.Add(-time.Second)}
	storetest.Check(t, s.StartSession(s.ctx, old))
	_, err = s.SessionByHash(s.ctx, old.Hash)
	storetest.WantCode(t, err, fault.NotFound)
	hash := [32]byte{7}
	session := token.Session{Hash: [32]byte{2}, By: "ci", Token: hash[:], ExpiresAt: now.Add(time.Hour)}
	storetest.Check(t, s.StartSession(s.ctx, session))
	got, err := s.SessionByHash(s.ctx, session.Hash)
	storetest.Check(t, err)
	if diff := cmp.Diff(session, got); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	storetest.Check(t, s.StartSession(s.ctx, old)) // its first row is gone, else this would be a second one
	storetest.Check(t, s.EndSession(s.ctx, session.Hash))
	storetest.Check(t, s.EndSession(s.ctx, session.Hash))
	_, err = s.SessionByHash(s.ctx, session.Hash)
	storetest.WantCode(t, err, fault.NotFound)
}

// cutConnectionsLoseNothing: a caller that repeats calls without an answer finds it in the log once.
func cutConnectionsLoseNothing(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	const writers, each, cuts = 4, 25, 10
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				s.insist(t, fact(1, oak, fmt.Sprintf("host-w%d-%d", w, i)))
			}
		})
	}
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for n := 0; n < cuts && s.database.Cut != nil; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.database.Cut(); err != nil {
				t.Errorf("cut: %v", err)
				return
			}
			_ = s.NewWaiter().Wait(s.ctx, store.TopicCancel, time.Now().Add(20*time.Millisecond))
		}
	})
	all.Wait()
	close(stop)
	cutter.Wait()
	var entries []pipeline.Entry
	s.persist(t, func() (err error) {
		entries, err = s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline})
		return err
	})
	if len(entries) != 2+writers*each {
		t.Errorf("%d entries, want %d", len(entries), 2+writers*each)
	}
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("entry %d has position %d", i+1, e.Seq)
		}
	}
}

// insist appends until the answer reports that it happened.
func (s setup) insist(t *testing.T, e pipeline.Entry) {
	s.persist(t, func() error {
		_, err := s.Append(s.ctx, testPipeline, 0, func(journal.Locked) (journal.Change, error) {
			return journal.Change{Entries: []pipeline.Entry{e}}, nil
		})
		return err
	})
}

// persist repeats calls that fail because the ledger is away. Any other failure is one.
func (s setup) persist(t *testing.T, do func() error) {
	for {
		err := do()
		if err == nil {
			return
		}
		if code := fault.CodeOf(err); code != fault.LedgerUnavailable || s.ctx.Err() != nil {
			t.Errorf("got %v (code %s), want one that may pass", err, code)
			return
		}
	}
}
