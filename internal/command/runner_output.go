package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/mask"
)

// readSize is the number of bytes of one read of a step's output, and about that of one write of the log.
const readSize = 64 << 10

// readsAhead bounds the reads that wait for the log: reading at once keeps the order of the two outputs.
const readsAhead = 16

// outputs copies a step's standard output and standard error to a sink.
type outputs struct {
	to      [2]*attempt.Output
	writers [2]*os.File // the step's ends
	ended   chan struct{}
	chunks  chan chunk
	free    chan []byte // buffers; nil: one that is not made yet
	result  chan error
}

// chunk holds the bytes of one read of one output.
type chunk struct {
	stream int
	at     time.Time
	data   []byte
}

// readOutputs begins to read both outputs. When the sink fails, cancel is called with its error.
func readOutputs(sink build.Sink, secrets *mask.Set, cancel context.CancelCauseFunc) (*outputs, error) {
	o := &outputs{to: [2]*attempt.Output{attempt.NewOutput(sink, false, secrets), attempt.NewOutput(sink, true, secrets)},
		ended: make(chan struct{}), chunks: make(chan chunk, readsAhead), free: make(chan []byte, readsAhead), result: make(chan error, 1)}
	for range readsAhead {
		o.free <- nil
	}
	read, err := o.open()
	if err != nil {
		return nil, fmt.Errorf("open pipes for a step's output: %w", err)
	}
	go func() {
		defer close(o.chunks)
		read()
	}()
	go func() {
		err := o.pump()
		if err != nil {
			cancel(err)
			for c := range o.chunks { // a program that is being ended must not block on its output
				o.free <- c.data
			}
		}
		o.result <- err
	}()
	return o, nil
}

// end closes the step's ends of the pipes, and waits until everything has been read.
func (o *outputs) end() error {
	_, _ = o.writers[0].Close(), o.writers[1].Close() // pipes
	close(o.ended)
	return <-o.result
}

// buffer returns a buffer for the next read. It waits until the log has written an earlier one.
func (o *outputs) buffer() []byte {
	if buffer := <-o.free; buffer != nil {
		return buffer[:readSize]
	}
	return make([]byte, readSize)
}

// pump hands the bytes read to the sink until both outputs have ended.
func (o *outputs) pump() error {
	silence := time.NewTimer(attempt.OutputPause)
	defer silence.Stop()
	for {
		select {
		case c, more := <-o.chunks:
			if !more {
				return errors.Join(o.to[0].Close(), o.to[1].Close())
			}
			if err := o.take(c); err != nil {
				return err
			}
			silence.Reset(attempt.OutputPause)
		case <-silence.C:
			if err := errors.Join(o.to[0].Flush(), o.to[1].Flush()); err != nil {
				return err
			}
		}
	}
}

// take takes a chunk, and those of the same output that have been read since, which become one write of the log.
func (o *outputs) take(c chunk) error {
	for size := 0; ; {
		to := o.to[c.stream]
		to.Take(c.data, c.at)
		size += len(c.data)
		o.free <- c.data
		if size >= readSize {
			return to.Put()
		}
		select {
		case next, more := <-o.chunks:
			if !more {
				return to.Put() // pump sees the end too
			}
			if next.stream != c.stream {
				if err := to.Put(); err != nil {
					return err
				}
				size = 0
			}
			c = next
		default:
			return to.Put()
		}
	}
}

func (o *outputs) hasEnded() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}
