package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// TestProblemsOfBodiesHaveTheStatusOfTheirAnswer covers bodies that are refused before their operation sees them.
func TestProblemsOfBodiesHaveTheStatusOfTheirAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	if status, answer, _ := s.ask(t, "PUT", "/api/v1/pipelines/greeter", servertest.Definition, "Authorization", bearer,
		"If-Match", "0"); status != 200 {
		t.Fatal(status, answer)
	}
	for _, test := range []struct {
		name, method, path, kind, framing, body string
		status                                  int
		problem                                 string
	}{
		{"too large", "POST", "/api/v1/actions", "application/json", "Content-Length: 2000000",
			`{"handler":"` + strings.Repeat("x", 2_000_000-12), 413, "waybill:too_large"},
		{"far too large", "POST", "/api/v1/actions", "application/json", "Content-Length: 20000000",
			`{"handler":"` + strings.Repeat("x", 20_000_000-12), 413, "waybill:too_large"},
		{"unknown type", "POST", "/api/v1/actions", "text/csv", "Content-Length: 3", "a,b", 415, "waybill:unsupported_media_type"},
		{"malformed chunk", "POST", "/api/v1/actions", "application/json", "Transfer-Encoding: chunked",
			"zz\r\n{}\r\n0\r\n\r\n", 400, "waybill:invalid"},
		{"malformed chunk of an upload", "PUT", "/api/v1/pipelines/greeter/revisions/a/snapshot", "application/octet-stream",
			"Transfer-Encoding: chunked", "zz\r\n{}\r\n0\r\n\r\n", 400, "waybill:invalid"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// It writes all before it reads, as many clients do: a reset would lose the answer.
			_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: %s\r\nContent-Type: %s\r\n%s\r\n\r\n%s",
				test.method, test.path, bearer, test.kind, test.framing, test.body)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			var got operation.Problem
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			if response.StatusCode != test.status || got.Status != test.status || got.Type != test.problem {
				t.Errorf("got %s with %s, want %d and %s", response.Status, body, test.status, test.problem)
			}
			if wrong := test.status == http.StatusUnsupportedMediaType; wrong != strings.Contains(got.Hint, "Content-Type: application/json") {
				t.Errorf("the hint is %q", got.Hint)
			}
		})
	}
}

// TestARefusedBodyLeavesItsConnectionInOrder sends the body after the header, when the answer may have begun, and uses
// the connection again.
func TestARefusedBodyLeavesItsConnectionInOrder(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	read := bufio.NewReader(conn)
	ask := func(request string, body ...string) (int, bool) {
		for _, part := range append([]string{request}, body...) {
			if _, err := io.WriteString(conn, part); err != nil {
				t.Fatal(err)
			}
		}
		response, err := http.ReadResponse(read, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Close
	}
	for range 500 { // it is a race of the connection with its own reader
		status, closed := ask(
			"POST /api/v1/actions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer wrong\r\nContent-Length: 5\r\n\r\n", "he", "llo")
		if status != 401 || closed {
			t.Fatal(status, closed)
		}
		if status, _ := ask("GET /api/v1/pipelines HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: " + bearer + "\r\n\r\n"); status != 200 {
			t.Fatal("the next request: ", status)
		}
	}
}
