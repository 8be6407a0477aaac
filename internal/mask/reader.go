package mask

import (
	"errors"
	"io"
)

// Reader returns a reader of in, without secrets.
func (s *Set) Reader(in io.Reader) io.Reader {
	if s == nil {
		return in
	}
	return &reader{in: in, stream: Stream{Set: s}, buffer: make([]byte, 32<<10)}
}

type reader struct {
	in     io.Reader
	stream Stream
	buffer []byte // buffer of one read
	out    []byte // decided, and not yet read
	err    error  // after out
}

func (r *reader) Read(p []byte) (int, error) {
	emit := func(b []byte) { r.out = append(r.out, b...) }
	for len(r.out) == 0 && r.err == nil {
		r.out = r.out[:0:cap(r.out)]
		var n int
		n, r.err = r.in.Read(r.buffer)
		r.stream.Write(r.buffer[:n], emit)
		if errors.Is(r.err, io.EOF) {
			r.stream.Close(emit)
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	if len(r.out) > 0 || n > 0 {
		return n, nil
	}
	return 0, r.err
}
