package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// How fast a request's body has to arrive: it may take a while, and then has to keep a pace on average. An upload of any
// size keeps it; a client that sends nothing, or drips, loses its connection.
const (
	bodyPatience = 30 * time.Second
	bodyPace     = 16 << 10 // bytes a second
)

// timedBody is a body with a deadline, which moves on as the body arrives.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time
	ended   bool
}

// limitBodyTime gives the request's body its deadline. The caller leaves the body when the request has been answered.
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
		b.setDeadline(time.Time{}) // an answer may take its time, and a client may follow it for days
	case n > 0:
		b.until = b.until.Add(time.Duration(n) * time.Second / bodyPace)
		b.setDeadline(b.until)
	}
	return n, err
}

// abandon gives up what has not arrived: no connection waits for it.
func (b *timedBody) abandon() {
	if !b.ended {
		b.setDeadline(time.Unix(1, 0))
	}
}

// setDeadline is that of the connection's reads; a connection without any, as in tests, needs none.
func (b *timedBody) setDeadline(at time.Time) { _ = b.control.SetReadDeadline(at) }
