// Package cli is the command line: it reads flags, and prints the answers of the operations.
//
// A noun is a package below, and a command a file of it. RunE opens the log or the server, fills a struct of options
// with the few operations that the command uses, and calls a function, run…, that does the work and prints: text for
// people, or with `-o json` a form that stays. Commands return errors; Main prints the one error, and its code gives the
// exit status.
package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/config"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/lifecycle"
)

// Main runs one command line and returns its exit status.
func Main(arguments []string) int {
	git.LeaveCaller()
	if status, ok := local.Supervise(arguments); ok {
		return status // this process runs between a build and its step, and handles signals itself
	}
	if status, ok := runShim(arguments); ok {
		return status
	}
	ctx, stop := lifecycle.Signals(context.Background())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	a := &cmdline.App{Place: assembly.Place{Dir: dir, Environment: os.Getenv, Version: version().Version}, In: os.Stdin,
		Out: show.NewGate(os.Stdout, cmdline.OnTerminal(os.Stdout)), Err: show.NewGate(os.Stderr, cmdline.OnTerminal(os.Stderr))}
	if a.CanAsk() && !config.Completes(arguments) {
		a.Ask = a.Confirm
	}
	return runLine(ctx, a, arguments)
}

// runLine executes a command line, prints its error, and returns the exit status.
func runLine(ctx context.Context, a *cmdline.App, arguments []string) int {
	root := rootCommand(a)
	root.SetArgs(arguments)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.Unknown
	}
	if err == nil {
		return fault.ExitDone
	}
	if errors.Is(err, lifecycle.ErrUnread) {
		return fault.ExitUnread
	}
	if (cmdline.Interrupted(ctx) || fault.Is(err, fault.Interrupted)) && cmdline.EndedWith(err) {
		return fault.ExitInterrupted
	}
	if unread(err) {
		return fault.ExitUnread
	}
	a.Report(err)
	return cmdline.ExitStatus(err)
}

// unread reports whether err is only that nothing reads the output any more. It is where a command watches SIGPIPE, which else ends
// the process.
func unread(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	return ok && (failed.Path == os.Stdout.Name() || failed.Path == os.Stderr.Name()) && errors.Is(failed, syscall.EPIPE)
}
