package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Limits of connections. A server that follows the defaults of OpenSSH allows ten sessions, which are commands, and
// as many forwarded ports as are requested.
const (
	dialTime     = 10 * time.Second // bounds the TCP connection and the handshake together
	keepMisses   = 3                // intervals without an answer after which a connection is dead
	maxSessions  = 4                // commands of a connection at a time
	defaultAlive = 15 * time.Second // between two questions whether the host still answers
	defaultIdle  = time.Minute      // a connection that nothing uses is closed after this
)

// DefaultDials bounds the connections that are being made at a time unless the options set a number.
const DefaultDials = 64

// Config configures a Pool.
type Config struct {
	Identities []string      // files of private keys for targets that name none; those that are missing or locked are left out
	Agent      string        // socket of an ssh-agent, whose keys come first; "": none
	Dials      int           // connections that are being made at a time; default 64
	Idle       time.Duration // how long a connection without use stays open; default 1 min
	Metrics    *obs.SSH      // default: unregistered
	KeepAlive  time.Duration // between two questions whether the host still answers; default 15 s
}

// Target is an account on a host.
type Target struct {
	Address    string // HOST:PORT
	User       string
	HostKey    string  // its fingerprint, SHA256:…; "": one of KnownHosts
	KnownHosts string  // file of host keys, in OpenSSH's format
	Identity   string  // file of the private key; "": Config.Identities
	Jump       *Target // the host that leads there; nil: none
}

// key names the connections that two targets may share: everything that decides who is reached.
func (t Target) key() string {
	key := fmt.Sprintf("%s@%s %q %q %q", t.User, t.Address, t.HostKey, t.KnownHosts, t.Identity)
	if t.Jump != nil {
		key += " by " + t.Jump.key()
	}
	return key
}

// Pool shares connections. Safe for concurrent use.
type Pool struct {
	config  Config
	dialing chan struct{}
	known   knownFiles

	mu     sync.Mutex
	lines  map[string]*line
	pinned map[string]string // by hostCheck.pin: the kind of the key that was accepted
	closed bool
}

// line is the connection to one target, or the attempt to make it. Its users count; the last one to
// leave starts the clock after which it is closed.
type line struct {
	made   chan struct{} // closed when client or err is set
	client *ssh.Client
	err    error
	slots  chan struct{} // a place for each command
	dead   chan struct{} // closed when the connection has ended

	sessions atomic.Int32 // number of open or requested sessions
	taken    atomic.Int32 // places that the server does not have, and attempts to take the last one

	users int // below, guarded by Pool.mu
	idle  *time.Timer
	jump  *Host // the way to it, held as long as the line
}

// NewPool makes a pool without connections.
func NewPool(c Config) *Pool {
	if c.Dials <= 0 {
		c.Dials = DefaultDials
	}
	if c.Idle <= 0 {
		c.Idle = defaultIdle
	}
	if c.Metrics == nil {
		c.Metrics = obs.NewSSH()
	}
	if c.KeepAlive <= 0 {
		c.KeepAlive = defaultAlive
	}
	return &Pool{config: c, dialing: make(chan struct{}, c.Dials), known: knownFiles{files: map[string]knownFile{}},
		lines: map[string]*line{}, pinned: map[string]string{}}
}

// Metrics returns what the pool counts.
func (p *Pool) Metrics() *obs.SSH { return p.config.Metrics }

// Close closes all connections. Commands that run lose their streams.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	lines := p.lines
	p.lines = map[string]*line{}
	p.mu.Unlock()
	for _, l := range lines {
		<-l.made // at the latest after dialTime
		l.end()
	}
}

// Host returns a connection to the target, made if there is none that lives. The caller closes it.
func (p *Pool) Host(ctx context.Context, t Target) (*Host, error) {
	for {
		l, err := p.take(t)
		if err != nil {
			return nil, err
		}
		select {
		case <-l.made:
		case <-ctx.Done():
			p.leave(l)
			return nil, context.Cause(ctx)
		}
		if l.err != nil {
			p.leave(l)
			return nil, l.err
		}
		select {
		case <-l.dead: // it ended since: the next one is fresh
			p.forget(t, l)
			p.leave(l)
		default:
			return &Host{pool: p, line: l, target: t}, nil
		}
	}
}

// take counts a user of the target's line, and begins to make the line when there is none.
func (p *Pool) take(t Target) (*line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fault.New(fault.Unavailable, "connections are closed: Waybill is ending")
	}
	l := p.lines[t.key()]
	if l == nil {
		l = &line{made: make(chan struct{}), dead: make(chan struct{}), slots: make(chan struct{}, maxSessions)}
		p.lines[t.key()] = l
		go p.connect(t, l)
	} else {
		p.config.Metrics.Reused.Inc()
	}
	l.users++
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
	return l, nil
}

// leave counts a user less. The last one starts the clock.
func (p *Pool) leave(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.idle = time.AfterFunc(p.config.Idle, func() { p.retire(l) })
}

// retire closes a line that nothing has used for a while.
func (p *Pool) retire(l *line) {
	p.mu.Lock()
	if l.users > 0 {
		p.mu.Unlock()
		return
	}
	for key, kept := range p.lines {
		if kept == l {
			delete(p.lines, key)
		}
	}
	p.mu.Unlock()
	<-l.made
	l.end()
}

// Forget makes the next user of a target get a new connection. Users of the present one keep it.
func (p *Pool) Forget(t Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lines, t.key())
}

// forget removes a line, so that the next user makes another.
func (p *Pool) forget(t Target, l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines[t.key()] == l {
		delete(p.lines, t.key())
	}
}

// end closes the connection.
func (l *line) end() {
	if l.client != nil {
		_ = l.client.Close()
	}
	if l.jump != nil {
		_ = l.jump.Close()
	}
}

// connect makes the connection of a line, for all its users: one that gives up must not take it from
// the rest.
func (p *Pool) connect(t Target, l *line) {
	defer close(l.made)
	if l.err = p.lead(t, l); l.err == nil {
		l.client, l.err = p.dialInTurn(t, l)
	}
	metrics := p.config.Metrics
	if l.err != nil {
		p.forget(t, l)
		l.end()
		return
	}
	metrics.Connections.Inc()
	go func() {
		l.watch()
		metrics.Connections.Dec()
	}()
	go l.keepAlive(p.config.KeepAlive)
}

// lead takes the line to the jump host, if the target has one. It comes before the target's turn to be
// dialed, or targets that wait for their jump host would take all turns from it.
func (p *Pool) lead(t Target, l *line) (err error) {
	if t.Jump == nil {
		return nil
	}
	if l.jump, err = p.Host(context.Background(), *t.Jump); err != nil { // ends: each turn takes dialTime at most
		return fmt.Errorf("jump host %s: %w", t.Jump.Address, err)
	}
	return nil
}

// dialInTurn dials a target within dialTime, once fewer than Config.Dials others are being dialed.
func (p *Pool) dialInTurn(t Target, l *line) (*ssh.Client, error) {
	p.dialing <- struct{}{} // others are dialed within dialTime each
	defer func() { <-p.dialing }()
	ctx, cancel := context.WithTimeoutCause(context.Background(), dialTime, fmt.Errorf("no answer within %s", dialTime))
	defer cancel()
	began, metrics := time.Now(), p.config.Metrics
	client, err := p.dial(ctx, t, l)
	metrics.DialSeconds.Observe(time.Since(began).Seconds())
	metrics.Dials.WithLabelValues(dialEnd(err)).Inc()
	return client, err
}

// dialEnd returns how a connection that was tried ended, for the metrics.
func dialEnd(err error) string {
	switch {
	case err == nil:
		return "ok"
	case fault.IsPermanent(err):
		return "refused"
	}
	return "unreachable"
}

// dial reaches the target and proves who both sides are.
func (p *Pool) dial(ctx context.Context, t Target, l *line) (*ssh.Client, error) {
	check, err := p.hostKeys(t)
	if errors.Is(err, errNoKnownHosts) {
		return nil, unknownKey(t, "", err)
	}
	if err != nil {
		return nil, err
	}
	methods, done, err := p.config.methods(ctx, t)
	if err != nil {
		return nil, err
	}
	defer done()
	return p.meet(ctx, t, l, check, methods)
}

// meet connects to the target and makes the handshake. A fingerprint does not show the kind of its key, so a host
// that shows another key is asked for its keys of the other kinds before that one counts as changed.
func (p *Pool) meet(ctx context.Context, t Target, l *line, check hostCheck, methods []ssh.AuthMethod) (*ssh.Client, error) {
	var changed error
	for {
		var kind string
		var refused error // result of checking the host key, which the handshake's error hides
		client, err := p.handshake(ctx, t, l, &ssh.ClientConfig{User: t.User, Auth: methods, HostKeyAlgorithms: check.kinds,
			HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
				kind, refused = inside(key).Type(), check.check(key)
				return refused
			}})
		_, noneLeft := errors.AsType[*ssh.AlgorithmNegotiationError](err)
		switch {
		case err == nil:
			p.remember(check.pin, kind)
			return client, nil
		case changed != nil && noneLeft:
			return nil, changed
		case refused == nil:
			return nil, err
		case check.pin == "" || errors.Is(refused, errSeen):
			return nil, refused
		}
		changed = cmp.Or(changed, refused)
		if check.kinds = without(check.kinds, algorithmsOf(kind)); len(check.kinds) == 0 {
			return nil, changed
		}
	}
}

// remember notes of which kind the key of a fingerprint is, so that the next dial requests it first.
func (p *Pool) remember(pin, kind string) {
	if pin == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pinned[pin] = kind
}

// handshake connects to the target once. Its error is that of the way there, or of the handshake.
func (p *Pool) handshake(ctx context.Context, t Target, l *line, config *ssh.ClientConfig) (*ssh.Client, error) {
	raw, err := p.reach(ctx, t, l)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, channels, requests, err := ssh.NewClientConn(raw, t.Address, config)
	inTime := stop()
	if err != nil {
		_ = raw.Close()
		if !inTime {
			err = context.Cause(ctx)
		}
		return nil, handshakeError(t, err)
	}
	return ssh.NewClient(conn, channels, requests), nil
}

// reach makes the TCP connection, from the line's jump host if it has one.
func (p *Pool) reach(ctx context.Context, t Target, l *line) (net.Conn, error) {
	if l.jump == nil {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", t.Address)
		if err != nil {
			return nil, wayError(ctx, err)
		}
		return &counted{conn, p.config.Metrics.Sent}, nil
	}
	conn, err := l.jump.Dial(ctx, "tcp", t.Address)
	if err != nil {
		return nil, fmt.Errorf("from the jump host %s: %w", t.Jump.Address, wayError(ctx, err))
	}
	return conn, nil
}

// counted is a connection whose sent bytes are counted. What a jump host forwards is counted on the way there.
type counted struct {
	net.Conn
	sent prometheus.Counter
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(float64(n))
	return n, err
}

// watch notes the end of the connection.
func (l *line) watch() {
	_ = l.client.Wait()
	close(l.dead)
}

// keepAlive asks the host from time to time whether it is there, and ends a connection whose host does
// not answer: without data TCP would notice after hours.
func (l *line) keepAlive(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	answers := make(chan error, 1)
	asking, missed := false, 0
	for {
		select {
		case <-l.dead:
			return
		case err := <-answers:
			if err != nil {
				_ = l.client.Close()
				return
			}
			asking, missed = false, 0
		case <-ticker.C:
			if asking {
				if missed++; missed >= keepMisses {
					_ = l.client.Close()
					return
				}
				continue
			}
			asking = true
			go func() {
				_, _, err := l.client.SendRequest("keepalive@openssh.com", true, nil)
				answers <- err // it has room, and one is asked at a time
			}()
		}
	}
}
