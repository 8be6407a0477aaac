package docker

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/attempt"
)

// engineOf returns an Engine whose copies of /mnt/repo are cut after so many bytes each, those after these not at
// all, and the number of copies that were requested.
func engineOf(t *testing.T, archive []byte, cuts ...int) (*Engine, *int) {
	t.Helper()
	copies := new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Api-Version", "1.52")
		case strings.HasSuffix(r.URL.Path, "/archive"):
			w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte("{}")))
			n := len(archive)
			if *copies < len(cuts) {
				n = cuts[*copies]
			}
			*copies++
			_, _ = w.Write(archive[:n])
			_ = http.NewResponseController(w).Flush()
			if n < len(archive) {
				panic(http.ErrAbortHandler) // the way to cut the connection
			}
		}
	}))
	t.Cleanup(server.Close)
	engine, err := Open("tcp://" + server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return engine, copies
}

// TestACutCopyBeginsAgain: the files of a step are not lost with a connection, and a copy that never comes further ends.
func TestACutCopyBeginsAgain(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"a", "b", "c"} {
		content := strings.Repeat(name, 10_000)
		err := w.WriteHeader(&tar.Header{Name: "repo/" + name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content))})
		if _, more := w.Write([]byte(content)); errors.Join(err, more) != nil {
			t.Fatal(err, more)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cuts   []int
		copies int
		fails  bool
	}{
		"whole":            {nil, 1, false},
		"further each try": {[]int{0, 5_000, 15_000, 30_000}, 5, false},
		"always there":     {[]int{5_000, 5_000, 5_000, 5_000}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine, copies := engineOf(t, archive.Bytes(), c.cuts...)
			s := &step{Runner: &Runner{engine: engine}, id: "x"}
			dir := filepath.Join(t.TempDir(), "kept")
			err := s.download(t.Context(), dir, attempt.Wanted{Globs: []string{"*"}})
			if (err != nil) != c.fails || *copies != c.copies {
				t.Fatalf("%d copies, %v", *copies, err)
			}
			for _, file := range []string{"a", "b", "c"} {
				if content, err := os.ReadFile(filepath.Join(dir, file)); !c.fails && string(content) != strings.Repeat(file, 10_000) {
					t.Errorf("%s has %d bytes, %v", file, len(content), err)
				}
			}
		})
	}
}
