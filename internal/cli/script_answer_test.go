package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// answer NAME STATUS[:BODY]… starts a target on loopback that gives these answers, one to each request and the last
// one ever after; hang answers nothing until the client goes away. $NAME becomes its host and port; the request is in
// the file NAME, the headers in NAME.headers.
func answer(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: answer NAME STATUS[:BODY]…")
	}
	var mu sync.Mutex
	next, asked := args[1:], ts.MkAbs(args[0])
	take := func(r *http.Request) (status, text string) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body) // a client that went away is not the target's fault
		file, err := os.OpenFile(asked, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintf(file, "%s %s %s\n", r.Method, r.URL, body)
			file.Close()
		}
		headers, err := os.OpenFile(asked+".headers", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_ = r.Header.Write(headers) // the story misses the missing file
			headers.Close()
		}
		status, text, _ = strings.Cut(next[0], ":")
		if len(next) > 1 {
			next = next[1:]
		}
		return status, text
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, text := take(r)
		if status == "hang" {
			<-r.Context().Done()
			return
		}
		code, err := strconv.Atoi(status)
		if err != nil {
			code = http.StatusNotImplemented
		}
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], strings.TrimPrefix(server.URL, "http://"))
}
