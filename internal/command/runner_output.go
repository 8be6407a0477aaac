package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/mask"
)

// terminate is what a supervisor gets when the worker dies.
const terminate = syscall.SIGTERM

// Sizes and times of reading a step's output.
const (
	readSize  = 64 << 10    // bytes of one read, which become one write of the log
	readPause = time.Second // after that much silence a begun line is given out: it may be a prompt
)

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

// pump hands frames to the sink until the stream ends. Once the step has ended,
// silence is the end too: without a subreaper a stray process may keep the pipe open.
func (s *output) pump(sink build.Sink) error {
	var framer build.Framer
	var frames []build.Frame
	var texts []byte // the frames' texts, which the framer reuses
	emit := func(f build.Frame) {
		texts = append(texts, f.Text...)
		f.Text = texts[len(texts)-len(f.Text):]
		frames = append(frames, f)
	}
	put := func() error {
		if len(frames) == 0 {
			return nil
		}
		err := sink.Output(s.stderr, frames)
		frames, texts = frames[:0], texts[:0]
		return err
	}
	masked := mask.Stream{Set: s.mask}
	frame := func(data []byte) { framer.Write(data, emit) }
	buffer := make([]byte, readSize)
	for {
		_ = s.reader.SetReadDeadline(time.Now().Add(readPause)) // pipes have deadlines
		n, err := s.reader.Read(buffer)
		masked.Write(buffer[:n], frame)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !s.hasEnded():
			framer.Flush(emit)
		default:
			masked.Close(frame)
			framer.Close(emit)
			return put()
		}
		if err := put(); err != nil {
			return err
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
