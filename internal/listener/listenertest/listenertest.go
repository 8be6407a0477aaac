// Package listenertest has the suite of bounds that every user of package listener passes. It runs in
// bubbles of virtual time, so a bound of minutes takes none.
package listenertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// Bounds are those that a user of package listener promises.
type Bounds struct {
	// Serve makes a server in the bubble of a test and runs it on the listener until ctx ends.
	Serve func(ctx context.Context, t *testing.T, l net.Listener) error

	Connections int           // at a time
	Header      int           // bytes
	HeaderTime  time.Duration // bounds the header of a request
	IdleTime    time.Duration // between two requests
	Drain       time.Duration // bounds requests in flight; 0: the end of ctx cuts them

	// Answered is a request as text that gets a whole answer, after which the connection stays open.
	Answered string
	// Bodies are headers of requests with the field "Content-Length: 200000", whose bodies do not come;
	// the value is how long their connections live at most.
	Bodies map[string]time.Duration
}

// Run runs the suite.
func Run(t *testing.T, b Bounds) {
	for name, test := range map[string]func(t *testing.T, s *served){
		"a connection without a request": b.silent,
		"a header that drips":            b.drip,
		"a large header":                 b.large,
		"an idle connection":             b.idle,
		"bodies that do not come":        b.bodies,
		"more connections than may be":   b.crowd,
		"a header at the end":            b.end,
		"a silent connection at the end": b.quiet,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				test(t, b.start(t))
			})
		})
	}
}

// served is a server that runs in a bubble.
type served struct {
	dial func() net.Conn
	stop func() error // ends the server and returns the error of Serve
}

// start runs a server, which the end of the test stops.
func (b Bounds) start(t *testing.T) *served {
	listener := bubbletest.Listen()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx, t, listener) }()
	stop := func() error {
		cancel(errors.New("the test is over"))
		err := <-ended
		ended <- nil
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return &served{listener.Dial, stop}
}

// lives returns how long a connection stays open for a client that only reads.
func lives(conn net.Conn) time.Duration {
	began := time.Now()
	_, _ = io.Copy(io.Discard, conn) // a connection may also be reset
	return time.Since(began)
}

func (b Bounds) silent(t *testing.T, s *served) {
	if got := lives(s.dial()); got != b.HeaderTime {
		t.Errorf("the connection lived for %s, want %s", got, b.HeaderTime)
	}
}

func (b Bounds) drip(t *testing.T, s *served) {
	conn, began := s.dial(), time.Now()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
	for err == nil {
		<-time.After(time.Second) // a second of the bubble
		_, err = io.WriteString(conn, "x")
	}
	if got := time.Since(began); got < b.HeaderTime || got > b.HeaderTime+time.Second {
		t.Errorf("the connection lived for %s, want %s", got, b.HeaderTime)
	}
}

func (b Bounds) large(t *testing.T, s *served) {
	const slack = 8 << 10 // package http allows a part of it
	for size, want := range map[int]bool{b.Header - slack: true, b.Header + slack: false} {
		status, _ := ask(t, s.dial(), strings.Replace(b.Answered, "\r\n", "\r\nX-Large: "+strings.Repeat("x", size)+"\r\n", 1))
		if accepted := status != http.StatusRequestHeaderFieldsTooLarge; accepted != want {
			t.Errorf("a header of %d bytes: %d", size, status)
		}
	}
}

func (b Bounds) idle(t *testing.T, s *served) {
	conn := s.dial()
	status, closes := ask(t, conn, b.Answered)
	if got := lives(conn); closes || got != b.IdleTime {
		t.Errorf("the connection lived for %s after %d, want %s", got, status, b.IdleTime)
	}
}

func (b Bounds) bodies(t *testing.T, s *served) {
	for header, want := range b.Bodies {
		for _, body := range []string{"", "x"} {
			conn := s.dial()
			go func() { _, _ = io.WriteString(conn, header+"Content-Length: 200000\r\n\r\n"+body) }()
			if got := lives(conn); got > want {
				t.Errorf("with %q of the body the connection lived for %s, want %s at most, of %q", body, got, want, header)
			}
		}
	}
}

// crowd opens as many connections as may be, and one more.
func (b Bounds) crowd(t *testing.T, s *served) {
	began := time.Now()
	first := s.dial()
	for range b.Connections - 1 {
		conn := s.dial()
		defer conn.Close()
	}
	var late net.Conn
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		late = s.dial()
	}()
	synctest.Wait()
	select {
	case <-accepted:
		t.Errorf("more than %d connections are served", b.Connections)
	default:
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	<-accepted
	if status, _ := ask(t, late, b.Answered); time.Since(began) != 0 {
		t.Errorf("a place that was left was given away after %s: %d", time.Since(began), status)
	}
}

// end stops the server while a request is in flight, the header of which does not end. Nothing but Drain bounds that within HeaderTime.
func (b Bounds) end(t *testing.T, s *served) {
	conn := s.dial()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	began := time.Now()
	err := s.stop()
	if most := min(b.Drain, b.HeaderTime); time.Since(began) > most+time.Second { // the end is searched for twice a second
		t.Errorf("the server ended after %s, want %s: %v", time.Since(began), most, err)
	}
	if lives(conn) != 0 {
		t.Error("the connection outlived the server")
	}
}

// quiet stops the server while a new connection has sent nothing: no request is in flight, so the end is
// a good one.
func (b Bounds) quiet(t *testing.T, s *served) {
	conn := s.dial()
	synctest.Wait()
	if err := s.stop(); err != nil && b.Drain > 0 {
		t.Errorf("a connection without a request kept the server from its end: %v", err)
	}
	if lives(conn) != 0 {
		t.Error("the connection outlived the server")
	}
}

// ask writes a request and reads its whole answer. It returns the status, and whether the answer closes the connection.
func ask(t *testing.T, conn net.Conn, request string) (status int, closes bool) {
	t.Helper()
	go func() { _, _ = io.WriteString(conn, request) }()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(fmt.Errorf("read the answer of %.80q: %w", request, err))
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Close
}
