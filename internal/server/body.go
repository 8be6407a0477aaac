package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// The time that a request's body may take: a fixed part and a part by its size. An upload of any size is fast enough. A client
// that sends nothing, or very slowly, loses its connection.
const (
	bodyPatience = 30 * time.Second
	bodyPace     = 16 << 10 // bytes per second
)

// timedBody is a body with a deadline, which each byte that arrives extends.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time

	begun    bool // some of it was read
	ended    bool
	answered bool // what is read from now on is passed over
}

// limitBodyTime gives the request's body its deadline. The caller abandons the body when the request has been answered.
func limitBodyTime(w http.ResponseWriter, r *http.Request) *timedBody {
	body := &timedBody{ReadCloser: r.Body, control: http.NewResponseController(w), ended: r.Body == nil || r.Body == http.NoBody}
	if !body.ended {
		body.until = time.Now().Add(bodyPatience)
		body.setDeadline(body.until)
		r.Body = body
	}
	return body
}

// lateBody is the error of a body whose deadline has passed.
type lateBody struct{ netError }

// netError is net.Error under another name, since embedding it as Error would hide its method Error.
type netError net.Error

func (lateBody) Error() string { return "the request's body did not arrive in time" }

// GetStatus returns the status of the answer, as a huma.StatusError.
func (lateBody) GetStatus() int { return http.StatusRequestTimeout }

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		err = lateBody{late}
	}
	b.begun = true
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, http.ErrBodyReadAfterClose): // package http has read the rest before it sent the answer
		b.ended = true
		b.setDeadline(time.Time{}) // the answer has no limit: a client may follow a stream for days
	case n > 0 && !b.answered:
		b.until = b.until.Add(time.Duration(n) * time.Second / bodyPace)
		b.setDeadline(b.until)
	}
	return n, err
}

// What is read of a body that was answered before it had arrived. A connection that is closed over unread bytes is reset, and a client
// that sends all before it reads never sees the answer.
const (
	drainMost  = 32 << 20               // bytes
	drainFor   = 5 * time.Second        // at most
	drainPause = 500 * time.Millisecond // without a byte
)

// abandon ends a body that has not fully arrived when its request has been answered: it sends the answer, and passes over a
// part of the rest. A client that waits to be asked for its body is not asked.
func (b *timedBody) abandon(expectsContinue bool) {
	if b.ended {
		return
	}
	if !expectsContinue || b.begun {
		b.setDeadline(time.Now().Add(drainPause)) // sending the answer may read a part, too
		_ = b.control.Flush()                     // a client that has gone needs no answer
		b.drain()
	}
	if !b.ended {
		b.setDeadline(time.Unix(1, 0))
	}
}

// drain discards the rest of the body.
func (b *timedBody) drain() {
	b.answered = true
	passed, until := 0, time.Now().Add(drainFor)
	for buffer := make([]byte, 32<<10); passed < drainMost; {
		now := time.Now()
		if !now.Before(until) {
			return
		}
		b.setDeadline(now.Add(drainPause))
		n, err := b.Read(buffer)
		if errors.Is(err, http.ErrBodyReadAfterClose) {
			// Sending the answer has read all of it, and the connection waits for the next request already.
			b.ended = true
			b.setDeadline(time.Time{})
		}
		if passed += n; err != nil {
			return
		}
	}
}

// setDeadline sets the deadline of the connection's reads. Connections of tests may not have one, which is not an error.
func (b *timedBody) setDeadline(at time.Time) { _ = b.control.SetReadDeadline(at) }

// ReadForm reads the form in a request's body, of at most limit bytes. Errors: fault.TooLarge, and fault.Invalid for a body
// that is not a form or ends early.
func ReadForm(w http.ResponseWriter, r *http.Request, limit int64) error {
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	err := r.ParseForm()
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return fault.New(fault.TooLarge, "the form has more than %d bytes", limit)
	}
	if err != nil {
		return fault.New(fault.Invalid, "read the form: %w", err)
	}
	return nil
}
