package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
)

// lines is a sink that records lines, with ! before those of standard error.
type lines struct {
	build.Sink

	got []string
}

func (l *lines) Output(entries []build.Entry) error {
	for _, e := range entries {
		mark := ""
		if e.Stderr {
			mark = "!"
		}
		l.got = append(l.got, mark+string(e.Text))
	}
	return nil
}

// TestOutputsAreReadInTheOrderInWhichTheyAreReady, however late the reader is.
func TestOutputsAreReadInTheOrderInWhichTheyAreReady(t *testing.T) {
	t.Parallel()
	for i := range 40 {
		o := &outputs{ended: make(chan struct{}), chunks: make(chan chunk, readsAhead), free: make(chan []byte, readsAhead)}
		for range readsAhead {
			o.free <- nil
		}
		read, err := o.open()
		if err != nil {
			t.Fatal(err)
		}
		first := i % 2
		for _, stream := range []int{first, 1 - first} {
			fmt.Fprintf(o.writers[stream], "%d\n", stream)
			o.writers[stream].Close()
		}
		read()
		if c := <-o.chunks; c.stream != first {
			t.Fatalf("%d comes first, want %d", c.stream, first)
		}
	}
}

func TestOutputsAreReadToTheirEnds(t *testing.T) {
	t.Parallel()
	var got lines
	o, err := readOutputs(&got, nil, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 3*readSize)
	var want []string
	for i := range 300 {
		text := fmt.Sprint(i)
		if i%100 == 50 {
			text = long
		}
		fmt.Fprintln(o.writers[i%2], text)
		want = append(want, text)
	}
	if err := o.end(); err != nil {
		t.Fatal(err)
	}
	var both [2]strings.Builder
	for _, line := range got.got {
		text, stderr := strings.CutPrefix(line, "!")
		stream := 0
		if stderr {
			stream = 1
		}
		both[stream].WriteString(text)
	}
	for stream := range both {
		var all strings.Builder
		for i, text := range want {
			if i%2 == stream {
				all.WriteString(text)
			}
		}
		if both[stream].String() != all.String() {
			t.Errorf("output %d has %d bytes, want %d", stream, both[stream].Len(), all.Len())
		}
	}
}

// TestAFailingSinkDoesNotBlockTheStep: its further output is read and dropped.
func TestAFailingSinkDoesNotBlockTheStep(t *testing.T) {
	t.Parallel()
	var failed error
	o, err := readOutputs(failing{}, nil, func(err error) { failed = err })
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		fmt.Fprintln(o.writers[0], strings.Repeat("x", readSize))
	}
	if err := o.end(); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(failed, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", err, failed)
	}
}

type failing struct{ build.Sink }

func (failing) Output([]build.Entry) error { return context.DeadlineExceeded }
