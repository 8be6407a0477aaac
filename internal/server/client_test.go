package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
)

const homesToken = "wb_the-token-of-the-home"

// receiver notes the tokens that a program receives.
type receiver struct {
	mu     sync.Mutex
	tokens []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, ask *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = append(r.tokens, ask.Header.Get("Authorization"))
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "[]")
}

func (r *receiver) got() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.tokens, ",")
}

// TestTheAnswerToTheQuestionForAProofIsBounded: a program that has taken the port may answer with a header that does not end.
func TestTheAnswerToTheQuestionForAProofIsBounded(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	sent := make(chan int)
	go func() {
		defer func() { _ = theirs.Close() }()
		total := 0
		_, err := http.ReadRequest(bufio.NewReader(theirs))
		if err == nil {
			_, err = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nX: ")
		}
		for err == nil && total < 100*mostAnswerHeader {
			var n int
			n, err = theirs.Write(make([]byte, mostAnswerHeader))
			total += n
		}
		sent <- total
	}()
	err := requireProof(ours, &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, "wb_the-token-of-the-home")
	_ = ours.Close()
	if got := <-sent; !errors.Is(err, errUnproven) || got > mostAnswerHeader {
		t.Errorf("read %d bytes, %v", got, err)
	}
}

// TestTheHomesTokenIsSentOnceTheServerHasProvedThatItHasIt: a program that has taken the port gets no token, whatever it answers, and
// also when it passes the question on to the server. One that takes the port later gets none either.
func TestTheHomesTokenIsSentOnceTheServerHasProvedThatItHasIt(t *testing.T) {
	t.Parallel()
	var real receiver
	own := httptest.NewServer(newAccess(homesToken, nil, "127.0.0.1:0", nil, &real))
	defer own.Close()
	c := NewHomeClient(own.URL, homesToken, "ana")
	for range 2 {
		if _, err := ListPipelines.Call(t.Context(), c, Nothing{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.TrimLeft(real.got(), ","), "Bearer "+homesToken+",Bearer "+homesToken; got != want {
		t.Errorf("the home's server got %q, want %q", got, want)
	}
	for name, answer := range map[string]func(*receiver) http.Handler{
		"another program": func(r *receiver) http.Handler { return r },
		"another home": func(r *receiver) http.Handler {
			return newAccess("wb_another-home-s-token", nil, "127.0.0.1:0", nil, r)
		},
		"one that passes the question on": func(r *receiver) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, ask *http.Request) {
				if ask.URL.Path != "/healthz" {
					r.ServeHTTP(w, ask)
					return
				}
				next, err := http.NewRequestWithContext(ask.Context(), ask.Method, own.URL+"/healthz", nil)
				if err != nil {
					t.Error(err)
					return
				}
				next.Header, next.Host = ask.Header.Clone(), ask.Host
				got, err := http.DefaultClient.Do(next)
				if err != nil {
					t.Error(err)
					return
				}
				defer got.Body.Close()
				w.Header().Set(proofHeader, got.Header.Get(proofHeader))
			})
		},
	} {
		var fake receiver
		server := httptest.NewServer(answer(&fake))
		_, err := ListPipelines.Call(t.Context(), NewHomeClient(server.URL, homesToken, "ana"), Nothing{})
		server.Close()
		if got := strings.Trim(fake.got(), ","); err != nil || got != "" {
			t.Errorf("%s got %q, %v", name, got, err)
		}
	}
}

// TestATokenIsNotSentToATakenPort: the server ends, and another program takes its port.
func TestATokenIsNotSentToATakenPort(t *testing.T) {
	t.Parallel()
	own := httptest.NewServer(newAccess(homesToken, nil, "127.0.0.1:0", nil, new(receiver)))
	c := NewHomeClient(own.URL, homesToken, "ana")
	if _, err := ListPipelines.Call(t.Context(), c, Nothing{}); err != nil {
		t.Fatal(err)
	}
	own.Close()
	taken, err := net.Listen("tcp", own.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var fake receiver
	program := &httptest.Server{Listener: taken, Config: &http.Server{Handler: &fake}}
	program.Start()
	defer program.Close()
	if _, err := ListPipelines.Call(t.Context(), c, Nothing{}); !fault.Is(err, fault.Unavailable) || !errors.Is(err, errUnproven) {
		t.Errorf("got %v", err)
	}
	if got := strings.Trim(fake.got(), ","); got != "" {
		t.Errorf("the program got %q", got)
	}
}

// TestRedirectsStayAtTheServer: a redirect to another port would take the token along.
func TestRedirectsStayAtTheServer(t *testing.T) {
	t.Parallel()
	var fake receiver
	other := httptest.NewServer(&fake)
	defer other.Close()
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/pipelines":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/here":
			_, _ = io.WriteString(w, "[]")
		default:
			http.Redirect(w, r, other.URL+"/there", http.StatusFound)
		}
	}))
	defer own.Close()
	c := NewClient(own.URL, "wb_given", "ana")
	if _, err := ListPipelines.Call(t.Context(), c, Nothing{}); err != nil {
		t.Errorf("a redirect to the same place: %v", err)
	}
	if _, err := GetStatus.Call(t.Context(), c, Nothing{}); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "it redirects to http://127.0.0.1:") {
		t.Errorf("a redirect to another port: %v", err)
	}
	if got := fake.got(); got != "" {
		t.Errorf("the other port got %q", got)
	}
}

// TestAnswersAreBounded: a server that sends forever, or nothing, ends a command with fault.Unavailable.
func TestAnswersAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		answer string // before silence
		want   string
	}{
		"silence":           {"", "timeout awaiting response headers"},
		"a header and rest": {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[", "read the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				listener := bubbletest.Listen()
				defer listener.Close()
				go func() {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					// A client drops a connection that answers before its request.
					if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
						return
					}
					_, _ = io.WriteString(conn, test.answer)
				}()
				c := NewClient("http://waybill.example", "", "ana")
				c.open = newLine("", func(context.Context, string, string) (net.Conn, error) { return listener.Dial(), nil })
				began := time.Now()
				_, err := ListPipelines.Call(t.Context(), c, Nothing{})
				if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), test.want) || time.Since(began) > 3*time.Minute {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				c.open.quick.CloseIdleConnections()
				synctest.Wait()
			})
		})
	}
}

// TestALongAnswerIsCut: what a command reads whole has a bound.
func TestALongAnswerIsCut(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := "["
		if strings.HasSuffix(r.URL.Path, "/log") {
			kind = "data: "
		}
		for _, err := io.WriteString(w, kind); err == nil; {
			_, err = fmt.Fprint(w, strings.Repeat(" ", 1<<16))
		}
	}))
	defer server.Close()
	c := NewClient(server.URL, "", "ana")
	if _, err := ListPipelines.Call(t.Context(), c, Nothing{}); !fault.Is(err, fault.Unavailable) || !errors.Is(err, errTooLong) {
		t.Errorf("a list: %v", err)
	}
	ask := request{method: http.MethodGet, path: "/pipelines/a/log", query: url.Values{}, accept: "text/event-stream"}
	err := c.followStream(t.Context(), ask, func(string, string) (bool, error) { return true, nil })
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "an event has more than") {
		t.Errorf("a stream: %v", err)
	}
}
