//go:build services

package deployer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Two instances share one PostgreSQL. One stops silently in the middle of a
// deploy, and the other takes over.

// patience bounds a take-over: one lease, one heartbeat, and room for a slow machine.
const patience = queue.InstanceLease + queue.HeartbeatEvery + 40*time.Second

// gate is a process' ledger that freezes with its process: calls do not come
// back until it thaws.
type gate struct {
	*ledger.Ledger
	mu     sync.Mutex
	frozen chan struct{} // closed by thaw; nil: not frozen
}

func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = make(chan struct{})
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.frozen)
	g.frozen = nil
}

// pass waits while the process is frozen.
func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	frozen := g.frozen
	g.mu.Unlock()
	if frozen == nil {
		return
	}
	select {
	case <-frozen:
	case <-ctx.Done():
	}
}

func (g *gate) CompleteAndClaim(ctx context.Context, owner queue.Instance, c []queue.Completion, w []queue.Want) (queue.Turned, error) {
	g.pass(ctx)
	return g.Ledger.CompleteAndClaim(ctx, owner, c, w)
}

func (g *gate) Pulse(ctx context.Context, i queue.Instance, renew bool) (queue.Pulse, error) {
	g.pass(ctx)
	return g.Ledger.Pulse(ctx, i, renew)
}

func (g *gate) Heartbeat(ctx context.Context, i queue.Instance) error {
	g.pass(ctx)
	return g.Ledger.Heartbeat(ctx, i)
}

func (g *gate) Rescue(ctx context.Context, self action.ID, began func(action.ID) bool) ([]queue.Rescued, error) {
	g.pass(ctx)
	return g.Ledger.Rescue(ctx, self, began)
}

func (g *gate) Due(ctx context.Context) (time.Time, error) {
	g.pass(ctx)
	return g.Ledger.Due(ctx)
}

func (g *gate) Pass(ctx context.Context, lease journal.Lease, since int64, decide journal.Decider) (journal.Head, error) {
	g.pass(ctx)
	return g.Ledger.Pass(ctx, lease, since, decide)
}

func (g *gate) Lease(ctx context.Context, name string, instance action.ID) (journal.Lease, bool, error) {
	g.pass(ctx)
	return g.Ledger.Lease(ctx, name, instance)
}

func (g *gate) Heads(ctx context.Context) ([]journal.Head, error) {
	g.pass(ctx)
	return g.Ledger.Heads(ctx)
}

// node is one process on a shared database.
type node struct {
	gate    *gate
	driver  *postgres.Driver
	stopped chan struct{}
	stop    context.CancelFunc
}

// start runs conductor and deployer with a handler for both kinds of work.
func start(t *testing.T, url, name string, handler func(l *ledger.Ledger) conductor.Handler) *node {
	t.Helper()
	driver, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{gate: &gate{Ledger: ledger.New(driver, ledger.Options{})}, driver: driver, stopped: make(chan struct{})}
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	h := handler(n.gate.Ledger)
	c := conductor.New(n.gate, conductor.Config{Instance: queue.Instance{Name: name}, Workers: 10,
		Handlers: map[string]conductor.Handler{"step": h, "build": h}})
	d := deployer.New(n.gate, deployer.Config{Instance: queue.Instance{Name: name}})
	var roles sync.WaitGroup
	for _, role := range []func(context.Context) error{c.Run, d.Run} {
		roles.Go(func() {
			if err := role(ctx); err != nil && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.LedgerUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	go func() { roles.Wait(); close(n.stopped) }()
	return n
}

// end stops the node and waits for it.
func (n *node) end() {
	n.stop()
	<-n.stopped
	n.driver.Close()
}

// waitUntil returns when the condition holds; it fails when patience runs out.
func waitUntil(t *testing.T, l *ledger.Ledger, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	view := l.NewWaiter()
	for !holds() {
		if view.Wait(ctx, store.TopicEntry, time.Now().Add(time.Second)) != nil {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// stuck is a handler that reports its first deploy, and hangs in it until released.
type stuck struct {
	conductor.Handler
	reached chan struct{}
	release chan struct{}
	once    *sync.Once
}

func (s stuck) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	hang := false
	if a.Action.Step.Event == pipeline.HostDeployed {
		s.once.Do(func() { hang = true })
	}
	if !hang {
		return s.Handler.Do(ctx, a)
	}
	close(s.reached)
	<-s.release
	return action.Outcome{Kind: action.Done} // too late: the other instance has done it
}

// halfWay ships one revision with a first node that hangs in its first deploy; a second node is
// there but does not help.
func halfWay(t *testing.T, w *world) (first *node, second func() *node, l *ledger.Ledger, release func()) {
	t.Helper()
	url := pgtest.URL(t)
	driver, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { driver.Close() })
	l = ledger.New(driver, ledger.Options{})
	define(t, l, greeter("greeter"))
	register(t, l, "greeter", "one")
	s := stuck{reached: make(chan struct{}), release: make(chan struct{}), once: new(sync.Once)}
	first = start(t, url, "first", func(l *ledger.Ledger) conductor.Handler {
		s := s
		s.Handler = w.handler(l)
		return s
	})
	<-s.reached
	second = func() *node { return start(t, url, "second", w.handler) }
	return first, second, l, func() { close(s.release) }
}

func TestAKilledProcessIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	w.pace = 20
	first, startSecond, l, release := halfWay(t, w)
	second := startSecond()
	first.gate.freeze()
	first.driver.Close() // its connections are gone, and with them what reports that it lives
	first.stop()
	release()
	began := time.Now()
	waitUntil(t, l, "take-over after a kill", func() bool { return allEnded(t, "greeter", 1)(l) })
	t.Logf("replaced, and all done, after %s", time.Since(began).Round(time.Millisecond))
	whole(1).judge(t, l, w)
	first.gate.thaw()
	first.end()
	second.end()
}

func TestAFrozenProcessIsReplacedAndRefusedWhenItThaws(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	w.pace = 20
	first, startSecond, l, release := halfWay(t, w)
	second := startSecond()
	first.gate.freeze() // its connections stay, but it is silent
	began := time.Now()
	waitUntil(t, l, "take-over of a frozen process", func() bool { return allEnded(t, "greeter", 1)(l) })
	t.Logf("replaced, and all done, after %s", time.Since(began).Round(time.Millisecond))
	whole(1).judge(t, l, w)
	head, err := l.Head(t.Context(), "greeter")
	if err != nil {
		t.Fatal(err)
	}
	release()
	first.gate.thaw()
	second.end()
	// The first instance joins again and resumes: the next revision is its work.
	register(t, l, "greeter", "two")
	waitUntil(t, l, "work of the thawed process", func() bool { return allEnded(t, "greeter", 2)(l) })
	whole(2).judge(t, l, w)
	if after, err := l.Head(t.Context(), "greeter"); err != nil || after.Epoch <= head.Epoch {
		t.Errorf("epoch %d then %d (%v), want it taken back", head.Epoch, after.Epoch, err)
	}
	first.end()
}

func TestTwoProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(3)
	w.pace = 20
	url := pgtest.URL(t)
	nodes := []*node{start(t, url, "first", w.handler), start(t, url, "second", w.handler)}
	l := nodes[0].gate.NewWaiter()
	define(t, l, greeter("greeter"))
	register(t, l, "greeter", "one")
	waitUntil(t, l, "two processes", func() bool { return allEnded(t, "greeter", 2)(l) })
	whole(2).judge(t, l, w)
	for _, n := range nodes {
		n.end()
	}
}
