package queuetest

import (
	"errors"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func instancesLiveByTheirHeartbeat(t *testing.T, s setup) {
	a := s.join(t, "host-a")
	storetest.Check(t, s.Heartbeat(s.ctx, a))
	rows, err := s.Instances(s.ctx)
	storetest.Check(t, err)
	if len(rows) != 1 || rows[0].ID != a.ID || rows[0].Name != "host-a" || !s.Embedded() && !rows[0].LeaseEnd.After(time.Now()) {
		t.Errorf("instances: %+v", rows)
	}
	if s.Embedded() {
		return // who holds the lock file is alone: it lives, whatever its row has
	}
	id := s.enqueue(t, job("x"))
	s.claim(t, a, "noop", 1)
	storetest.Check(t, s.database.Exec("UPDATE instance SET lease_until = now() - interval '1 second'"))
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
	storetest.WantCode(t, s.Heartbeat(s.ctx, a), fault.StaleClaim)
	storetest.Check(t, s.Join(s.ctx, a)) // it registers again
	storetest.Check(t, s.Heartbeat(s.ctx, a))
	storetest.Check(t, s.Leave(s.ctx, a))
	storetest.WantCode(t, s.Heartbeat(s.ctx, a), fault.StaleClaim)
}

// hurried joins as an instance that takes others for dead soon.
func (s setup) hurried(t *testing.T, name string) queue.Instance {
	t.Helper()
	i := queue.Instance{ID: action.DerivedID(time.Now(), t.Name(), name), Name: name, Handlers: []string{"noop"},
		Heartbeat: 200 * time.Millisecond}
	storetest.Check(t, s.Join(s.ctx, i))
	return i
}

// outlived has a living instance look after others until they are gone, and returns what it took from them.
func (s setup) outlived(t *testing.T, i queue.Instance) (claims []queue.Rescued) {
	t.Helper()
	for {
		storetest.Check(t, s.Heartbeat(s.ctx, i))
		r, err := s.Rescue(s.ctx, i.ID, nil)
		storetest.Check(t, err)
		claims = append(claims, r...)
		rows, err := s.Instances(s.ctx)
		storetest.Check(t, err)
		if len(rows) == 1 {
			return claims
		}
		storetest.Check(t, s.NewWaiter().Wait(s.ctx, store.TopicCancel, time.Now().Add(10*time.Millisecond)))
	}
}

// instancesOutliveTheLedgersAbsence: when the database was away for longer than a lease, all leases have passed.
func instancesOutliveTheLedgersAbsence(t *testing.T, s setup) {
	if s.Embedded() {
		return // SQLite has no leases
	}
	a, b := s.join(t, "host-a"), s.join(t, "host-b")
	id := s.enqueue(t, job("x"))
	s.claim(t, a, "noop", 1)
	storetest.Check(t, s.database.Exec("UPDATE instance SET lease_until = now() - interval '1 second'"))
	nothing := func(when string) {
		t.Helper()
		if r, err := s.Rescue(s.ctx, b.ID, nil); err != nil || len(r) != 0 {
			t.Errorf("%s host-b took %+v, %v", when, r, err)
		}
	}
	nothing("before its own heartbeat")
	storetest.Check(t, s.Heartbeat(s.ctx, b))
	nothing("before the heartbeat of host-a")
	storetest.Check(t, s.Heartbeat(s.ctx, a))
	nothing("after it")
	if got := s.statusOf(t, id); got != action.Running {
		t.Errorf("the claim of host-a is %s", got)
	}
}

// instancesDieWithTheirConnection: an instance that loses it is removed although its lease has not passed.
func instancesDieWithTheirConnection(t *testing.T, s setup) {
	if s.Embedded() {
		return // SQLite has no connections
	}
	b := s.join(t, "host-b")
	other, _ := s.another(t, queue.Options{})
	a := queue.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host-a"}
	storetest.Check(t, other.Join(s.ctx, a))
	s.enqueue(t, job("x"))
	_, err := other.CompleteAndClaim(s.ctx, a, nil, []queue.Want{{Lane: "noop", N: 1}})
	storetest.Check(t, err)
	storetest.Check(t, other.Close()) // as the system closes what a killed process had open
	for {
		if err := s.Heartbeat(s.ctx, a); err != nil && !fault.Is(err, fault.StaleClaim) { // its lease does not end
			t.Fatal(err)
		}
		r, err := s.Rescue(s.ctx, b.ID, nil)
		storetest.Check(t, err)
		if len(r) == 1 {
			if r[0].Reason != queue.LostLock {
				t.Errorf("rescued %+v, want one by its lock", r)
			}
			break
		}
		if p := s.pulse(t, b); !p.Others || !p.Lost {
			t.Fatalf("not rescued; %+v", p)
		}
		storetest.Check(t, s.NewWaiter().Wait(s.ctx, store.TopicCancel, time.Now().Add(100*time.Millisecond)))
	}
	storetest.WantCode(t, s.Heartbeat(s.ctx, a), fault.StaleClaim)
}

// newerSchemasAreNoticed: an instance learns with its next heartbeats that a newer Waybill has migrated the database.
func newerSchemasAreNoticed(t *testing.T, s setup) {
	pulsing := s.join(t, "host-a")
	other, _ := s.another(t, queue.Options{})
	beating := queue.Instance{ID: action.DerivedID(time.Now(), t.Name(), "host-b"), Name: "host-b"}
	storetest.Check(t, other.Join(s.ctx, beating))
	storetest.Check(t, s.Ready(s.ctx))
	s.pulse(t, pulsing)
	select {
	case <-s.Outdated():
		t.Error("outdated before anything was migrated")
	default:
	}
	storetest.Check(t, s.database.Exec("UPDATE meta SET schema = 99"))
	for l, beat := range map[*alone]func(){
		s.alone: func() { s.pulse(t, pulsing) },
		other:   func() { storetest.Check(t, other.Heartbeat(s.ctx, beating)) },
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
	storetest.Check(t, s.TakeOver(s.ctx))
	left, err := s.Instances(s.ctx)
	storetest.Check(t, err)
	if gone := len(left) == 0; gone != s.Embedded() {
		t.Errorf("%d instances are left", len(left))
	}
}
