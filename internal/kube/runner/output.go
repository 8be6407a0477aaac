package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/mask"
)

// promptPause is the silence after which a begun line is given out: it may be a prompt.
const promptPause = time.Second

// readSize is the most bytes of one read of a spool.
const readSize = 64 << 10

// Log makes lines of a spool and hands them to a sink. It is fed from the bytes of the spool in any pieces; when reading was cut, reading continues at Offset.
type Log struct {
	sink build.Sink

	mutex   sync.Mutex // against the timer
	streams map[build.SpoolKind]*lines
	prompt  *time.Timer // gives out begun lines
	err     error       // of the sink; nothing is written after it

	clock   nodeClock
	last    *lines // the stream of the last record
	offset  int64  // bytes read
	pending []byte // a record that is not whole
	trailer *build.SpoolTrailer
}

// lines is one of the two streams.
type lines struct {
	stderr bool
	masked mask.Stream
	framer build.Framer
	bytes  int64
	at     time.Time // of the last record, by the clock of this computer
	frames []build.Frame
	texts  []byte // the frames' texts, which the framer reuses
}

// NewLog returns a log that takes secrets out of what it hands to the sink. The caller closes it.
func NewLog(sink build.Sink, secrets *mask.Set) *Log {
	l := &Log{sink: sink, streams: map[build.SpoolKind]*lines{
		build.SpoolStdout: {masked: mask.Stream{Set: secrets}},
		build.SpoolStderr: {masked: mask.Stream{Set: secrets}, stderr: true},
	}}
	l.prompt = time.AfterFunc(promptPause, l.flush)
	return l
}

// Close stops giving out begun lines.
func (l *Log) Close() { l.prompt.Stop() }

// Offset returns the byte at which the next read begins.
func (l *Log) Offset() int64 { return l.offset }

// Trailer returns how the step ended; nil if the end has not been read.
func (l *Log) Trailer() *build.SpoolTrailer { return l.trailer }

// ReadFrom reads a spool that was opened at Offset, until it ends. An error of the sink or of the spool is a fatal one.
func (l *Log) ReadFrom(spool io.Reader) (n int64, err error) {
	buffer := make([]byte, readSize)
	for l.trailer == nil {
		read, err := spool.Read(buffer)
		n += int64(read)
		if fatal := l.take(buffer[:read]); fatal != nil {
			return n, &fatalError{fatal}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// fatalError is an error that reading again does not change.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

// take handles the records that are whole.
func (l *Log) take(data []byte) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.pending = append(l.pending, data...)
	l.offset += int64(len(data))
	rest := l.pending
	for l.err == nil && l.trailer == nil {
		record, size, err := build.ParseSpool(rest)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		if err := l.record(record); err != nil {
			return err
		}
		rest = rest[size:]
	}
	l.pending = append(l.pending[:0], rest...)
	l.put(l.last)
	l.prompt.Reset(promptPause)
	return l.err
}

func (l *Log) record(r build.SpoolRecord) error {
	switch r.Kind {
	case build.SpoolNote:
		l.put(l.last)
		return l.sink.Note(string(r.Data))
	case build.SpoolEnd:
		var trailer build.SpoolTrailer
		if err := json.Unmarshal(r.Data, &trailer); err != nil {
			return fmt.Errorf("%w: its end: %w", build.ErrSpool, err)
		}
		for _, kind := range []build.SpoolKind{build.SpoolStdout, build.SpoolStderr} {
			s := l.turnTo(kind)
			s.masked.Close(func(b []byte) { s.framer.Write(b, s.emit) })
			s.framer.Close(s.emit)
		}
		if out, errs := l.streams[build.SpoolStdout].bytes, l.streams[build.SpoolStderr].bytes; out != trailer.Stdout || errs != trailer.Stderr {
			return fmt.Errorf("%w: it has %d and %d bytes of output, want %d and %d", build.ErrSpool, out, errs, trailer.Stdout, trailer.Stderr)
		}
		l.trailer = &trailer
		return nil
	}
	s := l.turnTo(r.Kind)
	s.at = l.clock.local(r.At, time.Now())
	s.bytes += int64(len(r.Data))
	s.masked.Write(r.Data, func(b []byte) { s.framer.Write(b, s.emit) })
	return l.err
}

// turnTo returns a stream, after the lines of the other one have been handed over, so that they keep their order.
func (l *Log) turnTo(kind build.SpoolKind) *lines {
	s := l.streams[kind]
	if s != l.last {
		l.put(l.last)
	}
	l.last = s
	return s
}

func (s *lines) emit(f build.Frame) {
	s.texts = append(s.texts, f.Text...)
	f.Text, f.At = s.texts[len(s.texts)-len(f.Text):], s.at
	s.frames = append(s.frames, f)
}

// put hands the lines of a stream to the sink.
func (l *Log) put(s *lines) {
	if s == nil {
		return
	}
	if len(s.frames) > 0 && l.err == nil {
		l.err = l.sink.Output(s.stderr, s.frames)
	}
	s.frames, s.texts = s.frames[:0], s.texts[:0]
}

// flush gives out begun lines.
func (l *Log) flush() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.trailer != nil {
		return
	}
	for _, s := range l.streams {
		s.framer.Flush(s.emit)
		l.put(s)
	}
}
