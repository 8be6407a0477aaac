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

// hasty is a body with a deadline, which moves on as the body arrives.
type hasty struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time
	ended   bool
}

// hasten gives the request's body its deadline. The caller leaves the body when the request has been answered.
func hasten(w http.ResponseWriter, r *http.Request) *hasty {
	body := &hasty{ReadCloser: r.Body, control: http.NewResponseController(w), ended: r.Body == nil || r.Body == http.NoBody}
	if !body.ended {
		body.until = time.Now().Add(bodyPatience)
		body.deadline(body.until)
		r.Body = body
	}
	return body
}

func (b *hasty) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.ended = true
		b.deadline(time.Time{}) // an answer may take its time, and a client may follow it for days
	case n > 0:
		b.until = b.until.Add(time.Duration(n) * time.Second / bodyPace)
		b.deadline(b.until)
	}
	return n, err
}

// leave gives up what has not arrived: no connection waits for it.
func (b *hasty) leave() {
	if !b.ended {
		b.deadline(time.Unix(1, 0))
	}
}

// deadline is that of the connection's reads; a connection without any, as in tests, needs none.
func (b *hasty) deadline(at time.Time) { _ = b.control.SetReadDeadline(at) }
