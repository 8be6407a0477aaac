package shim

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// TestACutConnectionDoesNotEndTheUnpacking: a folder with a part of the files could not be unpacked into again.
func TestACutConnectionDoesNotEndTheUnpacking(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &receiver{Config: Config{Folder: t.TempDir(), Repo: t.TempDir()}, program: os.Args[0], heard: func() {}, done: make(chan struct{})}
	var snapshot bytes.Buffer
	packed, err := workspace.PackPart(t.Context(), &snapshot, from, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path(), snapshot.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{cut, t.Context()} {
		answer := httptest.NewRecorder()
		r.unpack(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, "/?digest="+packed.Digest, nil))
		if answer.Code != http.StatusOK {
			t.Errorf("%d: %s", answer.Code, answer.Body)
		}
	}
	if content, err := os.ReadFile(filepath.Join(r.Repo, "file")); string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
}
