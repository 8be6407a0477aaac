package api

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestADeadReaderLosesItsConnection: its request ends, so that it takes no place of a living one.
func TestADeadReaderLosesItsConnection(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	server := httptest.NewServer(answered(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				ended <- err
				return
			}
		}
	}), 10*time.Millisecond))
	defer server.Close()
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: worker\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the reader took everything without reading")
	}
}
