// Package visitor has what the demonstrations share: they run a story on real systems in front of a visitor, who follows it on
// the page of Waybill and presses Enter.
package visitor

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
	"time"

	"k8s.io/klog/v2"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// Visit is a demonstration in front of a visitor.
type Visit struct {
	Program string          // path of Waybill's program
	Enter   <-chan struct{} // the visitor pressed Enter; closed: no visitor is there

	out io.Writer
}

// Main runs a demonstration whose only argument is the path of Waybill's program, once the programs that it needs are built.
// It ends the process, with status 1 after an error. An interrupt ends the demonstration without an error.
func Main(name string, needs []binary.Binary, demonstrate func(testing.TB, *Visit)) {
	if len(os.Args) != 2 {
		fmt.Fprintf(os.Stderr, "usage: %s WAYBILL\n", name)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, needs, demonstrate); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, needs []binary.Binary, demonstrate func(testing.TB, *Visit)) error {
	program, err := filepath.Abs(os.Args[1])
	if err != nil {
		return err
	}
	for _, b := range needs {
		if _, err := b.Path(ctx, os.Stderr); err != nil {
			return err
		}
	}
	klog.LogToStderr(false)    // a watch that ends is not news for a visitor
	klog.SetOutput(io.Discard) // klog writes to files otherwise
	v := &Visit{Program: program, Enter: lines(os.Stdin), out: os.Stdout}
	return testbed.Run(ctx, os.Stderr, func(t testing.TB) { demonstrate(t, v) })
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

// Report prints an event with its time.
func (v *Visit) Report(format string, arguments ...any) {
	v.Printf(time.Now().Format(time.TimeOnly)+"  "+format+"\n", arguments...)
}

// Printf prints for the visitor.
func (v *Visit) Printf(format string, arguments ...any) {
	fmt.Fprintf(v.out, format, arguments...)
}

// Pause waits until the visitor presses Enter, and returns at once if none is there.
func (v *Visit) Pause(t testing.TB) {
	select {
	case <-v.Enter:
	case <-t.Context().Done():
		t.Fatal("interrupted")
	}
}
