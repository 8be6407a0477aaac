package store

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/waybill-dev/waybill/internal/fault"
)

// GroupConfig configures a Group.
type GroupConfig[C any] struct {
	Name   string      // the work in errors, such as "enqueue"
	Most   int         // weight of the calls that share a transaction at most; a call with as much goes alone
	AtOnce int         // transactions at a time
	Weight func(C) int // weight of a call

	// Run does calls in one transaction, in which each writes its results into itself. Its error is that of every call.
	Run func(ctx context.Context, calls []C) error
	// Common reports whether an error of Run would meet each call alike, such as a database that is away. After any
	// other error each call runs alone, so that none is refused for another's fault.
	Common func(error) bool
}

// Group lets calls share transactions. A call that arrives while the maximum is running joins the next transaction. Otherwise it
// runs at once: no call waits for others to join it. Make it with NewGroup.
type Group[C any] struct {
	config GroupConfig[C]

	mu      sync.Mutex        // guards the rest but ended; it is not held while a transaction runs
	waiting []*groupedCall[C] // in the order of arrival
	running int               // goroutines that run transactions
	closed  bool              // calls go alone, and are refused
	ended   sync.WaitGroup    // those goroutines
}

// groupedCall is one call, and then its answer.
type groupedCall[C any] struct {
	call C
	ctx  context.Context // context of the caller, without its end
	left bool            // the caller does not wait any more; Group.mu guards it
	err  error
	done chan struct{}
}

// NewGroup makes a group. It starts nothing.
func NewGroup[C any](c GroupConfig[C]) *Group[C] {
	return &Group[C]{config: c}
}

// Do runs a call in a transaction with others. The transaction does not end with ctx, since it is not the caller's alone: a call that has begun
// may be done after Do has returned an error. One that has not begun when ctx ends is never done. Waiting is bounded as every Call is. The
// results in the call may be read after a nil error only.
func (g *Group[C]) Do(ctx context.Context, call C) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%s: %w", g.config.Name, err)
	}
	o := &groupedCall[C]{call: call, ctx: context.WithoutCancel(ctx), done: make(chan struct{})}
	g.mu.Lock()
	if g.closed || g.config.Weight(call) >= g.config.Most {
		g.mu.Unlock()
		return g.config.Run(ctx, []C{call})
	}
	g.waiting = append(g.waiting, o)
	if g.running < g.config.AtOnce {
		g.running++
		g.ended.Go(g.runAll)
	}
	g.mu.Unlock()
	err := Call(ctx, g.config.Name, func(ctx context.Context) error {
		select {
		case <-o.done:
			return nil
		case <-ctx.Done(): // it may be done all the same, as when a commit is not answered
			g.leave(o)
			return ctx.Err()
		}
	})
	if err != nil {
		return err
	}
	return o.err
}

// leave records that the caller of a call does not wait any more. A call that is not in a transaction then will not be in one.
func (g *Group[C]) leave(o *groupedCall[C]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o.left = true
}

// isAwaited reports whether the caller of a call waits for it.
func (g *Group[C]) isAwaited(o *groupedCall[C]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !o.left
}

// protected runs calls. A panic is an error, as net/http makes it one in a goroutine of a request: it must not end the process.
func (g *Group[C]) protected(ctx context.Context, calls []C) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "%s: panicked: %v\n%s", g.config.Name, p, debug.Stack())
		}
	}()
	return g.config.Run(ctx, calls)
}

// Close waits for work in progress. Later calls run one by one.
func (g *Group[C]) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.ended.Wait()
}

// runAll runs the calls that wait until none does. Whether it ends is decided under the lock by take, so a call that
// arrives at that moment either is taken or begins another runAll.
func (g *Group[C]) runAll() {
	for {
		some := g.take()
		if len(some) == 0 {
			return
		}
		g.run(some)
	}
}

// take returns the calls of the next transaction, one at least; none: no call waits, and its caller counts as running no more.
func (g *Group[C]) take() []*groupedCall[C] {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(o *groupedCall[C]) bool { return o.left })
	n, weight := 0, 0
	for ; n < len(g.waiting); n++ {
		if weight += g.config.Weight(g.waiting[n].call); n > 0 && weight > g.config.Most {
			break
		}
	}
	some := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; n == 0 {
		g.running--
	}
	return some
}

// run runs calls in one transaction, or each alone if one is at fault, and answers them. Closing done publishes the answer: it is
// not written after that.
func (g *Group[C]) run(some []*groupedCall[C]) {
	calls := make([]C, len(some))
	for i, o := range some {
		calls[i] = o.call
	}
	err := g.protected(some[0].ctx, calls)
	if err != nil && len(some) > 1 && !g.config.Common(err) {
		for _, o := range some {
			if g.isAwaited(o) {
				g.run([]*groupedCall[C]{o})
			}
		}
		return
	}
	for _, o := range some {
		o.err = err
		close(o.done)
	}
}
