package provisioner_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// TestSilentConnectionsDoNotKeepOthersOut: they may be many, and each has five seconds.
func TestSilentConnectionsDoNotKeepOthersOut(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		listener, served := bubbletest.Listen(), make(chan error, 1)
		go func() { served <- newServer(&platform{}).Serve(ctx, listener) }()
		began := time.Now()
		silent := make([]net.Conn, 500)
		for i := range silent {
			silent[i] = listener.Dial()
		}
		caller := listener.Dial()
		go func() {
			_, _ = io.WriteString(caller, "GET /api/worker HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n")
		}()
		answer, err := http.ReadResponse(bufio.NewReader(caller), nil)
		if err != nil || answer.StatusCode != http.StatusOK || time.Since(began) != 0 {
			t.Errorf("%v, %v after %s", answer, err, time.Since(began))
		}
		_, _ = io.Copy(io.Discard, caller)
		for _, conn := range silent {
			if _, err := io.Copy(io.Discard, conn); err != nil || time.Since(began) != 5*time.Second {
				t.Fatalf("%v after %s", err, time.Since(began))
			}
		}
		stop()
		if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
