// Command postgres runs a command beside a PostgreSQL that is started for it
// and stopped after it: `go run ./test/postgres -- go test ./...`. The command
// finds the server's address in WAYBILL_TEST_POSTGRES. Arguments before -- are
// settings of the server, such as fsync=off.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"github.com/waybill-dev/waybill/internal/pgtest"
)

func main() {
	args := os.Args[1:]
	split := slices.Index(args, "--")
	if split < 0 || split+1 == len(args) {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/postgres [NAME=VALUE ...] -- COMMAND [ARG ...]")
		os.Exit(2)
	}
	os.Exit(run(args[:split], args[split+1:]))
}

// run returns the command's exit status, or 3 if it cannot start a server.
func run(settings, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := pgtest.Start(ctx, settings...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start PostgreSQL:", err)
		return 3
	}
	defer func() {
		if err := errors.Join(server.Stop(), server.Remove()); err != nil {
			fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
		}
	}()
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), pgtest.Variable+"="+server.URL())
	err = command.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		return exited.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}
