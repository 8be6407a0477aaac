// Command testbed runs a command, usually go test, against the systems of the
// testbed: it builds what the cache lacks, gives the command a temporary folder of
// its own, passes interrupts on, and when the command has ended, however it
// ended, ends every process that it left and removes the folder.
//
//	testbed COMMAND [ARG]...
//
// It exits with the status of the command; with 1 when the command was content
// but left processes behind; with 130 when it was interrupted.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(argv []string) int {
	if len(argv) == 0 {
		fmt.Fprintln(os.Stderr, "usage: testbed COMMAND [ARG]...")
		return 2
	}
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		return 3
	}
	return keep(argv)
}

// build fills the cache before the command's clock runs.
func build() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, b := range binary.All() {
		if _, err := b.Path(ctx, os.Stderr); err != nil {
			return err
		}
	}
	return nil
}
