//go:build linux && services

package chaos_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/test/chaos"
)

// api starts a process that answers requests, and returns where.
func api(t *testing.T, w *chaos.World) (url string) {
	t.Helper()
	address, err := chaos.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	serve(t, w, "api", "--listen", address)
	answers(t, "http://"+address+"/readyz", http.StatusOK)
	return "http://" + address
}

// answers asks until the answer has the status.
func answers(t *testing.T, url string, status int) {
	t.Helper()
	until(t, fmt.Sprintf("%s answers %d", url, status), time.Minute, func(ctx context.Context) (bool, error) {
		response, err := asks(ctx, http.MethodGet, url, "", "")
		return err == nil && response.StatusCode == status, err
	})
}

// asks makes a request and drops the answer's body.
func asks(ctx context.Context, method, url, token, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	return response, response.Body.Close()
}

// refuses wants a request to be answered with 503 and when to ask again.
func refuses(t *testing.T, method, url, token, body string) {
	t.Helper()
	response, err := asks(t.Context(), method, url, token, body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("%s %s answers %s, Retry-After %q", method, url, response.Status, response.Header.Get("Retry-After"))
	}
}

// homeToken returns the token that a process of the world has made.
func homeToken(t *testing.T, w *chaos.World) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(w.Folder, "home", "token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

// TestAPIWhilePostgreSQLIsAway stops the server under an API: it reports that it cannot answer now, and when to ask
// again, and it answers as soon as the server is back.
func TestAPIWhilePostgreSQLIsAway(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	w := world(t, chaos.Settings{Direct: server.URL()})
	url := api(t, w)
	token := homeToken(t, w)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	const add = `{"handler": "nothing"}`
	answers(t, url+"/readyz", http.StatusServiceUnavailable) // an answer counts for a second, also one from before the stop
	for _, path := range []string{"/readyz", "/api/v1/actions", "/jobs", "/jobs?f=html", "/status"} {
		refuses(t, http.MethodGet, url+path, "", "")
	}
	refuses(t, http.MethodPost, url+"/api/v1/actions", token, add)
	refuses(t, http.MethodPost, url+"/processes/parcel/execution", token, `{"inputs": {}}`)
	if err := server.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/readyz", "/api/v1/actions", "/jobs"} {
		answers(t, url+path, http.StatusOK)
	}
	if response, err := asks(t.Context(), http.MethodPost, url+"/api/v1/actions", token, add); err != nil || response.StatusCode >= 300 {
		t.Errorf("it cannot be ordered from: %v, %v", response, err)
	}
}

// TestBigParametersNeedTheBlobStore: they are refused while it is away, and small ones are not.
func TestBigParametersNeedTheBlobStore(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "blobs")
	w := world(t, chaos.Settings{Blob: "file:" + folder})
	url := api(t, w)
	token := homeToken(t, w)
	remove(t, folder)
	big := fmt.Sprintf(`{"handler": "nothing", "parameters": {"error": %q}}`, strings.Repeat("x", 100_000))
	refuses(t, http.MethodPost, url+"/api/v1/actions", token, big)
	if response, err := asks(t.Context(), http.MethodPost, url+"/api/v1/actions", token,
		`{"handler": "nothing"}`); err != nil || response.StatusCode >= 300 {
		t.Errorf("small parameters: %v, %v", response, err)
	}
	if states, err := w.Ledger.Actions(t.Context(), queue.ActionQuery{}); err != nil || len(states) != 1 {
		t.Errorf("the log has %d actions (%v), want the small one alone", len(states), err)
	}
}

// remove takes a folder away for good: root may write to every folder, but not below a file.
func remove(t *testing.T, folder string) {
	t.Helper()
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
