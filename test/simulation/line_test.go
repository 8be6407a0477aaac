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
// after they have committed, and now and then the role dies at one. From then on this life can do
// nothing more. It has every method that the roles need, and embeds
// nothing, so that none goes past it.
type line struct {
	log  *ledger.Ledger
	fate fate
	name string // of the role and its life, from which its faults follow
	dead chan struct{}

	late *sync.WaitGroup // what a dead role has sent, and what commits later

	mu    sync.Mutex
	calls map[string]int
}

func newLine(log *ledger.Ledger, f fate, late *sync.WaitGroup, name string) *line {
	return &line{log: log.NewWaiter(), fate: f, late: late, name: name, dead: make(chan struct{}), calls: map[string]int{}}
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
func read[T any](ctx context.Context, l *line, method string, do func(context.Context) (T, error)) (answer T, err error) {
	if l.isDead() || l.fate.happens(l.fate.refuse, l.name, method, l.count(method)) {
		return answer, errAway
	}
	if answer, err = do(ctx); err == nil && l.isDead() {
		err = errAway
	}
	return answer, err
}

// write makes a call that commits something. A role that dies at it has committed, or not, or what it
// has sent commits only after the next life has begun.
func write[T any](ctx context.Context, l *line, method string, do func(context.Context) (T, error)) (none T, err error) {
	n := l.count(method)
	pauseFor(ctx, l.fate.pick(20, l.name, method, n, "way"))
	if l.isDead() || l.fate.happens(l.fate.refuse, l.name, method, n) {
		return none, errAway
	}
	if l.fate.happens(l.fate.death, l.name, method, n) {
		l.die()
		switch l.fate.pick(3, l.name, method, n, "death") {
		case 0:
			_, _ = do(context.WithoutCancel(ctx)) // the answer reaches no one
		case 1:
			l.late.Go(func() {
				<-time.After(time.Duration(l.fate.pick(6000, l.name, method, n, "late")) * time.Millisecond)
				_, _ = do(context.WithoutCancel(ctx))
			})
		}
		return none, errAway
	}
	answer, err := do(ctx)
	if err == nil && (l.isDead() || l.fate.happens(l.fate.lose, l.name, method, n)) {
		return none, errAway // it has committed
	}
	return answer, err
}

// call makes a function without an answer one with an empty answer.
func call(do func(context.Context) error) func(context.Context) (struct{}, error) {
	return func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) }
}

func (l *line) CompleteAndClaim(ctx context.Context, owner queue.Instance, completions []queue.Completion,
	wants []queue.Want) (queue.Turned, error) {
	return write(ctx, l, "CompleteAndClaim", func(ctx context.Context) (queue.Turned, error) {
		return l.log.CompleteAndClaim(ctx, owner, completions, wants)
	})
}

func (l *line) Rescue(ctx context.Context, self action.ID, began func(action.ID) bool) ([]queue.Rescued, error) {
	return write(ctx, l, "Rescue", func(ctx context.Context) ([]queue.Rescued, error) { return l.log.Rescue(ctx, self, began) })
}

func (l *line) Pass(ctx context.Context, lease journal.Lease, since int64, decide journal.Decider) (journal.Head, error) {
	return write(ctx, l, "Pass", func(ctx context.Context) (journal.Head, error) { return l.log.Pass(ctx, lease, since, decide) })
}

func (l *line) Lease(ctx context.Context, name string, instance action.ID) (journal.Lease, bool, error) {
	type leased struct {
		journal.Lease
		ok bool
	}
	got, err := write(ctx, l, "Lease", func(ctx context.Context) (leased, error) {
		lease, ok, err := l.log.Lease(ctx, name, instance)
		return leased{lease, ok}, err
	})
	return got.Lease, got.ok, err
}

func (l *line) Join(ctx context.Context, i queue.Instance) error {
	_, err := write(ctx, l, "Join", call(func(ctx context.Context) error { return l.log.Join(ctx, i) }))
	return err
}

func (l *line) Stopped(ctx context.Context, owner queue.Instance, id action.ID, o action.Outcome) error {
	_, err := write(ctx, l, "Stopped", call(func(ctx context.Context) error { return l.log.Stopped(ctx, owner, id, o) }))
	return err
}

func (l *line) Leave(ctx context.Context, i queue.Instance) error {
	_, err := read(ctx, l, "Leave", call(func(ctx context.Context) error { return l.log.Leave(ctx, i) }))
	return err
}

func (l *line) Heartbeat(ctx context.Context, i queue.Instance) error {
	_, err := read(ctx, l, "Heartbeat", call(func(ctx context.Context) error { return l.log.Heartbeat(ctx, i) }))
	return err
}

func (l *line) Maintain(ctx context.Context) error {
	_, err := read(ctx, l, "Maintain", call(l.log.Maintain))
	return err
}

func (l *line) Pulse(ctx context.Context, i queue.Instance, renew bool) (queue.Pulse, error) {
	return read(ctx, l, "Pulse", func(ctx context.Context) (queue.Pulse, error) { return l.log.Pulse(ctx, i, renew) })
}

func (l *line) Claims(ctx context.Context, owner action.ID) ([]queue.Claimed, error) {
	return read(ctx, l, "Claims", func(ctx context.Context) ([]queue.Claimed, error) { return l.log.Claims(ctx, owner) })
}

func (l *line) Lanes(ctx context.Context, handlers []string, after string, limit int) (lanes []string, next string, err error) {
	lanes, err = read(ctx, l, "Lanes", func(ctx context.Context) (lanes []string, err error) {
		lanes, next, err = l.log.Lanes(ctx, handlers, after, limit)
		return lanes, err
	})
	return lanes, next, err
}

func (l *line) Due(ctx context.Context) (time.Time, error) { return read(ctx, l, "Due", l.log.Due) }

func (l *line) Grant(ctx context.Context, owner queue.Instance, asks []action.Ask) ([]action.Grant, error) {
	return read(ctx, l, "Grant", func(ctx context.Context) ([]action.Grant, error) { return l.log.Grant(ctx, owner, asks) })
}

func (l *line) CancelAsked(ctx context.Context, owner action.ID) ([]action.ID, error) {
	return read(ctx, l, "CancelAsked", func(ctx context.Context) ([]action.ID, error) { return l.log.CancelAsked(ctx, owner) })
}

func (l *line) Stops(ctx context.Context, owner queue.Instance, handlers []string) ([]queue.Claimed, error) {
	return read(ctx, l, "Stops", func(ctx context.Context) ([]queue.Claimed, error) { return l.log.Stops(ctx, owner, handlers) })
}

func (l *line) Head(ctx context.Context, name string) (journal.Head, error) {
	return read(ctx, l, "Head", func(ctx context.Context) (journal.Head, error) { return l.log.Head(ctx, name) })
}

func (l *line) Heads(ctx context.Context) ([]journal.Head, error) {
	return read(ctx, l, "Heads", l.log.Heads)
}

func (l *line) Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	return read(ctx, l, "Entries", func(ctx context.Context) ([]pipeline.Entry, error) { return l.log.Entries(ctx, q) })
}

func (l *line) Version(ctx context.Context, name string, version int) (journal.Version, error) {
	return read(ctx, l, "Version", func(ctx context.Context) (journal.Version, error) { return l.log.Version(ctx, name, version) })
}

func (l *line) Now(ctx context.Context) (time.Time, error) { return read(ctx, l, "Now", l.log.Now) }

func (l *line) Sample(ctx context.Context) (queue.Sample, error) {
	return read(ctx, l, "Sample", l.log.Sample)
}

// The simulation has no schedules.

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
