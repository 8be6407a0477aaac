package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// channel is the channel that all processes of a ledger listen to.
const channel = "waybill"

// Listen calls changed for what other processes commit, until Close.
func (d *Driver) Listen(changed func(store.Signal)) { d.listener.start(d.notifier.self, changed) }

// Guard binds an instance's life to the listener's connection by an advisory
// lock: when the process dies, the lock is released. 0 without such a connection.
func (d *Driver) Guard(ctx context.Context, id action.ID) (int64, error) {
	key := int64(binary.BigEndian.Uint64(id[8:]) >> 1)
	ctx, cancel := context.WithTimeout(ctx, guardWithin)
	defer cancel()
	if !d.listener.hold(ctx, key) {
		return 0, nil
	}
	return key, nil
}

// How long a listener hears nothing before it asks whether anybody is there, and how long it waits for the answer.
const (
	checkEvery  = 10 * time.Second
	checkWithin = 5 * time.Second
)

// provenWithin bounds the return of our own notification.
const provenWithin = 2 * time.Second

// Guarded reports whether what Guard bound holds. While a lock is down others may take this process for dead.
func (d *Driver) Guarded() bool { return !d.listener.bare.Load() }

// guardWithin bounds a process's wait for its lock; without one, its lease alone proves that it lives.
const guardWithin = 5 * time.Second

// listener is one connection that waits for notifications and holds locks.
type listener struct {
	config *pgx.ConnConfig
	pool   *pgxpool.Pool   // pool for statements beside LISTEN
	ctx    context.Context // context of its goroutine
	stop   context.CancelFunc
	ended  sync.WaitGroup
	alive  atomic.Bool
	poked  chan struct{} // ends a wait, since a caller wants a lock
	barred chan struct{} // closed when notifications cannot arrive: a pooler keeps no session
	log    *slog.Logger

	mu       sync.Mutex
	locks    []*lock
	bare     atomic.Bool // locks that were held are not now
	broken   time.Time   // time since which they are held again
	metrics  *obs.Ledger // nil: nothing is measured
	notifier *notifier   // whose own notifications show how quick they are
}

// lock is an advisory lock that the connection is to hold.
type lock struct {
	key  int64
	held chan struct{} // closed once it was first taken
	done bool
}

func newListener(config *pgx.ConnConfig, pool *pgxpool.Pool, log *slog.Logger) *listener {
	l := &listener{config: config.Copy(), pool: pool, poked: make(chan struct{}, 1), barred: make(chan struct{}), log: log}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// up reports whether notifications arrive.
func (l *listener) up() bool { return l.alive.Load() }

// start runs the listener until close, or until it is clear that nothing will ever arrive.
func (l *listener) start(self string, changed func(store.Signal)) {
	l.ended.Go(func() {
		var away loop.Backoff
		for l.ctx.Err() == nil {
			if l.session(self, changed) {
				away.Reset()
			}
			select {
			case <-l.barred:
				return
			case <-l.ctx.Done():
			case <-time.After(away.Next()):
			}
		}
	})
}

// bar gives up: the connection works, and what was announced on it did not come back.
func (l *listener) bar() {
	l.log.Warn(
		"a pooler keeps this process from being notified and from holding a lock: it polls, and its death is noticed by its lease alone",
		obs.KeyHint, "name a direct connection in ledger.listenUrl")
	close(l.barred)
}

func (l *listener) close() {
	l.stop()
	l.ended.Wait()
}

// session runs one connection until it ends; it reports whether it ever listened.
func (l *listener) session(self string, changed func(store.Signal)) (listened bool) {
	conn, err := pgx.ConnectConfig(l.ctx, l.config)
	if err != nil {
		return false
	}
	defer func() {
		l.heard(false)
		l.again()
		_ = conn.Close(context.WithoutCancel(l.ctx))
	}()
	if _, err := conn.Exec(l.ctx, "LISTEN "+channel); err != nil {
		return false
	}
	if !l.proven(conn, self) {
		if pooled, err := answeredByAnother(l.ctx, conn); pooled && err == nil {
			_, _ = conn.Exec(l.ctx, "UNLISTEN *") // another client may have the connection now
			l.bar()
		}
		return false
	}
	l.heard(true)
	for _, topic := range store.Topics() { // what was missed while the process did not listen
		changed(store.Signal{Topic: topic})
	}
	for {
		if err := l.take(conn); err != nil {
			return true
		}
		if l.regained() {
			changed(store.Signal{Topic: store.TopicReady}) // what waited for it may begin
		}
		note, err := l.wait(conn)
		if err == nil && note == "" {
			err = l.check(conn)
		}
		if err != nil {
			return true
		}
		change, from := received(note)
		switch {
		case note == "":
		case from == self:
			l.returned(change.Topic)
		default:
			changed(change)
		}
	}
}

// measure shows from now on whether notifications arrive, and how quick those of n are.
func (l *listener) measure(m *obs.Ledger, n *notifier) {
	l.mu.Lock()
	l.metrics, l.notifier = m, n
	l.mu.Unlock()
	l.heard(l.up())
}

// heard notes whether notifications arrive.
func (l *listener) heard(up bool) {
	l.alive.Store(up)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.metrics == nil:
	case up:
		l.metrics.ListenerUp.Set(1)
	default:
		l.metrics.ListenerUp.Set(0)
	}
}

// returned measures a notification of this process that came back.
func (l *listener) returned(t store.Topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.metrics == nil {
		return
	}
	if sent := l.notifier.back(t); !sent.IsZero() {
		l.metrics.NotifyLag.Observe(time.Since(sent).Seconds())
	}
}

// proven reports whether a notification arrives that another connection of ours sent. Behind a pooler that shares
// connections it does not; one that this connection sent might, with the answer to its own statement.
func (l *listener) proven(conn *pgx.Conn, self string) bool {
	if _, err := l.pool.Exec(l.ctx, "SELECT pg_notify($1, $2)", channel, "proof "+self); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(l.ctx, provenWithin)
	defer cancel()
	for {
		note, err := conn.WaitForNotification(ctx)
		if err != nil {
			return false
		}
		if note.Payload == "proof "+self {
			return true
		}
	}
}

// check asks the server whether the connection still is one, and whether the server is: a network that swallows
// everything gives no sign.
func (l *listener) check(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, checkWithin)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return err
	}
	if readOnly(conn.PgConn()) {
		return errReadOnly // notifications are sent by way of the server that has taken its place
	}
	return nil
}

// wait returns the next notification, or "" when a caller wants a lock or none came for a while.
func (l *listener) wait(conn *pgx.Conn) (string, error) {
	ctx, cancel := context.WithTimeout(l.ctx, checkEvery)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-l.poked:
			cancel()
		case <-ctx.Done():
		}
	})
	note, err := conn.WaitForNotification(ctx)
	quiet := ctx.Err() != nil
	cancel()
	watch.Wait()
	switch {
	case err == nil:
		return note.Payload, nil
	case quiet && l.ctx.Err() == nil && !conn.IsClosed():
		return "", nil
	}
	return "", err
}

// again makes the next connection take every lock: they fell with this one.
func (l *listener) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.locks {
		l.bare.Store(l.bare.Load() || k.done)
		k.done = false
	}
}

// regained reports whether locks that had fallen are held again, since it was last asked.
func (l *listener) regained() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.locks {
		if !k.done && k.held == nil {
			return false
		}
	}
	if !l.bare.Swap(false) {
		return false
	}
	l.broken = time.Now()
	return true
}

// judges reports whether this process may take others for dead because their locks are free. What cut its own
// connection has most likely cut all, and who is connected again first must not be the end of the others: it waits
// until they had as much time as their lease.
func (l *listener) judges() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.bare.Load() && (l.broken.IsZero() || time.Since(l.broken) > queue.InstanceLease)
}

// take takes the locks that the connection does not hold yet. One that an
// earlier session of ours still has, since the server does not know that we are
// gone from there, is tried again soon, when that has been ended.
func (l *listener) take(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, checkWithin)
	defer cancel()
	l.mu.Lock()
	wanted := append([]*lock(nil), l.locks...)
	l.mu.Unlock()
	for _, k := range wanted {
		if k.done {
			continue
		}
		var taken bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", k.key).Scan(&taken); err != nil {
			return err
		}
		if !taken {
			if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE "+guards("$1::bigint"), k.key); err != nil {
				return err
			}
			time.AfterFunc(200*time.Millisecond, l.poke)
			continue
		}
		l.mu.Lock()
		k.done = true
		if k.held != nil {
			close(k.held)
			k.held = nil
		}
		l.mu.Unlock()
	}
	return nil
}

func (l *listener) poke() {
	select {
	case l.poked <- struct{}{}:
	default:
	}
}

// hold reports whether the connection got the lock in time; it is taken again after every reconnection.
func (l *listener) hold(ctx context.Context, key int64) bool {
	held := make(chan struct{})
	l.mu.Lock()
	l.locks = append(l.locks, &lock{key: key, held: held})
	l.mu.Unlock()
	l.poke()
	select {
	case <-held:
		return true
	case <-l.barred:
		return false
	case <-ctx.Done():
		return false
	}
}

// notifier sends other processes what changed: right behind the commit while changes are few, and one statement every 10 ms for all of them
// while they are many. It is never part of the transaction: a commit with a pending notification takes a lock of the whole cluster.
type notifier struct {
	pool *pgxpool.Pool
	self string // so that this process knows its own

	mu      sync.Mutex
	pending map[store.Topic]store.Signal
	load    load
	sent    map[store.Topic]time.Time // those that have not come back yet
	poked   chan struct{}
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// notifyEvery is the pause between statements while changes are many. Each statement is a commit and wakes every listener, so
// sending all at once would cost those who write more than it gives those who wait.
const notifyEvery = 10 * time.Millisecond

// load counts changes, to know whether they are many.
type load struct {
	since       time.Time // the beginning of the current span
	last, count int       // changes in the span before, and in this one so far
}

const (
	loadSpan = 100 * time.Millisecond
	loadMany = 20 // changes in a span
)

// add counts one change.
func (l *load) add(now time.Time) {
	switch age := now.Sub(l.since); {
	case age >= 2*loadSpan:
		l.since, l.last, l.count = now, 0, 0
	case age >= loadSpan:
		l.since, l.last, l.count = l.since.Add(loadSpan), l.count, 0
	}
	l.count++
}

// many reports whether the last spans had many changes.
func (l *load) many() bool { return l.last > loadMany || l.count > loadMany }

func newNotifier(pool *pgxpool.Pool, self string) *notifier {
	n := &notifier{pool: pool, self: self, pending: map[store.Topic]store.Signal{}, sent: map[store.Topic]time.Time{},
		poked: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.ended.Go(func() { n.run(ctx) })
	return n
}

// behind returns what to send right behind the commit of a change; nil: the change goes with others, by add.
func (n *notifier) behind(signals []store.Signal) (payloads []string) {
	if len(signals) == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.load.add(time.Now()); n.load.many() || len(n.pending) > 0 {
		return nil
	}
	for _, c := range signals {
		payloads = append(payloads, payload(c, n.self))
	}
	return payloads
}

// sending notes that signals are being sent, behind a commit.
func (n *notifier) sending(signals []store.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range signals {
		n.sent[c.Topic] = time.Now()
	}
}

// add sends signals soon. It never blocks.
func (n *notifier) add(signals []store.Signal) {
	n.mu.Lock()
	for _, c := range signals {
		if before, there := n.pending[c.Topic]; there {
			c = before.And(c)
		}
		n.pending[c.Topic] = c
	}
	n.mu.Unlock()
	select {
	case n.poked <- struct{}{}:
	default:
	}
}

func (n *notifier) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			n.send(context.WithoutCancel(ctx)) // what was committed is announced
			return
		case <-n.poked:
		}
		if n.send(ctx) {
			loop.Pause(ctx, notifyEvery)
		}
	}
}

// send sends what is pending and reports whether changes are many. A lost notification costs others one poll.
func (n *notifier) send(ctx context.Context) (many bool) {
	n.mu.Lock()
	many = n.load.many()
	var payloads []string
	for t, c := range n.pending {
		payloads = append(payloads, payload(c, n.self))
		n.sent[t] = time.Now()
	}
	clear(n.pending)
	n.mu.Unlock()
	if len(payloads) == 0 {
		return many
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, _ = n.pool.Exec(ctx, notify, channel, payloads)
	return many
}

// notify sends payloads. It is a commit of its own, and does not outlive a crash of the server: it waits for no disk.
const notify = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload WHERE set_config('synchronous_commit', " +
	"'off', true) = 'off'"

// maxPayload bounds the bytes of a notification; the server refuses 8,000.
const maxPayload = 7900

// payload writes a signal for a notification: the topic, the process that sends it and, where they are known and fit, the
// lanes as JSON.
func payload(c store.Signal, self string) string {
	text := string(c.Topic) + " " + self
	if c.Lanes == nil {
		return text
	}
	lanes, _ := json.Marshal(c.Lanes) // texts always marshal
	if len(text)+1+len(lanes) > maxPayload {
		return text
	}
	return text + " " + string(lanes)
}

// received reads a payload.
func received(note string) (c store.Signal, from string) {
	topic, rest, _ := strings.Cut(note, " ")
	from, lanes, _ := strings.Cut(rest, " ")
	c.Topic = store.Topic(topic)
	if json.Unmarshal([]byte(lanes), &c.Lanes) != nil {
		c.Lanes = nil // any
	}
	return c, from
}

// back returns when the last notification of a topic was sent that comes back only now; zero: none is missed.
func (n *notifier) back(t store.Topic) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	sent := n.sent[t]
	delete(n.sent, t)
	return sent
}

func (n *notifier) close() {
	n.stop()
	n.ended.Wait()
}
