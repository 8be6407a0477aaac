package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/loop"
)

// Times and limits of a link.
const (
	probeInterval = 10 * time.Second
	probeFailures = 5 // in a row that disconnect
	syncLimit     = 5 * time.Minute
	firstRetry    = time.Second
	maxRetry      = 2 * time.Minute
	steady        = 30 * time.Second // a connection that lasted as long begins with short delays again
	maxLoads      = 20               // objects of a kind that are read one by one
)

// Phase is the state of a connection.
type Phase string

// The phases.
const (
	Connecting   Phase = "Connecting"
	Syncing      Phase = "Syncing"
	Connected    Phase = "Connected"
	Disconnected Phase = "Disconnected"
)

// errSync means that a cluster did not answer lists in time.
var errSync = fmt.Errorf("its lists were not read within %s", syncLimit)

// link is a connection to a cluster with one configuration, made again when it breaks. The pool's mutex guards its
// fields below wake.
type link struct {
	pool    *Pool
	cluster *cluster
	config  *rest.Config
	wake    chan struct{} // has room for one

	cancel     context.CancelFunc // nil: it does not run yet
	stopped    bool
	phase      Phase
	message    string    // the last failure
	since      time.Time // start of the phase
	failures   int       // in a row
	connection *connection
	heard      bool // a watch delivered something since the last probe
	kinds      map[kindKey]*kind
	loads      []load
}

// load is an object to be read because users have begun to name it.
type load struct {
	kind *kind
	at   types.NamespacedName
}

// newLink returns a link, which the pool runs. The caller holds the mutex.
func (c *cluster) newLink(config *rest.Config) *link {
	l := &link{
		pool:    c.pool,
		cluster: c,
		config:  config,
		wake:    make(chan struct{}, 1),
		phase:   Connecting,
		since:   time.Now(),
		kinds:   map[kindKey]*kind{},
	}
	c.pool.pending = append(c.pool.pending, l)
	c.pool.poke()
	return l
}

// stop ends a link. The caller holds the mutex.
func (l *link) stop() {
	l.stopped = true
	if l.cancel != nil {
		l.cancel()
	}
}

// poke has the link look at its demand.
func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run keeps the link connected until ctx ends.
func (l *link) run(ctx context.Context) {
	retry := loop.Backoff{First: firstRetry, Most: maxRetry}
	for {
		if l.session(ctx) {
			retry.Reset()
		}
		if ctx.Err() != nil || !loop.Pause(ctx, retry.Next()) {
			return
		}
	}
}

// fail notes the reason for the end of a session. The caller holds the mutex.
func (l *link) fail(err error) {
	l.failures++
	phase := l.phase
	if l.connection != nil {
		l.pool.metrics.reconnected(causeOf(err))
	}
	if l.connection != nil || errors.Is(err, errUnauthorized) || l.failures >= probeFailures {
		phase = Disconnected
	}
	l.cluster.change(func() {
		l.drop()
		l.enter(phase, cut(err.Error(), maxText))
	})
}

// enter begins a phase. The caller holds the mutex.
func (l *link) enter(phase Phase, message string) {
	if phase != l.phase {
		l.phase, l.since = phase, time.Now()
		l.pool.log.Info("cluster state changed", keyCluster, l.cluster.name, keyState, string(phase), keyReason, message)
	}
	l.message = message
	l.cluster.changed()
}

// session connects, and serves the demand until the connection breaks or ctx ends. It reports whether the connection
// has been steady.
func (l *link) session(ctx context.Context) (good bool) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c, err := connect(l.config, l.pool.dial, l.pool.guardOf(l.cluster.name), func() { end(errUnauthorized) })
	if err != nil {
		l.ended(err)
		return false
	}
	defer c.close()
	var running sync.WaitGroup
	defer running.Wait()
	if err = c.probe(ctx); err == nil {
		l.begin(c)
		s := session{link: l, connection: c, running: &running, began: time.Now()}
		err = s.serve(ctx)
		good = time.Since(s.began) >= steady
	}
	if errors.Is(context.Cause(ctx), errUnauthorized) {
		err = errUnauthorized
	}
	l.ended(err) // at once: the goroutines may take a while
	end(nil)
	return good
}

// ended receives the reason for the end of a session.
func (l *link) ended(err error) {
	l.pool.mutex.Lock()
	defer l.pool.mutex.Unlock()
	if l.stopped || errors.Is(err, context.Canceled) {
		l.drop()
		return
	}
	l.fail(err)
}

// begin starts reading.
func (l *link) begin(c *connection) {
	l.pool.mutex.Lock()
	defer l.pool.mutex.Unlock()
	l.cluster.change(func() {
		l.connection, l.failures, l.heard = c, 0, false
		l.enter(Syncing, "")
	})
}

// drop stops the watches. The objects stay, as they were seen last. The caller holds the mutex.
func (l *link) drop() {
	l.connection, l.loads = nil, nil
	for _, k := range l.kinds {
		for w := range k.all() {
			w.stop()
		}
		clear(k.watchers)
		k.old, k.resolved, k.wideForbidden = nil, false, false
		k.message, k.retry = "", time.Time{}
		for _, one := range k.objects {
			one.loading = false
		}
	}
}

// load has an object read if users name it and it is not kept in full. The caller holds the mutex.
func (l *link) load(k *kind, at types.NamespacedName) {
	one := k.objects[at]
	if one == nil || one.loading || l.connection == nil {
		return
	}
	if one.value == nil || !l.cluster.demands[k.key].satisfied(one.values) {
		one.loading = true
		l.loads = append(l.loads, load{k, at})
		l.poke()
	}
}

// session is the time from one connection to its end.
type session struct {
	link       *link
	connection *connection
	running    *sync.WaitGroup
	began      time.Time
	failures   int // probes in a row
}

// serve follows the demand and probes the cluster.
func (s *session) serve(ctx context.Context) error {
	probes := time.NewTicker(probeInterval)
	defer probes.Stop()
	answers := make(chan error, 1)
	probing := false
	for {
		again, err := s.step(ctx)
		if err != nil {
			return err
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-s.link.wake:
		case <-timer.C:
		case <-probes.C:
			if s.heard() {
				s.failures = 0
			} else if !probing {
				probing = true
				s.running.Go(func() { answers <- s.connection.probe(ctx) })
			}
		case err := <-answers:
			probing = false
			if err == nil {
				s.failures = 0
			} else if s.failures++; s.failures >= probeFailures {
				return err
			}
		}
		timer.Stop()
	}
}

// heard reports whether a watch delivered something since the last call.
func (s *session) heard() bool {
	l := s.link
	l.pool.mutex.Lock()
	defer l.pool.mutex.Unlock()
	heard := l.heard
	l.heard = false
	for key, k := range l.kinds {
		k.reduce(time.Now())
		if d := l.cluster.demands[key]; d != nil {
			for at := range d.wanted {
				l.load(k, at) // again, if it failed
			}
		}
	}
	return heard
}

// step starts and stops watches so that they serve the demand. It returns the time until the next step.
func (s *session) step(ctx context.Context) (time.Duration, error) {
	l := s.link
	l.pool.mutex.Lock()
	defer l.pool.mutex.Unlock()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	again := probeInterval
	settled := true
	l.cluster.change(func() {
		for key, d := range l.cluster.demands {
			k := l.kinds[key]
			if k == nil {
				k = &kind{link: l, key: key, watchers: map[scope]*watcher{}, objects: map[types.NamespacedName]*object{}}
				l.kinds[key] = k
			}
			again = min(again, s.serveKind(ctx, k, d))
			settled = settled && k.settled()
		}
		for key, k := range l.kinds {
			if l.cluster.demands[key] == nil {
				again = min(again, s.prune(k, nil))
				if len(k.watchers) == 0 && len(k.old) == 0 {
					delete(l.kinds, key)
				}
			}
		}
	})
	s.startLoads(ctx)
	if l.phase == Syncing && settled {
		l.cluster.connected(l)
	}
	if l.phase == Syncing && time.Since(s.began) >= syncLimit {
		return 0, errSync
	}
	return again, nil
}

// serveKind finds a kind's resource and starts the watches that it needs. The caller holds the mutex.
func (s *session) serveKind(ctx context.Context, k *kind, d *demand) time.Duration {
	now := time.Now()
	version := newestVersion(d.versions)
	due := !k.resolved && !now.Before(k.retry) || version != k.wanted
	if due && !k.resolving {
		k.resolving = true
		s.running.Go(func() { k.resolve(ctx, s.connection, version) })
	}
	again := probeInterval
	if !k.resolved {
		if left := k.retry.Sub(now); left > 0 {
			again = min(again, left)
		}
		return again
	}
	needed := map[scope]bool{}
	for _, one := range k.scopes(d) {
		needed[one] = true
		if k.watchers[one] == nil {
			s.start(ctx, k, one)
		}
	}
	for _, w := range k.watchers {
		w.broken = !w.failing.IsZero() && now.Sub(w.failing) >= brokenAfter
	}
	return min(again, s.prune(k, needed))
}

// start starts a watch. The caller holds the mutex.
func (s *session) start(ctx context.Context, k *kind, of scope) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{kind: k, scope: of, in: k.in, cancel: cancel}
	k.watchers[of] = w
	s.running.Go(func() { w.run(ctx, s.connection) })
}

// prune stops the watches that have not been needed for a while, once their successors have read everything. It returns
// the time until the next look. The caller holds the mutex.
func (s *session) prune(k *kind, needed map[scope]bool) time.Duration {
	now, again := time.Now(), probeInterval
	for of, w := range k.watchers {
		if needed[of] {
			w.unneeded = time.Time{}
		} else if w.unneeded.IsZero() {
			w.unneeded = now
		}
	}
	settled := k.settled()
	for of, w := range k.watchers {
		if w.unneeded.IsZero() || !settled && needed != nil && now.Sub(w.unneeded) < syncLimit {
			continue
		}
		if left := grace - now.Sub(w.unneeded); left > 0 {
			again = min(again, left)
			continue
		}
		w.stop()
		delete(k.watchers, of)
		k.dropUncovered()
	}
	if settled && len(k.old) > 0 {
		for _, w := range k.old {
			w.stop()
		}
		k.old = nil
		k.dropUncovered()
	}
	return again
}

// dropUncovered forgets the objects that no watch follows. The caller holds the mutex.
func (k *kind) dropUncovered() {
	for at := range k.objects {
		if k.covering(at) == nil {
			delete(k.objects, at)
		}
	}
}

// startLoads reads objects that users have begun to name: each, or all of a kind if there are many. The caller holds the
// mutex.
func (s *session) startLoads(ctx context.Context) {
	l := s.link
	many := map[*kind]int{}
	for _, one := range l.loads {
		many[one.kind]++
	}
	var now, later []load
	for _, one := range l.loads {
		if k := one.kind; len(k.old) > 0 {
			later = append(later, one) // a list is being read, and may have it
		} else if many[k] <= maxLoads {
			now = append(now, one)
		} else if one := k.objects[one.at]; one != nil {
			one.loading = false
		}
	}
	l.loads = later
	for k, n := range many {
		if n > maxLoads && len(k.old) == 0 && k.resolved {
			k.readAgain()
			l.poke()
		}
	}
	if len(now) > 0 {
		s.running.Go(func() {
			for _, one := range now {
				one.kind.read(ctx, s.connection, one.at)
			}
		})
	}
}

// readAgain replaces the watches, which reads their lists again. The caller holds the mutex.
func (k *kind) readAgain() {
	for _, w := range k.watchers {
		w.replaced = true
	}
	k.old = slices.AppendSeq(k.old, maps.Values(k.watchers))
	clear(k.watchers)
}
