package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/token"
)

// waitersAreWoken: within the process, from another one, and for what was committed between two waits.
func waitersAreWoken(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	other, _ := s.another(t, ledger.Options{})
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
	check(t, view.Wait(s.ctx, store.TopicEntry, time.Time{})) // at once: it was not seen yet
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(errCut)
	if err := view.Wait(ctx, store.TopicCancel, far); !errors.Is(err, errCut) {
		t.Errorf("an ended wait gives %v, want its cause", err)
	}
}

func tokensOpenUntilRevoked(t *testing.T, s setup) {
	now, err := s.Now(s.ctx)
	check(t, err)
	ci := token.Token{Hash: [32]byte{1}, Name: "ci", Scopes: []string{"read", "execute"}, ExpiresAt: now.Add(time.Hour)}
	check(t, s.CreateToken(s.ctx, ci))
	wantCode(t, s.CreateToken(s.ctx, token.Token{Hash: [32]byte{2}, Name: "ci"}), fault.Conflict)
	check(t, s.CreateToken(s.ctx, token.Token{Hash: [32]byte{3}, Name: "api"}))
	got, err := s.TokenByHash(s.ctx, ci.Hash)
	check(t, err)
	if got.CreatedAt.IsZero() || !got.Valid(now) || got.Valid(now.Add(2*time.Hour)) {
		t.Errorf("token: %+v", got)
	}
	ci.CreatedAt = got.CreatedAt
	if diff := cmp.Diff(ci, got); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
	_, err = s.TokenByHash(s.ctx, [32]byte{9})
	wantCode(t, err, fault.NotFound)
	check(t, s.RevokeToken(s.ctx, "ci"))
	wantCode(t, s.RevokeToken(s.ctx, "gone"), fault.NotFound)
	list, err := s.ListTokens(s.ctx)
	check(t, err)
	if len(list) != 2 || list[0].Name != "api" || list[1].Valid(now) || !list[0].Valid(now) {
		t.Errorf("tokens: %+v", list)
	}
}

func sessionsLastUntilEndedOrExpired(t *testing.T, s setup) {
	now, err := s.Now(s.ctx)
	check(t, err)
	old := token.Session{Hash: [32]byte{1}, By: "ana", ExpiresAt: now.Add(-time.Second)}
	check(t, s.StartSession(s.ctx, old))
	_, err = s.SessionByHash(s.ctx, old.Hash)
	wantCode(t, err, fault.NotFound)
	hash := [32]byte{7}
	session := token.Session{Hash: [32]byte{2}, By: "ci", Token: hash[:], ExpiresAt: now.Add(time.Hour)}
	check(t, s.StartSession(s.ctx, session))
	got, err := s.SessionByHash(s.ctx, session.Hash)
	check(t, err)
	if diff := cmp.Diff(session, got); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	check(t, s.StartSession(s.ctx, old)) // its first row is gone, else this would be a second one
	check(t, s.EndSession(s.ctx, session.Hash))
	check(t, s.EndSession(s.ctx, session.Hash))
	_, err = s.SessionByHash(s.ctx, session.Hash)
	wantCode(t, err, fault.NotFound)
}

func instancesLiveByTheirHeartbeat(t *testing.T, s setup) {
	a := s.join(t, "host-a")
	check(t, s.Heartbeat(s.ctx, a))
	rows, err := s.Instances(s.ctx)
	check(t, err)
	if len(rows) != 1 || rows[0].ID != a.ID || rows[0].Name != "host-a" || !s.Embedded() && !rows[0].LeaseEnd.After(time.Now()) {
		t.Errorf("instances: %+v", rows)
	}
	if s.Embedded() {
		return // who holds the lock file is alone: it lives, whatever its row says
	}
	id := s.enqueue(t, job("x"))
	s.claim(t, a, "noop", 1)
	check(t, s.database.Exec("UPDATE instance SET lease_until = now() - interval '1 second'"))
	s.enqueue(t, job("y"))
	if turned, err := s.CompleteAndClaim(s.ctx, a, nil, []queue.Want{{Lane: "noop", N: 1}}); err != nil || len(turned.Claimed) != 0 {
		t.Errorf("a dead instance claimed %+v, %v", turned.Claimed, err)
	}
	if claims := s.outlived(t, s.hurried(t, "host-b")); len(claims) != 1 || claims[0].Reason != queue.LostLease {
		t.Errorf("rescued %+v, want one, by its lease", claims)
	}
	if got := s.statusOf(t, id); got != action.Backoff {
		t.Errorf("its claim is %s", got)
	}
	wantCode(t, s.Heartbeat(s.ctx, a), fault.StaleClaim)
	check(t, s.Join(s.ctx, a)) // it registers anew
	check(t, s.Heartbeat(s.ctx, a))
	check(t, s.Leave(s.ctx, a))
	wantCode(t, s.Heartbeat(s.ctx, a), fault.StaleClaim)
}

// hurried joins as an instance that takes others for dead soon.
func (s setup) hurried(t *testing.T, name string) queue.Instance {
	t.Helper()
	i := queue.Instance{ID: action.DerivedID(time.Now(), t.Name(), name), Name: name, Handlers: []string{"noop"}, Heartbeat: 200 * time.Millisecond}
	check(t, s.Join(s.ctx, i))
	return i
}

// outlived has a living instance look after others until they are gone, and returns what it took from them.
func (s setup) outlived(t *testing.T, i queue.Instance) (claims []queue.Rescued) {
	t.Helper()
	for {
		check(t, s.Heartbeat(s.ctx, i))
		r, err := s.Rescue(s.ctx, i.ID, nil)
		check(t, err)
		claims = append(claims, r...)
		rows, err := s.Instances(s.ctx)
		check(t, err)
		if len(rows) == 1 {
			return claims
		}
		check(t, s.NewWaiter().Wait(s.ctx, store.TopicCancel, time.Now().Add(10*time.Millisecond)))
	}
}

// instancesOutliveTheLedgersAbsence: when it was away for longer than a lease, everybody's has passed.
func instancesOutliveTheLedgersAbsence(t *testing.T, s setup) {
	if s.Embedded() {
		return // there are no leases
	}
	a, b := s.join(t, "host-a"), s.join(t, "host-b")
	id := s.enqueue(t, job("x"))
	s.claim(t, a, "noop", 1)
	check(t, s.database.Exec("UPDATE instance SET lease_until = now() - interval '1 second'"))
	nobody := func(when string) {
		t.Helper()
		if r, err := s.Rescue(s.ctx, b.ID, nil); err != nil || len(r) != 0 {
			t.Errorf("%s host-b took %+v, %v", when, r, err)
		}
	}
	nobody("before its own heartbeat")
	check(t, s.Heartbeat(s.ctx, b))
	nobody("before the heartbeat of host-a")
	check(t, s.Heartbeat(s.ctx, a))
	nobody("after it")
	if got := s.statusOf(t, id); got != action.Running {
		t.Errorf("the claim of host-a is %s", got)
	}
}

// instancesDieWithTheirConnection: whoever loses it is given up although the lease has not passed.
func instancesDieWithTheirConnection(t *testing.T, s setup) {
	if s.Embedded() {
		return // there are no connections
	}
	b := s.join(t, "host-b")
	other, _ := s.another(t, ledger.Options{})
	a := queue.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host-a"}
	check(t, other.Join(s.ctx, a))
	s.enqueue(t, job("x"))
	_, err := other.CompleteAndClaim(s.ctx, a, nil, []queue.Want{{Lane: "noop", N: 1}})
	check(t, err)
	check(t, other.Close()) // as the system closes what a killed process had open
	for {
		if err := s.Heartbeat(s.ctx, a); err != nil && !fault.Is(err, fault.StaleClaim) { // its lease does not end
			t.Fatal(err)
		}
		r, err := s.Rescue(s.ctx, b.ID, nil)
		check(t, err)
		if len(r) == 1 {
			if r[0].Reason != queue.LostLock {
				t.Errorf("rescued %+v, want one by its lock", r)
			}
			break
		}
		if p := s.pulse(t, b); !p.Others || !p.Lost {
			t.Fatalf("not rescued; %+v", p)
		}
		check(t, s.NewWaiter().Wait(s.ctx, store.TopicCancel, time.Now().Add(100*time.Millisecond)))
	}
	wantCode(t, s.Heartbeat(s.ctx, a), fault.StaleClaim)
}

// cutConnectionsLoseNothing: whoever repeats what it has no answer for has it in the log once.
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

// insist appends until it is told that it happened.
func (s setup) insist(t *testing.T, e pipeline.Entry) {
	s.persist(t, func() error {
		_, err := s.Append(s.ctx, testPipeline, 0, func(journal.Locked) (journal.Change, error) {
			return journal.Change{Entries: []pipeline.Entry{e}}, nil
		})
		return err
	})
}

// persist repeats what fails because the ledger is away. Any other failure is one.
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

// newerSchemasAreNoticed: an instance learns with its next heartbeats that a newer Waybill has migrated the database.
func newerSchemasAreNoticed(t *testing.T, s setup) {
	pulsing := s.join(t, "host-a")
	other, _ := s.another(t, ledger.Options{})
	beating := queue.Instance{ID: action.DerivedID(time.Now(), t.Name(), "host-b"), Name: "host-b"}
	check(t, other.Join(s.ctx, beating))
	check(t, s.Ready(s.ctx))
	s.pulse(t, pulsing)
	select {
	case <-s.Outdated():
		t.Error("outdated before anything was migrated")
	default:
	}
	check(t, s.database.Exec("UPDATE meta SET schema = 99"))
	for l, beat := range map[*ledger.Ledger]func(){
		s.Ledger: func() { s.pulse(t, pulsing) },
		other:    func() { check(t, other.Heartbeat(s.ctx, beating)) },
	} {
		for noticed := false; !noticed; { // SQLite looks once a second
			beat()
			select {
			case <-l.Outdated():
				noticed = true
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	if err := s.Ready(s.ctx); !errors.Is(err, store.ErrOutdated) {
		t.Errorf("ready: %v", err)
	}
}

// oneProcessRunsAloneOnAFile: what takes over an embedded log finds no instance of a process that was killed. A shared log
// has others.
func oneProcessRunsAloneOnAFile(t *testing.T, s setup) {
	s.join(t, "killed")
	check(t, s.TakeOver(s.ctx))
	left, err := s.Instances(s.ctx)
	check(t, err)
	if gone := len(left) == 0; gone != s.Embedded() {
		t.Errorf("%d instances are left", len(left))
	}
}
