package listener_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/listener/listenertest"
)

// config returns bounds that every test may change.
func config(handler http.HandlerFunc) listener.Config {
	return listener.Config{Name: "the test", Handler: handler, Log: slog.New(slog.DiscardHandler), Connections: 3, Header: 16 << 10,
		HeaderTime: 10 * time.Second, IdleTime: time.Minute, Drain: 5 * time.Second}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	listenertest.Run(t, listenertest.Bounds{
		Serve: func(ctx context.Context, _ *testing.T, l net.Listener) error {
			c := config(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/refused" {
					listener.GiveUp(w)
				}
			})
			c.BodyTime, c.Drain = 20*time.Second, 7*time.Second
			return listener.Serve(ctx, l, c)
		},
		Connections: 3, Header: 16 << 10, HeaderTime: 10 * time.Second, IdleTime: time.Minute, Drain: 7 * time.Second,
		Answered: "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		Bodies: map[string]time.Duration{
			"POST /read HTTP/1.1\r\nHost: a\r\n":    21 * time.Second, // package http closes after half a second
			"POST /refused HTTP/1.1\r\nHost: a\r\n": 3 * time.Second,
		},
	})
}

// run serves on a listener, and returns a function that ends it and the error of Serve.
func run(ctx context.Context, l net.Listener, c listener.Config) (end context.CancelCauseFunc, served <-chan error) {
	ctx, end = context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() { ended <- listener.Serve(ctx, l, c) }()
	return end, ended
}

var errStop = errors.New("the test stops it")

// enter sends a request to a server in the bubble, and returns once its handler has it.
func enter(l bubbletest.Pipes, entered <-chan struct{}) net.Conn {
	conn := l.Dial()
	go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") }()
	<-entered
	return conn
}

func TestRequestsInFlightEnd(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		l, entered, ending := bubbletest.Listen(), make(chan struct{}), false
		c := config(func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-time.After(4 * time.Second) // four seconds of the bubble
			if r.Context().Err() != nil {
				t.Error("the context of the request has ended")
			}
			_, _ = io.WriteString(w, "done")
		})
		c.Ending = func() { ending = true }
		end, served := run(t.Context(), l, c)
		conn := enter(l, entered)
		end(errStop)
		answer, err := io.ReadAll(conn)
		if !strings.HasSuffix(string(answer), "done") {
			t.Errorf("answered %q, %v", answer, err)
		}
		if err := <-served; err != nil || !ending {
			t.Errorf("%v, called Ending: %t", err, ending)
		}
	})
}

func TestRequestsThatDoNotEndAreCut(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		l, entered, left := bubbletest.Listen(), make(chan struct{}), make(chan error, 1)
		c := config(func(_ http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-r.Context().Done()
			left <- context.Cause(r.Context())
		})
		end, served := run(t.Context(), l, c)
		conn, began := enter(l, entered), time.Now()
		end(errStop)
		err := <-served
		if err == nil || !errors.Is(err, listener.ErrSlow) || err.Error() != "end the test: requests took too long to end" ||
			time.Since(began) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		_, _ = io.Copy(io.Discard, conn) // it may have been reset
		if <-left; time.Since(began) != 5*time.Second {
			t.Errorf("the connection and its handler ended after %s", time.Since(began))
		}
	})
}

func TestStreamsEndAtOnceWithTheirContexts(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		l, entered, left := bubbletest.Listen(), make(chan struct{}), make(chan error, 1)
		type key struct{}
		c := config(func(_ http.ResponseWriter, r *http.Request) {
			if r.Context().Value(key{}) != "value" {
				t.Error("a request has not the values of the server's context")
			}
			entered <- struct{}{}
			<-r.Context().Done()
			left <- context.Cause(r.Context())
		})
		c.EndRequests = true
		end, served := run(context.WithValue(t.Context(), key{}, "value"), l, c)
		conn, began := enter(l, entered), time.Now()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		end(errStop)
		if cause := <-left; !errors.Is(cause, errStop) || !fault.Is(cause, fault.Interrupted) || time.Since(began) != 0 {
			t.Errorf("the request ended after %s with %v", time.Since(began), cause)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestWorkThatIsDone ends a server by Done: the end of its context cuts requests, before and after that.
func TestWorkThatIsDone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		takes           time.Duration // by the request
		canceled        time.Duration // time of the context's end; 0: never
		done            bool
		want            error
		after           time.Duration
		answered, alone bool // alone: without a request
	}{
		"done":                     {takes: 4 * time.Second, done: true, after: 4 * time.Second, answered: true},
		"done, and nothing asked":  {done: true, alone: true},
		"done, and a slow request": {takes: time.Hour, done: true, want: listener.ErrSlow, after: 5 * time.Second},
		"canceled":                 {takes: time.Hour, canceled: time.Second, want: errStop, after: time.Second},
		"canceled without request": {alone: true, canceled: time.Second, want: errStop, after: time.Second},
		"canceled during the end":  {takes: time.Hour, canceled: time.Second, done: true, want: errStop, after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				l, entered, done := bubbletest.Listen(), make(chan struct{}), make(chan struct{})
				c := config(func(w http.ResponseWriter, r *http.Request) {
					entered <- struct{}{}
					select {
					case <-time.After(test.takes):
					case <-r.Context().Done():
					}
					_, _ = io.WriteString(w, "done")
				})
				c.Done = done
				end, served := run(t.Context(), l, c)
				var conn net.Conn
				if !test.alone {
					conn = enter(l, entered)
				}
				began := time.Now()
				if test.done {
					close(done)
				}
				if test.canceled > 0 {
					time.AfterFunc(test.canceled, func() { end(errStop) })
				}
				var answer []byte
				read := make(chan struct{})
				go func() {
					defer close(read)
					if conn != nil {
						answer, _ = io.ReadAll(conn) // an error where it is cut
					}
				}()
				err := <-served
				if took := time.Since(began).Truncate(time.Second); !errors.Is(err, test.want) || took != test.after {
					t.Errorf("%v after %s, want %v after %s", err, took, test.want, test.after)
				}
				if errors.Is(test.want, errStop) && err != nil && err.Error() != errStop.Error() {
					t.Errorf("the cause of the end is wrapped: %v", err)
				}
				<-read
				if got := strings.HasSuffix(string(answer), "done"); got != test.answered {
					t.Errorf("answered %q", answer)
				}
			})
		})
	}
}

// failing is a listener that cannot accept.
type failing struct{ bubbletest.Pipes }

func (failing) Accept() (net.Conn, error) { return nil, errStop }

func TestAListenerThatFailsEndsTheServer(t *testing.T) {
	t.Parallel()
	err := listener.Serve(t.Context(), failing{bubbletest.Listen()}, config(nil))
	if err == nil || !errors.Is(err, errStop) || err.Error() != "serve the test: "+errStop.Error() {
		t.Error(err)
	}
}

// TestARefusalDoesNotWaitForTheBody: it is answered at once, and its connection ends.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		l := bubbletest.Listen()
		end, served := run(t.Context(), l, config(func(w http.ResponseWriter, _ *http.Request) {
			listener.GiveUp(w)
			http.Error(w, "no", http.StatusForbidden)
		}))
		conn, began := l.Dial(), time.Now()
		go func() { _, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx") }()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusForbidden || !answer.Close || time.Since(began) != 0 {
			t.Errorf("%s after %s, closes: %t", answer.Status, time.Since(began), answer.Close)
		}
		_, _ = io.Copy(io.Discard, conn) // it may be reset
		end(errStop)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestSlowHTTP2 sends the beginnings of a connection of HTTP/2, each of which holds the connection for a bounded time.
func TestSlowHTTP2(t *testing.T) {
	t.Parallel()
	settings := func(w io.Writer) error {
		_, err := io.WriteString(w, http2.ClientPreface)
		return errors.Join(err, http2.NewFramer(w, nil).WriteSettings())
	}
	for name, test := range map[string]struct {
		begin func(w io.Writer) error
		most  time.Duration
	}{
		"a part of the preface": {func(w io.Writer) error {
			_, err := io.WriteString(w, http2.ClientPreface[:10])
			return err
		}, 10 * time.Second},
		"no settings": {func(w io.Writer) error {
			_, err := io.WriteString(w, http2.ClientPreface)
			return err
		}, time.Minute},
		"no request": {settings, time.Minute},
		"a header that does not end": {func(w io.Writer) error {
			return errors.Join(settings(w), http2.NewFramer(w, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}}))
		}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				l := bubbletest.Listen()
				c := config(func(http.ResponseWriter, *http.Request) { t.Error("a request was answered") })
				c.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 4}
				end, served := run(t.Context(), l, c)
				conn, began := l.Dial(), time.Now()
				go func() { _ = test.begin(conn) }() // an error where the server closes early
				_, _ = io.Copy(io.Discard, conn)
				if took := time.Since(began); took == 0 || took > test.most+2*time.Second { // a connection ends after its last frame
					t.Errorf("the connection lived for %s, want %s", took, test.most)
				}
				end(errStop)
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// records collects log records.
type records struct {
	sync.Mutex
	bytes.Buffer
}

func (r *records) Write(p []byte) (int, error) {
	r.Lock()
	defer r.Unlock()
	return r.Buffer.Write(p)
}

// TestRealPorts serves over TCP and a Unix socket: by HTTP/1, and by HTTP/2 where that is wanted.
func TestRealPorts(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		for name, with := range map[string]*http.HTTP2Config{"HTTP/1 only": nil, "HTTP/2": {MaxConcurrentStreams: 4}} {
			t.Run(network+" "+name, func(t *testing.T) {
				t.Parallel()
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
				if err != nil {
					t.Fatal(err)
				}
				var log records
				c := config(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/panic" {
						panic("of the handler")
					}
					_, _ = io.WriteString(w, r.Proto)
				})
				c.Log, c.HTTP2 = slog.New(slog.NewTextHandler(&log, nil)), with
				end, served := run(t.Context(), l, c)
				if text, err := get(t, l.Addr(), "/", false); text != "HTTP/1.1" {
					t.Errorf("by HTTP/1: %q, %v", text, err)
				}
				if text, err := get(t, l.Addr(), "/", true); (text == "HTTP/2.0") != (with != nil) {
					t.Errorf("by HTTP/2: %q, %v", text, err)
				}
				if text, err := get(t, l.Addr(), "/panic", false); err == nil {
					t.Errorf("a panic was answered with %q", text)
				}
				end(errStop)
				if err := <-served; err != nil {
					t.Error(err)
				}
				if conn, err := net.Dial(network, l.Addr().String()); err == nil {
					_ = conn.Close()
					t.Error("the port is still open")
				}
				if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "of the handler") {
					t.Errorf("logged %q", text)
				}
			})
		}
	}
}

// get asks a server by one version of HTTP, over a connection of its own.
func get(t *testing.T, address net.Addr, path string, second bool) (string, error) {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!second)
	protocols.SetUnencryptedHTTP2(second)
	transport := &http.Transport{Protocols: protocols, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, address.Network(), address.String())
		}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://test"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// counting counts the connections of a listener that are open.
type counting struct {
	net.Listener
	mu         sync.Mutex
	open, most int
}

type counted struct {
	net.Conn
	close func()
}

func (c counted) Close() error {
	c.close()
	return c.Conn.Close()
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.add(1)
	return counted{conn, sync.OnceFunc(func() { c.add(-1) })}, nil
}

func (c *counting) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	c.most = max(c.most, c.open)
}

// TestManyRealConnectionsWait: all clients of a crowd are answered, and few at a time are served.
func TestManyRealConnectionsWait(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counts := &counting{Listener: l}
	end, served := run(t.Context(), counts, config(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }))
	var crowd []net.Conn
	for range 60 { // before the first one asks
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		crowd = append(crowd, conn)
	}
	for _, conn := range crowd {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(answer.Body); string(text) != "done" {
			t.Fatalf("%q, %v", text, err)
		}
		_ = conn.Close()
	}
	end(errStop)
	if err := <-served; err != nil {
		t.Error(err)
	}
	counts.mu.Lock()
	defer counts.mu.Unlock()
	if counts.most != 3 || counts.open != 0 {
		t.Errorf("%d connections at a time, want 3; %d are open", counts.most, counts.open)
	}
}
