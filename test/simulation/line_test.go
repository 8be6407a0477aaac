package simulation_test

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

var (
	_ conductor.Ledger = (*line)(nil)
	_ deployer.Ledger  = (*line)(nil)
)

// line is the way of one life of a role to the log. Calls take time, are refused, lose their answers
// after they have committed, and now and then the role dies at one, before or after its commit. From
// then on nothing of this life reaches the log. It has every method that the roles need, and embeds
// nothing, so that none goes past it.
type line struct {
	log  *ledger.Ledger
	fate fate
	name string // of the role and its life, from which its faults follow
	dead chan struct{}

	mu    sync.Mutex
	calls map[string]int
}

func newLine(log *ledger.Ledger, f fate, name string) *line {
	return &line{log: log.NewWaiter(), fate: f, name: name, dead: make(chan struct{}), calls: map[string]int{}}
}

var errAway = fault.New(fault.LedgerUnavailable, "the connection to the log is lost")

func (l *line) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

func (l *line) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isDead() {
		close(l.dead)
	}
}

// count numbers the calls of a method.
func (l *line) count(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[method]++
	return l.calls[method]
}

// read makes a call that changes nothing.
func (l *line) read(ctx context.Context, method string, do func() error) error {
	if l.isDead() {
		return errAway
	}
	if l.fate.happens(l.fate.refuse, l.name, method, l.count(method)) {
		return errAway
	}
	if err := do(); err != nil {
		return err
	}
	if l.isDead() {
		return errAway
	}
	return ctx.Err()
}

// write makes a call that commits something.
func (l *line) write(ctx context.Context, method string, do func() error) error {
	if l.isDead() {
		return errAway
	}
	n := l.count(method)
	pauseFor(ctx, l.fate.pick(20, l.name, method, n, "way"))
	switch {
	case l.fate.happens(l.fate.death, l.name, method, n):
		l.die()
	case l.isDead() || l.fate.happens(l.fate.refuse, l.name, method, n):
		return errAway
	}
	dying := l.isDead()
	if dying && l.fate.happens(50, l.name, method, n, "before") {
		return errAway
	}
	err := do()
	if err == nil && (dying || l.isDead() || l.fate.happens(l.fate.lose, l.name, method, n)) {
		return errAway // it has committed
	}
	return err
}

func (l *line) CompleteAndClaim(ctx context.Context, owner queue.Instance, completions []queue.Completion, wants []queue.Want) (done queue.Turned, err error) {
	err = l.write(ctx, "CompleteAndClaim", func() (err error) {
		done, err = l.log.CompleteAndClaim(ctx, owner, completions, wants)
		return err
	})
	if err != nil {
		return queue.Turned{}, err
	}
	return done, nil
}

func (l *line) Rescue(ctx context.Context, self action.ID, began func(action.ID) bool) (rescued []queue.Rescued, err error) {
	err = l.write(ctx, "Rescue", func() (err error) {
		rescued, err = l.log.Rescue(ctx, self, began)
		return err
	})
	return rescued, err
}

func (l *line) Pass(ctx context.Context, lease journal.Lease, since int64, decide journal.Decider) (head journal.Head, err error) {
	err = l.write(ctx, "Pass", func() (err error) {
		head, err = l.log.Pass(ctx, lease, since, decide)
		return err
	})
	return head, err
}

func (l *line) Lease(ctx context.Context, name string, instance action.ID) (lease journal.Lease, ok bool, err error) {
	err = l.write(ctx, "Lease", func() (err error) {
		lease, ok, err = l.log.Lease(ctx, name, instance)
		return err
	})
	return lease, ok, err
}

func (l *line) Join(ctx context.Context, i queue.Instance) error {
	return l.write(ctx, "Join", func() error { return l.log.Join(ctx, i) })
}

func (l *line) Leave(ctx context.Context, i queue.Instance) error {
	return l.read(ctx, "Leave", func() error { return l.log.Leave(ctx, i) })
}

func (l *line) Heartbeat(ctx context.Context, i queue.Instance) error {
	return l.read(ctx, "Heartbeat", func() error { return l.log.Heartbeat(ctx, i) })
}

func (l *line) Pulse(ctx context.Context, i queue.Instance, renew bool) (pulse queue.Pulse, err error) {
	err = l.read(ctx, "Pulse", func() (err error) {
		pulse, err = l.log.Pulse(ctx, i, renew)
		return err
	})
	return pulse, err
}

func (l *line) Claims(ctx context.Context, owner action.ID) (claims []queue.Claimed, err error) {
	err = l.read(ctx, "Claims", func() (err error) {
		claims, err = l.log.Claims(ctx, owner)
		return err
	})
	return claims, err
}

func (l *line) Lanes(ctx context.Context, handlers []string, after string, limit int) (lanes []string, next string, err error) {
	err = l.read(ctx, "Lanes", func() (err error) {
		lanes, next, err = l.log.Lanes(ctx, handlers, after, limit)
		return err
	})
	return lanes, next, err
}

func (l *line) Due(ctx context.Context) (next time.Time, err error) {
	err = l.read(ctx, "Due", func() (err error) {
		next, err = l.log.Due(ctx)
		return err
	})
	return next, err
}

func (l *line) Grant(ctx context.Context, owner queue.Instance, asks []action.Ask) (grants []action.Grant, err error) {
	err = l.read(ctx, "Grant", func() (err error) {
		grants, err = l.log.Grant(ctx, owner, asks)
		return err
	})
	return grants, err
}

func (l *line) CancelAsked(ctx context.Context, owner action.ID) (ids []action.ID, err error) {
	err = l.read(ctx, "CancelAsked", func() (err error) {
		ids, err = l.log.CancelAsked(ctx, owner)
		return err
	})
	return ids, err
}

func (l *line) Stops(ctx context.Context, owner queue.Instance, handlers []string) (claims []queue.Claimed, err error) {
	err = l.read(ctx, "Stops", func() (err error) {
		claims, err = l.log.Stops(ctx, owner, handlers)
		return err
	})
	return claims, err
}

func (l *line) Stopped(ctx context.Context, owner queue.Instance, id action.ID, o action.Outcome) error {
	return l.write(ctx, "Stopped", func() error { return l.log.Stopped(ctx, owner, id, o) })
}

func (l *line) Heads(ctx context.Context) (heads []journal.Head, err error) {
	err = l.read(ctx, "Heads", func() (err error) {
		heads, err = l.log.Heads(ctx)
		return err
	})
	return heads, err
}

func (l *line) Entries(ctx context.Context, q journal.EntryQuery) (rows []pipeline.Entry, err error) {
	err = l.read(ctx, "Entries", func() (err error) {
		rows, err = l.log.Entries(ctx, q)
		return err
	})
	return rows, err
}

func (l *line) Version(ctx context.Context, name string, version int) (v journal.Version, err error) {
	err = l.read(ctx, "Version", func() (err error) {
		v, err = l.log.Version(ctx, name, version)
		return err
	})
	return v, err
}

func (l *line) Now(ctx context.Context) (now time.Time, err error) {
	err = l.read(ctx, "Now", func() (err error) {
		now, err = l.log.Now(ctx)
		return err
	})
	return now, err
}

func (l *line) Maintain(ctx context.Context) error {
	return l.read(ctx, "Maintain", func() error { return l.log.Maintain(ctx) })
}

func (l *line) Sample(ctx context.Context) (sample queue.Sample, err error) {
	err = l.read(ctx, "Sample", func() (err error) {
		sample, err = l.log.Sample(ctx)
		return err
	})
	return sample, err
}

// There are no schedules in the simulation.

func (l *line) Tick(context.Context, string, time.Time, action.Action) (queue.Enqueued, error) {
	return queue.Enqueued{}, errAway
}

func (l *line) LastTick(context.Context, action.Action) (queue.ActionState, cron.Past, error) {
	return queue.ActionState{}, cron.Past{}, errAway
}

func (l *line) Cancel(context.Context, action.ID, queue.CancelMode) error { return errAway }

// What follows is in memory.

func (l *line) Wait(ctx context.Context, topic store.Topic, deadline time.Time) error {
	return l.log.Wait(ctx, topic, deadline)
}

func (l *line) ReadyLanes() []string { return l.log.ReadyLanes() }

func (l *line) Guarded() bool { return l.log.Guarded() }

func (l *line) UpdateReport(change func(*queue.Report)) { l.log.UpdateReport(change) }
