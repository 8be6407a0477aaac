package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/mask"
)

// readSize is the most bytes of one read of a spool.
const readSize = 64 << 10

// Log makes lines of a spool and hands them to a sink. It is fed from the bytes of the spool in any pieces; when
// reading was cut, reading continues at Offset.
type Log struct {
	sink build.Sink

	mutex   sync.Mutex // against the timer
	streams map[build.SpoolKind]*stream
	prompt  *time.Timer // gives out begun lines
	err     error       // error of the sink; nothing is written after it

	clock   nodeClock
	last    *stream // stream of the last record
	offset  int64   // bytes read
	pending []byte  // a record that is not whole
	trailer *build.SpoolTrailer
}

// stream is one of the two streams.
type stream struct {
	*attempt.Output
	bytes int64
}

// NewLog returns a log that takes secrets out of the entries that it hands to the sink. The caller closes it.
func NewLog(sink build.Sink, secrets *mask.Set) *Log {
	l := &Log{sink: sink, streams: map[build.SpoolKind]*stream{
		build.SpoolStdout: {Output: attempt.NewOutput(sink, false, secrets)},
		build.SpoolStderr: {Output: attempt.NewOutput(sink, true, secrets)},
	}}
	l.last = l.streams[build.SpoolStdout]
	l.prompt = time.AfterFunc(attempt.OutputPause, l.flush)
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
	l.put()
	l.prompt.Reset(attempt.OutputPause)
	return l.err
}

func (l *Log) record(r build.SpoolRecord) error {
	switch r.Kind {
	case build.SpoolNote:
		l.put()
		return l.sink.Note(string(r.Data))
	case build.SpoolEnd:
		return l.end(r.Data)
	}
	l.turnTo(r.Kind)
	l.last.bytes += int64(len(r.Data))
	l.last.Take(r.Data, l.clock.local(r.At, time.Now()))
	return l.err
}

// end handles the last record.
func (l *Log) end(data []byte) error {
	var trailer build.SpoolTrailer
	if err := json.Unmarshal(data, &trailer); err != nil {
		return fmt.Errorf("%w: its end: %w", build.ErrSpool, err)
	}
	for _, kind := range []build.SpoolKind{build.SpoolStdout, build.SpoolStderr} {
		l.turnTo(kind)
		l.keep(l.last.Close)
	}
	if out, errs := l.streams[build.SpoolStdout].bytes, l.streams[build.SpoolStderr].bytes; out != trailer.Stdout || errs != trailer.Stderr {
		return fmt.Errorf("%w: it has %d and %d bytes of output, want %d and %d", build.ErrSpool, out, errs, trailer.Stdout, trailer.Stderr)
	}
	l.trailer = &trailer
	return nil
}

// turnTo makes a stream the last one, after the lines of the other one have been handed over, so that they keep their order.
func (l *Log) turnTo(kind build.SpoolKind) {
	if l.streams[kind] != l.last {
		l.put()
	}
	l.last = l.streams[kind]
}

// put hands the lines of the last stream to the sink.
func (l *Log) put() { l.keep(l.last.Put) }

// keep keeps the first error of the sink, after which nothing is handed to it.
func (l *Log) keep(handOver func() error) {
	if l.err == nil {
		l.err = handOver()
	}
}

// flush gives out begun lines.
func (l *Log) flush() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.trailer != nil {
		return
	}
	for _, s := range l.streams {
		l.keep(s.Flush)
	}
}
