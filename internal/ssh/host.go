package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Host is an account that commands run in. Safe for concurrent use.
type Host struct {
	pool   *Pool
	line   *line
	target Target
	closed sync.Once
}

// Close gives the connection back.
func (h *Host) Close() error {
	h.closed.Do(func() { h.pool.leave(h.line) })
	return nil
}

// Run runs argv and returns its exit status, or 128 and its number when a signal ended it. An error reports that it
// did not run, or that its end is not known.
//
// When ctx ends first, Run returns its cause at once, and argv continues without its streams.
func (h *Host) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if slices.ContainsFunc(argv, func(word string) bool { return strings.IndexByte(word, 0) >= 0 }) {
		return -1, fault.Permanent(fault.New(fault.Invalid, "an argument holds the byte 0"))
	}
	session, done, err := h.session(ctx)
	if err != nil {
		return -1, err
	}
	out, errs := &gate{w: stdout}, &gate{w: stderr}
	session.Stdin, session.Stdout, session.Stderr = stdin, out, errs
	ended := make(chan error, 1)
	go func() {
		defer done()
		ended <- session.Run(loginLine(argv))
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
		out.shut()
		errs.shut()
		go func() { _ = session.Close() }() // it may wait for a network that takes nothing
		return -1, context.Cause(ctx)
	}
	_ = session.Close()
	exit, ok := errors.AsType[*ssh.ExitError](err)
	switch {
	case err == nil:
		return 0, nil
	case ok && exit.Signal() != "":
		return 128 + signalNumber(exit.Signal()), nil
	case ok:
		return exit.ExitStatus(), nil
	}
	return -1, h.lost(ctx, err)
}

// gate is a caller's writer until it is shut: what the session still brings then goes nowhere.
type gate struct {
	mu sync.Mutex
	w  io.Writer // nil: shut, or the caller wants nothing
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.w == nil {
		return len(p), nil
	}
	return g.w.Write(p)
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.w = nil
}

// Dial connects to an address as the host sees it, such as a port of its own loopback. Connections are not
// counted: those to the hosts behind a jump host stay as long as these are in use.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := h.line.client.DialContext(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	refused, ok := errors.AsType[*ssh.OpenChannelError](err)
	switch {
	case ok && refused.Reason == ssh.Prohibited:
		return nil, fault.Permanent(fault.New(fault.Refused, "%s does not forward to %s", h.target.Address, address).
			WithHint("set AllowTcpForwarding to yes or local in its sshd_config"))
	case ok:
		return nil, fmt.Errorf("connect to %s on the host: %w", address, err)
	}
	return nil, h.lost(ctx, err)
}

// sessionTries bounds the requests to a server for the only session of a connection.
const sessionTries = 20

// session begins a session once the connection has a place for it. done gives the place back. A server that
// refuses one while others are open allows fewer: the connection loses that place.
func (h *Host) session(ctx context.Context) (session *ssh.Session, done func(), err error) {
	for refusals := 0; ; {
		select {
		case h.line.slots <- struct{}{}:
		case <-h.line.dead:
			return nil, nil, h.lost(ctx, io.EOF)
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		others := h.line.sessions.Add(1) > 1
		session, err = h.line.client.NewSession()
		done = func() { h.line.sessions.Add(-1); <-h.line.slots }
		_, refused := errors.AsType[*ssh.OpenChannelError](err)
		switch {
		case err == nil:
			return session, done, nil
		case refused && others && h.line.shrink():
			h.line.sessions.Add(-1)
		case refused && refusals < sessionTries:
			refusals++ // the server may not have noticed the end of the one before
			done()
		case refused:
			done()
			return nil, nil, fault.New(fault.Unavailable, "%s@%s refuses a session: %w", h.target.User, h.target.Address, err).
				WithHint("set MaxSessions to 4 or more in its sshd_config")
		default:
			done()
			return nil, nil, h.lost(ctx, err)
		}
	}
}

// shrink takes a place for commands from the line for good, unless it is the last one.
func (l *line) shrink() bool { return l.taken.Add(1) < maxSessions }

// lost returns an error of the connection, and forgets it, so that the next user makes another.
func (h *Host) lost(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if _, ok := errors.AsType[*ssh.ExitMissingError](err); ok || errors.Is(err, io.EOF) {
		err = errors.New("the connection was lost")
	}
	h.pool.forget(h.target, h.line)
	return fault.New(fault.Unavailable, "%s@%s: %w", h.target.User, h.target.Address, err)
}

// signalNumber returns the number of a signal by its name in the protocol; 0 for one that is not known.
func signalNumber(name string) int {
	signals := map[string]syscall.Signal{"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP,
		"ILL": syscall.SIGILL, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE, "QUIT": syscall.SIGQUIT,
		"SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2}
	return int(signals[name])
}

// handshakeError classifies a failed handshake. An account that accepts no key, and a server that speaks
// another language, do so the next time as well.
func handshakeError(t Target, err error) error {
	text := strings.ToLower(err.Error())
	if strings.Contains(text, "unable to authenticate") {
		return fault.Permanent(fault.New(fault.Refused, "%s accepts none of the keys for user %s", t.Address, t.User).
			WithHint("add the public key to ~%s/.ssh/authorized_keys there, or set ssh.identity in waybill.yaml", t.User))
	}
	if strings.Contains(text, "too many authentication failures") {
		return fault.Permanent(fault.New(fault.Refused, "%s takes no more keys for user %s: it has refused too many", t.Address, t.User).
			WithHint("set ssh.identity in waybill.yaml to the one key that it accepts; that key may stay in the ssh-agent"))
	}
	if _, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		return fault.Permanent(fault.New(fault.Refused, "ssh to %s: %w", t.Address, err))
	}
	return fault.New(fault.Unavailable, "ssh to %s: %w", t.Address, err)
}

// wayError returns an error of the network, or the end of the time for it.
func wayError(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		<-ctx.Done() // the deadline is that of ctx, whose own timer may be a moment behind
	}
	if cause := context.Cause(ctx); cause != nil {
		return fault.New(fault.Unavailable, "%w", cause)
	}
	return fault.New(fault.Unavailable, "%w", err)
}
