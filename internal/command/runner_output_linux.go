package command

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/attempt"
)

// open makes a pipe for each output, and returns a reader of both until they end.
//
// One reader takes them in the order in which the kernel has found them ready (epoll's list is first in, first out),
// so a write to one output and a write to the other that follows it keep their order. Bytes that a program writes to
// one output while the reader is not running are read at once, even if it wrote to the other in between: pipes have no
// times.
func (o *outputs) open() (read func(), err error) {
	r := &readiness{o: o}
	defer func() {
		if err != nil {
			r.close()
			for _, writer := range o.writers {
				_ = writer.Close() // not used
			}
		}
	}()
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(poll, true); err != nil { // so that Go's own poller waits for it
		return nil, errors.Join(err, unix.Close(poll))
	}
	r.poll = os.NewFile(uintptr(poll), "epoll")
	for i := range o.writers {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return nil, err
		}
		r.readers, o.writers[i] = append(r.readers, ends[0]), os.NewFile(uintptr(ends[1]), "output")
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(i)} //nolint:gosec // 0 or 1
		if err := errors.Join(unix.SetNonblock(ends[0], true), unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, ends[0], &event)); err != nil {
			return nil, err
		}
	}
	return r.run, nil
}

// readiness reads both outputs in the order in which they are ready.
type readiness struct {
	o       *outputs
	poll    *os.File
	readers []int
	open    int // outputs that have not ended
}

func (r *readiness) close() {
	if r.poll != nil {
		_ = r.poll.Close() // only waited for
	}
	for _, reader := range r.readers {
		_ = unix.Close(reader) // only read
	}
}

// run reads until both outputs have ended. Once the step has ended, silence is the end too: without a
// subreaper a stray process may keep a pipe open.
func (r *readiness) run() {
	defer r.close()
	ready, err := r.poll.SyscallConn()
	if err != nil {
		return
	}
	for r.open = len(r.readers); r.open > 0; {
		_ = r.poll.SetReadDeadline(time.Now().Add(attempt.OutputPause)) // it is polled
		var events [2]unix.EpollEvent
		n := 0
		err := ready.Read(func(fd uintptr) bool {
			n, err = unix.EpollWait(int(fd), events[:], 0)
			return n > 0
		})
		switch {
		case err == nil:
			r.take(events[:n])
		case errors.Is(err, os.ErrDeadlineExceeded) && !r.o.hasEnded():
		default:
			return
		}
	}
}

// take reads the ready bytes once, since later ones are found ready again; at the end of an output it reads all.
func (r *readiness) take(events []unix.EpollEvent) {
	for _, event := range events {
		for more := true; more; {
			buffer := r.o.buffer()
			n, err := unix.Read(r.readers[event.Fd], buffer)
			if n > 0 {
				r.o.chunks <- chunk{int(event.Fd), time.Now(), buffer[:n]}
			} else {
				r.o.free <- buffer
			}
			switch more = n == len(buffer) || event.Events&unix.EPOLLHUP != 0; {
			case errors.Is(err, unix.EINTR):
				more = true
			case errors.Is(err, unix.EAGAIN):
				more = false
			case n <= 0:
				r.open--
				more = false
			}
		}
	}
}
