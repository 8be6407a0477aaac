package workspace

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// frameSize is the number of bytes that become one zstd frame. Frames are compressed side by side; a decoder reads them as one stream. The
// bytes do not depend on the number of processors.
const frameSize = 2 << 20

// compressor compresses what is written to it.
type compressor struct {
	encoder *zstd.Encoder
	plain   []byte // bytes of the frame that is being filled
	free    chan []byte
	queue   chan chan []byte // frames in their order, each of which yields its bytes
	done    chan error
	failed  atomic.Pointer[error] // error of the underlying writer; nil: it has written everything so far
	out     int64                 // bytes written, once done has yielded
}

func newCompressor(w io.Writer) (*compressor, error) {
	workers := runtime.GOMAXPROCS(0)
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	c := &compressor{encoder: encoder, free: make(chan []byte, workers+2), queue: make(chan chan []byte, workers), done: make(chan error, 1)}
	for range cap(c.free) {
		c.free <- nil
	}
	go c.write(w)
	return c, nil
}

// write writes finished frames in their order. After an error it discards them.
func (c *compressor) write(w io.Writer) {
	var failed error
	for frame := range c.queue {
		b := <-frame
		if failed != nil {
			continue
		}
		n, err := w.Write(b)
		c.out += int64(n)
		if failed = err; failed != nil {
			c.failed.Store(&failed)
		}
	}
	c.done <- failed
}

// Write takes the next bytes. An error of the underlying writer is returned by a later call, and by Close.
func (c *compressor) Write(p []byte) (int, error) {
	if failed := c.failed.Load(); failed != nil {
		return 0, *failed
	}
	n := len(p)
	for len(p) > 0 {
		if c.plain == nil {
			if c.plain = <-c.free; c.plain == nil {
				c.plain = make([]byte, 0, frameSize)
			}
		}
		take := min(len(p), frameSize-len(c.plain))
		c.plain = append(c.plain, p[:take]...)
		p = p[take:]
		if len(c.plain) == frameSize {
			c.flush()
		}
	}
	return n, nil
}

// flush has the present frame compressed.
func (c *compressor) flush() {
	plain, frame := c.plain, make(chan []byte, 1)
	c.plain = nil
	c.queue <- frame
	go func() {
		frame <- c.encoder.EncodeAll(plain, make([]byte, 0, frameSize/3))
		c.free <- plain[:0]
	}()
}

// Close compresses the rest and waits until everything is written.
func (c *compressor) Close() error {
	if len(c.plain) > 0 {
		c.flush()
	}
	close(c.queue)
	failed := <-c.done
	return cmp.Or(failed, c.encoder.Close())
}
