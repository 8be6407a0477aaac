package client

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
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

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
	if got := <-sent; !errors.Is(err, ErrUnproven) || got > mostAnswerHeader {
		t.Errorf("read %d bytes, %v", got, err)
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
				c := New("http://waybill.example", "", "ana")
				c.open = newLine("", func(context.Context, string, string) (net.Conn, error) { return listener.Dial(), nil })
				began := time.Now()
				_, err := operation.ListPipelines.Call(t.Context(), c, operation.Nothing{})
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
	c := New(server.URL, "", "ana")
	if _, err := operation.ListPipelines.Call(t.Context(), c, operation.Nothing{}); !fault.Is(err, fault.Unavailable) ||
		!errors.Is(err, errTooLong) {
		t.Errorf("a list: %v", err)
	}
	ask := request{method: http.MethodGet, path: "/pipelines/a/log", query: url.Values{}, accept: "text/event-stream"}
	err := c.followStream(t.Context(), ask, func(string, string) (bool, error) { return true, nil })
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "an event has more than") {
		t.Errorf("a stream: %v", err)
	}
}

// TestAnEmptyAnswerIsNoSuccess: a program that answers everything with 200 has canceled nothing.
func TestAnEmptyAnswerIsNoSuccess(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"null": "it lacks the field id", "{}\n": "it lacks the field id", "{\"id\":\"x\"}": "\"x\""} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		_, err := operation.CancelAction.Call(t.Context(), New(s.URL, "", "ana"), operation.ActionPath{ID: "x"})
		s.Close()
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer s.Close()
	if _, err := operation.DeleteBuild.Call(t.Context(), New(s.URL, "", "ana"), operation.BuildPath{ID: "1"}); err != nil {
		t.Error(err)
	}
}

// TestAServerThatEndsDoesNotInterruptItsClient: a command that was interrupted itself ends without a message.
func TestAServerThatEndsDoesNotInterruptItsClient(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"type":"waybill:interrupted","status":503,"detail":"this process is stopping"}`)
	}))
	defer s.Close()
	_, err := operation.CancelAction.Call(t.Context(), New(s.URL, "", "ana"), operation.ActionPath{ID: "x"})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "this process is stopping") {
		t.Errorf("%v has the code %s", err, fault.CodeOf(err))
	}
}
