// Package lifecycle starts and stops a process: it locks the home, turns signals
// into a drain, and runs several roles until the first role ends. Packages
// assembly and cli, with those below cli, use it.
//
// Drain is not stop. The first signal ends the roles' contexts: they take on nothing new and finish or hand back
// their claims. The second ends the process at once, which is safe because everything that counts is in the log.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/fault"
)

// ErrTerminated is in the cause of a context that SIGTERM has ended: a supervisor stops the process, which does not
// affect the present service.
var ErrTerminated = errors.New("terminated by SIGTERM")

// ErrUnread is in the cause of a context that UntilUnread has ended because nothing reads the output of this process.
var ErrUnread = errors.New("nothing reads the output any more")

// repeated is the time for which further SIGTERMs count as the first one: timeout(1) and others send it to a process
// and to its group, so that it arrives twice.
const repeated = time.Second

// Signals returns a context that ends at the first SIGINT or SIGTERM, with a fault.Interrupted cause, which is
// ErrTerminated too after SIGTERM; the second one exits the process with status 130. stop ends the watching, and so
// restores the default of signals.
func Signals(ctx context.Context) (signaled context.Context, stop func()) {
	return signals(ctx, func(status int) {
		fmt.Fprintln(os.Stderr,
			"waybill: a second signal ended this process at once: the steps of a build are killed, and actions of a log are "+
				"taken over by the next start, or another process")
		os.Exit(status)
	})
}

func signals(ctx context.Context, exit func(status int)) (context.Context, func()) {
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM)
	signaled, cancel := context.WithCancelCause(ctx)
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		var first os.Signal
		var at time.Time
		for {
			select {
			case s := <-caught:
				switch {
				case first == nil:
					first, at = s, time.Now()
					cancel(causeOf(s))
				case s == syscall.SIGTERM && first == s && time.Since(at) < repeated:
				default:
					exit(fault.ExitInterrupted)
					return
				}
			case <-over:
				return
			}
		}
	}()
	return signaled, sync.OnceFunc(func() {
		signal.Stop(caught)
		close(over)
		<-watched
		cancel(context.Canceled)
	})
}

// Hangups delivers SIGHUP, by which a supervisor requests the configuration to be read again. Signals that come
// before the last was received count as one. stop ends this, and so restores the default of the signal: it ends the
// process.
func Hangups() (asked <-chan os.Signal, stop func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	return caught, func() { signal.Stop(caught) }
}

// UntilUnread returns a context that ends, as after UntilHangup, also when the output of this process is not read any
// more, as behind head(1), which else would end the process at once. stop ends the watching.
func UntilUnread(ctx context.Context) (watched context.Context, stop func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGPIPE)
	ctx, unwatch := UntilHangup(ctx)
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			select {
			case s := <-caught:
				if outputIsUnread() { // else it is about another connection
					cancel(causeOf(s))
				}
			case <-watched.Done():
				return
			}
		}
	}()
	return watched, func() {
		cancel(context.Canceled)
		unwatch()
		signal.Stop(caught)
	}
}

// outputIsUnread reports whether standard output or standard error is a pipe without a reader.
func outputIsUnread() bool {
	outputs := []unix.PollFd{{Fd: 1}, {Fd: 2}}
	n, err := unix.Poll(outputs, 0)
	return err == nil && n > 0
}

// UntilHangup returns a context that ends at SIGHUP too, with a fault.Interrupted cause: the
// terminal has been closed. stop ends the watching. A caller that started the process to outlive its
// terminal (nohup) keeps it.
func UntilHangup(ctx context.Context) (watched context.Context, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	watched, cancel := context.WithCancelCause(ctx)
	asked, release := Hangups()
	go func() {
		select {
		case s := <-asked:
			cancel(causeOf(s))
		case <-watched.Done():
		}
	}()
	return watched, func() {
		cancel(context.Canceled)
		release()
	}
}

// causeOf returns the cause with which a signal ends a context.
func causeOf(s os.Signal) error {
	switch s {
	case syscall.SIGTERM:
		return fault.Wrap(fault.Interrupted, ErrTerminated)
	case syscall.SIGHUP:
		return fault.New(fault.Interrupted, "the terminal was closed")
	case syscall.SIGPIPE:
		return fault.Wrap(fault.Interrupted, ErrUnread)
	}
	return fault.New(fault.Interrupted, "interrupted")
}

// Role is one loop of the process, such as the conductor.
type Role struct {
	Name string
	// Run blocks until ctx ends or the role has nothing more to do. It drains before it returns.
	Run func(ctx context.Context) error
}

// errStopped is the cause with which Run ends a role.
var errStopped = errors.New("this process is stopping")

// Run runs the roles until ctx ends or the first role returns, with or
// without an error. Then it stops them one after another, the last of the list
// first, so that a role can rely on those before it until its own end. It
// returns their errors joined, each with its role's name; a role that returns
// only because it was stopped causes no error.
func Run(ctx context.Context, roles ...Role) error {
	started := make([]*running, len(roles))
	first := make(chan struct{}, len(roles))
	for i, role := range roles {
		started[i] = start(ctx, role, first)
	}
	select {
	case <-ctx.Done():
	case <-first:
	}
	var failed error
	for i := len(started) - 1; i >= 0; i-- {
		failed = errors.Join(started[i].stop(), failed)
	}
	return failed
}

// running is a role that was started.
type running struct {
	cancel context.CancelCauseFunc
	ended  chan struct{}
	err    error // once ended is closed
}

// start runs the role on a context of its own, for roles end in order and not all at once.
func start(ctx context.Context, role Role, first chan<- struct{}) *running {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &running{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		if err := role.Run(own); err != nil && (own.Err() == nil || !stopped(err)) {
			r.err = fmt.Errorf("%s: %w", role.Name, err)
		}
		first <- struct{}{}
	}()
	return r
}

func (r *running) stop() error {
	r.cancel(errStopped)
	<-r.ended
	return r.err
}

func stopped(err error) bool {
	return errors.Is(err, errStopped) || errors.Is(err, context.Canceled)
}
