// Package cli is the command line: it reads flags, wires the roles together, and shows people what is going on.
//
// A command is a file. Each asks the operations of package server, in this
// process or over HTTP, and prints what they answer: as text for people, or with
// `-o json` in a form that stays. Commands return errors and print none; Main
// prints the one error, and its code gives the exit status.
package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/waybill-dev/waybill/internal/fault"
)

// errInterrupted is why the context of a command ends when somebody presses Ctrl-C.
var errInterrupted = fault.New(fault.Interrupted, "interrupted")

// Main runs one command line and returns its exit status.
func Main(arguments []string) int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, dir: dir, environment: os.Getenv}
	return a.run(ctx, arguments)
}

// interruptible ends the context at the first SIGINT or SIGTERM, so that running work is handed back; at the
// second the process exits at once.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(fault.ExitInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// run executes a command line, prints its error, and returns the exit status.
func (a *app) run(ctx context.Context, arguments []string) int {
	root := a.rootCommand()
	root.SetArgs(arguments)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return fault.ExitDone
	}
	if interruptedBy(ctx, err) {
		err = errInterrupted
	}
	a.report(err)
	return exitStatus(err)
}

// interruptedBy reports whether err is only the end of a context that a signal ended.
func interruptedBy(ctx context.Context, err error) bool {
	return errors.Is(context.Cause(ctx), errInterrupted) && (errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted))
}
