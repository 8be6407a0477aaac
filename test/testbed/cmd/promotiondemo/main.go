// Command promotiondemo runs the worked example of promotion on this computer, for a visitor: a management cluster and two
// leaf clusters, each with Flux, a Git host, and Waybill with its page. A version goes from dev through staging to prod, where
// it waits for the visitor. It needs neither root nor a container engine, and everything ends with it.
//
//	promotiondemo WAYBILL
//
// WAYBILL is the path of the program. When standard input is at its end, the command does not wait.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/klog/v2"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/binary"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: promotiondemo WAYBILL")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "promotiondemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	for _, b := range binary.Promotion() {
		if _, err := b.Path(ctx, os.Stderr); err != nil {
			return err
		}
	}
	klog.LogToStderr(false)    // a watch that ends is not news for a visitor
	klog.SetOutput(io.Discard) // klog writes to files otherwise
	d := &demo{program: program, out: os.Stdout, enter: lines(os.Stdin)}
	return testbed.Run(ctx, os.Stderr, func(t testing.TB) { d.run(t) })
}

// lines returns a channel that yields something for each line of a stream, and is closed at its end.
func lines(stream io.Reader) <-chan struct{} {
	enter := make(chan struct{})
	go func() {
		defer close(enter)
		for scanner := bufio.NewScanner(stream); scanner.Scan(); {
			enter <- struct{}{}
		}
	}()
	return enter
}
