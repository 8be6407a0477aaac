package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/builder/worker/api"
	"github.com/waybill-dev/waybill/internal/childtest"
)

// waiting is an inbox that a real server serves.
type waiting struct {
	t     *testing.T
	inbox *api.Inbox
	addr  string
	path  string // path of the file
}

// await serves an inbox that waits for bytes.
func await(t *testing.T, snapshot string) *waiting {
	t.Helper()
	sum := sha256.Sum256([]byte(snapshot))
	w := &waiting{t: t, path: filepath.Join(t.TempDir(), "snapshot")}
	var err error
	w.inbox, err = api.NewInbox(api.InboxConfig{Path: w.path, Token: token, Log: slog.New(slog.DiscardHandler),
		Push: provisionerv1.Push{Size: int64(len(snapshot)), SHA256: hex.EncodeToString(sum[:])}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.inbox.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return w
}

// ask makes a request with a token and returns the status and the answer.
func (w *waiting) ask(method, path, with string, body io.Reader) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.addr+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if with != "" {
		r.Header.Set("Authorization", "Bearer "+with)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(text))
}

// want makes a request and compares the answer.
func (w *waiting) want(method, path, body string, status int, text string) {
	w.t.Helper()
	gotStatus, got := w.ask(method, path, token, strings.NewReader(body))
	if gotStatus != status || !strings.Contains(got, text) {
		w.t.Errorf("%s %s: %d %s, want %d %s", method, path, gotStatus, got, status, text)
	}
}

func TestASnapshotComesInParts(t *testing.T) {
	t.Parallel()
	w := await(t, "0123456789")
	w.want("GET", "/api/workspace", "", 200, `{"received":0,"size":10,"done":false}`)
	w.want("PUT", "/api/workspace?offset=0", "0123", 200, `{"received":4,"size":10,"done":false}`)
	w.want("PUT", "/api/workspace?offset=0", "0123", 409, "offset 0 does not fit: 4 bytes have come; continue there")
	w.want("PUT", "/api/workspace?offset=5", "56789", 409, "offset 5 does not fit: 4 bytes have come")
	w.want("PUT", "/api/workspace?offset=4", "4567890", 413, "7 bytes from offset 4 are more than the snapshot's 10")
	w.want("PUT", "/api/workspace", "456789", 400, "offset: want the number of the first byte")
	w.want("PUT", "/api/workspace?offset=-1", "456789", 400, "offset: want the number of the first byte")
	if status, text := w.ask("PUT", "/api/workspace?offset=4", token, io.MultiReader(strings.NewReader("456789"))); status != 411 {
		t.Errorf("without a length: %d %s", status, text)
	}
	w.want("PUT", "/api/workspace?offset=4", "456789", 200, `{"received":10,"size":10,"done":true}`)
	if err := w.inbox.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	w.want("PUT", "/api/workspace?offset=10", "", 409, "the snapshot is complete: all 10 bytes have come")
	w.want("PUT", "/api/workspace?offset=0", "9876543210", 409, "the snapshot is complete")
	if text, err := os.ReadFile(w.path); err != nil || string(text) != "0123456789" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(w.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestNothingIsPushedWithoutTheToken(t *testing.T) {
	t.Parallel()
	w := await(t, "0123456789")
	for _, with := range []string{"", "another"} {
		for _, method := range []string{"GET", "PUT"} {
			if status, text := w.ask(method, "/api/workspace?offset=0", with, strings.NewReader("0123456789")); status != 401 ||
				strings.Contains(text, "received") {
				t.Errorf("%s with %q: %d %s", method, with, status, text)
			}
		}
	}
	w.want("GET", "/api/workspace", "", 200, `"received":0`)
}

func TestAWorkerThatWaitsForItsFilesIsUnavailable(t *testing.T) {
	t.Parallel()
	w := await(t, "0123456789")
	w.want("GET", "/healthz", "", 200, "alive")
	for _, path := range []string{"/readyz", "/api/build/step", "/metrics"} {
		w.want("GET", path, "", 503, "the worker waits for the files of its build")
	}
	client, hangUp := dial(w.addr, token, connect.WithGRPC())
	defer hangUp()
	if err := newCopy().takeLogs(t.Context(), client); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("Logs over gRPC: %v", err)
	}
}

func TestResultsAreServedWhereTheFilesCame(t *testing.T) {
	t.Parallel()
	w := await(t, "0123456789")
	w.want("PUT", "/api/workspace?offset=0", "0123456789", 200, `"done":true`)
	s := serve(t)
	s.finish()
	w.inbox.Pass(s.server)
	w.want("GET", "/api/build/step", "", 200, "unit")
	w.want("GET", "/readyz", "", 200, "ready")
	w.want("GET", "/api/workspace", "", 200, `"done":true`)
	w.want("PUT", "/api/workspace?offset=0", "0123456789", 409, "the snapshot is complete")
	if status, text := w.ask("GET", "/api/build/step", "", nil); status != 401 {
		t.Errorf("without a token: %d %s", status, text)
	}
}

func TestASnapshotWithAnotherDigestBeginsAgain(t *testing.T) {
	t.Parallel()
	w := await(t, "0123456789")
	w.want("PUT", "/api/workspace?offset=0", "012345678X", 422, "send it again from offset 0")
	w.want("GET", "/api/workspace", "", 200, `{"received":0,"size":10,"done":false}`)
	w.want("PUT", "/api/workspace?offset=0", "01234", 200, `"done":false`)
	w.want("PUT", "/api/workspace?offset=5", "56789", 200, `"done":true`)
	if text, err := os.ReadFile(w.path); err != nil || string(text) != "0123456789" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestASnapshotThatIsNeverRightFailsTheBuild(t *testing.T) {
	t.Parallel()
	w := await(t, "0123456789")
	for range 3 {
		w.want("PUT", "/api/workspace?offset=0", "XXXXXXXXXX", 422, "the snapshot has the digest")
	}
	if err := w.inbox.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "3 times") {
		t.Error(err)
	}
	w.want("PUT", "/api/workspace?offset=0", "0123456789", 409, "the build has failed")
	w.want("GET", "/api/workspace", "", 200, `"done":false`)
}

// raw sends the head of a push of ten bytes and some of its bytes, and leaves the connection open.
func (w *waiting) raw(part string) net.Conn {
	w.t.Helper()
	connection, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { connection.Close() })
	if _, err := fmt.Fprintf(connection,
		"PUT /api/workspace?offset=0 HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer %s\r\nContent-Length: 10\r\n\r\n%s", token, part); err != nil {
		w.t.Fatal(err)
	}
	return connection
}

// until waits until the inbox has so many bytes.
func (w *waiting) until(received int) {
	w.t.Helper()
	ctx := childtest.Context(w.t)
	for want := fmt.Sprintf(`"received":%d,`, received); ; {
		if _, text := w.ask("GET", "/api/workspace", token, nil); strings.Contains(text, want) {
			return
		}
		if ctx.Err() != nil {
			w.t.Fatal(context.Cause(ctx))
		}
	}
}

func TestAPushThatIsCutContinues(t *testing.T) {
	t.Parallel()
	w := await(t, "0123456789")
	connection := w.raw("012")
	w.until(3)
	connection.Close()
	w.want("PUT", "/api/workspace?offset=3", "3456789", 200, `"done":true`)
}

// TestALaterPushInterruptsTheOneBefore: the connection of the earlier one is dead, which the worker cannot know.
func TestALaterPushInterruptsTheOneBefore(t *testing.T) {
	t.Parallel()
	w := await(t, "0123456789")
	connection := w.raw("012")
	w.until(3)
	w.want("PUT", "/api/workspace?offset=3", "3456789", 200, `"done":true`)
	answer, err := io.ReadAll(connection)
	if err != nil || !bytes.Contains(answer, []byte("409 Conflict")) ||
		!bytes.Contains(answer, []byte("another request continues the snapshot")) {
		t.Errorf("the first one: %s, %v", answer, err)
	}
}

func TestWaitingForFilesEndsWithTheContext(t *testing.T) {
	t.Parallel()
	w := await(t, "0123456789")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the build is canceled")
	cancel(cause)
	if err := w.inbox.Wait(ctx); !errors.Is(err, cause) {
		t.Error(err)
	}
}
