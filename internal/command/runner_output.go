package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/mask"
)

// readSize is the number of bytes of one read of a step's output, which become one write of the log.
const readSize = 64 << 10

// output is one of a step's two outputs on its way to the sink.
type output struct {
	stderr bool
	mask   *mask.Set // taken out
	reader *os.File
	writer *os.File // the step's end
	ended  chan struct{}
	result chan error
}

// readOutputs begins to read both outputs. When the sink fails, cancel is called with its error.
func readOutputs(sink build.Sink, secrets *mask.Set, cancel context.CancelCauseFunc) ([2]*output, error) {
	var streams [2]*output
	for i := range streams {
		reader, writer, err := os.Pipe()
		if err != nil {
			return streams, fmt.Errorf("open a pipe for a step's output: %w", err)
		}
		s := &output{stderr: i == 1, mask: secrets, reader: reader, writer: writer, ended: make(chan struct{}), result: make(chan error, 1)}
		streams[i] = s
		go func() {
			err := s.pump(sink)
			if err != nil {
				cancel(err)
				_, _ = io.Copy(io.Discard, s.reader) // a program that is being ended must not block on its output
			}
			s.result <- err
		}()
	}
	return streams, nil
}

// end closes the step's end of the pipe, and waits until everything has been read.
func (s *output) end() error {
	_ = s.writer.Close() // a pipe
	close(s.ended)
	err := <-s.result
	_ = s.reader.Close() // only read
	return err
}

// pump hands what the step prints on until the stream ends. Once the step has ended,
// silence is the end too: without a subreaper a stray process may keep the pipe open.
func (s *output) pump(sink build.Sink) error {
	out := attempt.NewOutput(sink, s.stderr, s.mask)
	buffer := make([]byte, readSize)
	for {
		_ = s.reader.SetReadDeadline(time.Now().Add(attempt.OutputPause)) // pipes have deadlines
		n, err := s.reader.Read(buffer)
		_, failed := out.Write(buffer[:n])
		switch {
		case err == nil || failed != nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !s.hasEnded():
			failed = out.Flush()
		default:
			return out.Close()
		}
		if failed != nil {
			return failed
		}
	}
}

func (s *output) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}
