//go:build !linux

package command

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/attempt"
)

// open makes a pipe for each output, and returns a reader of both until they end. The outputs have no order among
// each other.
func (o *outputs) open() (read func(), err error) {
	var readers [2]*os.File
	for i := range readers {
		if readers[i], o.writers[i], err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	return func() {
		var both sync.WaitGroup
		for i, reader := range readers {
			both.Go(func() {
				defer reader.Close()
				o.readOne(i, reader)
			})
		}
		both.Wait()
	}, nil
}

// readOne reads one output until it ends. Once the step has ended, silence is the end too: a stray process may keep the pipe open.
func (o *outputs) readOne(i int, reader *os.File) {
	for {
		_ = reader.SetReadDeadline(time.Now().Add(attempt.OutputPause)) // pipes have deadlines
		buffer := o.buffer()
		n, err := reader.Read(buffer)
		o.chunks <- chunk{i, time.Now(), buffer[:n]}
		if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || o.hasEnded()) {
			return
		}
	}
}
