package attempt

import (
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/mask"
)

// OutputPause is the age at which a begun line is given out: it may be a prompt, or show progress. The caller of an
// Output calls Flush after so much silence; while bytes come, the Output does it on its own.
const OutputPause = time.Second

// Output takes the bytes of one of a step's two outputs and hands them to a sink as entries, without
// passwords. It must not be used concurrently.
type Output struct {
	sink   build.Sink
	stderr bool
	masked mask.Stream
	framer build.Framer
	at     time.Time // time of the lines that are taken; zero: that of the sink
	begun  time.Time // time of the begun line, or of its last part that was given out; zero: no line is begun
	taken  []build.Entry
	texts  []byte // those of taken: the framer reuses its own
}

// NewOutput returns a writer for the bytes of standard output, or of standard error. secrets may be nil.
func NewOutput(sink build.Sink, stderr bool, secrets *mask.Set) *Output {
	return &Output{sink: sink, stderr: stderr, masked: mask.Stream{Set: secrets}}
}

// Write stores the lines that data completes; it becomes one write of the log.
func (o *Output) Write(data []byte) (int, error) {
	o.write(data, time.Now())
	return len(data), o.Put()
}

// Take keeps the lines that data completes until the next Put, with the time at which they were printed.
func (o *Output) Take(data []byte, at time.Time) {
	o.at = at
	o.write(data, at)
}

// write makes entries of data, which was printed now, also of a line that has been open for a while.
func (o *Output) write(data []byte, now time.Time) {
	o.masked.Write(data, o.cut)
	switch {
	case !o.framer.Begun():
		o.begun = time.Time{}
	case o.begun.IsZero():
		o.begun = now
	case now.Sub(o.begun) >= OutputPause:
		o.framer.Flush(o.emit)
		o.begun = now
	}
}

// Put stores the lines that were taken.
func (o *Output) Put() error {
	if len(o.taken) == 0 {
		return nil
	}
	err := o.sink.Output(o.taken)
	o.taken, o.texts = o.taken[:0], o.texts[:0]
	return err
}

// Flush gives out a line that has begun.
func (o *Output) Flush() error {
	o.masked.Flush(o.cut)
	o.framer.Flush(o.emit)
	return o.Put()
}

// Close gives out the rest at the end of the stream.
func (o *Output) Close() error {
	o.masked.Close(o.cut)
	o.framer.Close(o.emit)
	return o.Put()
}

func (o *Output) cut(data []byte) { o.framer.Write(data, o.emit) }

func (o *Output) emit(e build.Entry) {
	o.begun = time.Time{}
	o.texts = append(o.texts, e.Text...)
	e.Text, e.At, e.Stderr = o.texts[len(o.texts)-len(e.Text):], o.at, o.stderr
	o.taken = append(o.taken, e)
}
