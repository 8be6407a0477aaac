package server

import (
	"errors"
	"io"
	"net/http"
	"time"
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
	ended   bool
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

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.ended = true
		b.setDeadline(time.Time{}) // the answer has no limit: a client may follow a stream for days
	case n > 0:
		b.until = b.until.Add(time.Duration(n) * time.Second / bodyPace)
		b.setDeadline(b.until)
	}
	return n, err
}

// abandon ends the reading of a body that has not fully arrived, so that the connection does not wait for it.
func (b *timedBody) abandon() {
	if !b.ended {
		b.setDeadline(time.Unix(1, 0))
	}
}

// setDeadline sets the deadline of the connection's reads. Connections of tests may not have one, which is not an error.
func (b *timedBody) setDeadline(at time.Time) { _ = b.control.SetReadDeadline(at) }
