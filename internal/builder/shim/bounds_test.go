package shim_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/builder/shim"
	"github.com/waybill-dev/waybill/internal/listener/listenertest"
)

const given = "HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token + "\r\n"

// receive runs the init container of a pod, and give the container of its results.
func receive(ctx context.Context, p *pod, l net.Listener) error {
	return shim.Init(ctx, p.Config, os.Args[0], l)
}

func give(ctx context.Context, p *pod, l net.Listener) error { return shim.Serve(ctx, p.Config, l) }

func TestBoundsOfConnections(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		run      func(ctx context.Context, p *pod, l net.Listener) error
		answered string
	}{
		"init":  {receive, "GET " + shimv1.PathUpload + " " + given},
		"serve": {give, "GET " + shimv1.PathOutput + "?offset=0&follow=false " + given},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listenertest.Run(t, listenertest.Bounds{
				Serve:       func(ctx context.Context, t *testing.T, l net.Listener) error { return test.run(ctx, newPod(t), l) },
				Connections: 256, Header: 16 << 10, HeaderTime: 30 * time.Second, IdleTime: 30 * time.Second,
				Answered: test.answered + "\r\n",
				Bodies: map[string]time.Duration{
					"PUT " + shimv1.PathUpload + "?offset=0 HTTP/1.1\r\nHost: a\r\n":                           3 * time.Second,
					"POST " + shimv1.PathRelease + " HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer another\r\n": 3 * time.Second,
				},
			})
		})
	}
}

// TestAWorkspaceThatDoesNotComeEndsTheShim: no time of a body bounds it but the worker's silence.
func TestAWorkspaceThatDoesNotComeEndsTheShim(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		p, l, ended := newPod(t), bubbletest.Listen(), make(chan error, 1)
		go func() { ended <- receive(t.Context(), p, l) }()
		conn, began := l.Dial(), time.Now()
		if _, err := io.WriteString(conn, "PUT "+shimv1.PathUpload+"?offset=0 "+given+"Content-Length: 9\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn) // it is cut
		if err := <-ended; err == nil || err.Error() != "the worker has been silent for 1h0m0s" || time.Since(began) != p.Silence {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestAStuckReaderDoesNotKeepAShimThatIsDone: its request is cut, and the work has succeeded nevertheless.
func TestAStuckReaderDoesNotKeepAShimThatIsDone(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		p, l, ended := newPod(t), bubbletest.Listen(), make(chan error, 1)
		if err := os.WriteFile(filepath.Join(p.Folder, "output"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- give(t.Context(), p, l) }()
		stuck := l.Dial()
		if _, err := io.WriteString(stuck, "GET "+shimv1.PathOutput+"?offset=0&follow=false "+given+"\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began, worker := time.Now(), l.Dial()
		go func() {
			_, _ = io.WriteString(worker, "POST "+shimv1.PathRelease+" "+given+"Connection: close\r\n\r\n")
		}()
		if answer, err := io.ReadAll(worker); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
			t.Errorf("%q, %v", answer, err)
		}
		if err := <-ended; err != nil || time.Since(began) != 30*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if _, err := io.Copy(io.Discard, stuck); err != nil {
			t.Error(err)
		}
	})
}
