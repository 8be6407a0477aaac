package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/waybill-dev/waybill/internal/builder/shim"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
)

// shimName is the word by which the shims in a step's pod are started: waybill shim init|serve, and waybill shim exec -- ARGV…; in a
// worker's pod, waybill shim clone.
// People do not run them, and nothing of the command line is set up for them.
const shimName = "shim"

// runShim runs a shim when the command line requests it; ok is false for other commands.
func runShim(arguments []string) (status int, ok bool) {
	if len(arguments) < 2 || arguments[0] != shimName {
		return 0, false
	}
	ctx, stop := lifecycle.Signals(context.Background())
	defer stop()
	config := shim.FromEnvironment(os.Getenv)
	var err error
	switch rest := arguments[2:]; {
	case arguments[1] == "init" && len(rest) == 0:
		err = listenAs(ctx, config, initShim)
	case arguments[1] == "serve" && len(rest) == 0:
		err = listenAs(ctx, config, shim.Serve)
	case arguments[1] == "clone" && len(rest) == 0:
		err = shim.Clone(ctx, os.Getenv)
	case arguments[1] == "exec" && len(rest) > 1 && rest[0] == "--":
		status, err = shim.Exec(ctx, config, rest[1:], os.Environ())
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "waybill: %v\n", err)
		return fault.ExitUnavailable, true
	}
	return status, true
}

func listenAs(ctx context.Context, config shim.Config, run func(context.Context, shim.Config, net.Listener) error) error {
	if config.Token == "" {
		return errors.New("the shims of a step have a token in their environment; they are started by a build on Kubernetes")
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", config.Listen)
	if err != nil {
		return err
	}
	return run(ctx, config, listener)
}

// initShim receives the workspace, and leaves this program for the container of the step.
func initShim(ctx context.Context, config shim.Config, listener net.Listener) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return shim.Init(ctx, config, self, listener)
}
