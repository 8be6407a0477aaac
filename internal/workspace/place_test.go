package workspace_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// packed returns a .tar.gz with one entry.
func packed(t *testing.T, header *tar.Header, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	header.Size = int64(len(content))
	if err := archive.WriteHeader(header); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPlaceStaysInside: what leads outside, is not a file, is torn or has other bytes is an error, and nothing outside changes.
func TestPlaceStaysInside(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	dir := filepath.Join(outside, "w")
	if err := os.MkdirAll(filepath.Join(dir, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "full", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(name string) []byte {
		return packed(t, &tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, "x")
	}
	link := func(name, target string) []byte {
		return packed(t, &tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}, "")
	}
	for name, c := range map[string]struct {
		placed workspace.Placed
		text   []byte
		want   string
	}{
		"a path above":            {workspace.Placed{Name: "../x"}, nil, "leaves the workspace"},
		"a path from the root":    {workspace.Placed{Name: "/x"}, nil, "leaves the workspace"},
		"through a link":          {workspace.Placed{Name: "out/x"}, nil, "place out/x: "},
		"over a folder":           {workspace.Placed{Name: "full"}, nil, "place full: "},
		"other bytes":             {workspace.Placed{Name: "x", SHA256: strings.Repeat("0", 64)}, []byte("y"), "its digest is"},
		"an entry above":          {workspace.Placed{Name: "a", Archive: true}, file("../x"), "leaves the workspace"},
		"an entry through a link": {workspace.Placed{Name: "a", Archive: true}, file("out/x"), "out/x: "},
		"a link from the root":    {workspace.Placed{Name: "a", Archive: true}, link("l", "/etc"), "which is outside"},
		"a link above":            {workspace.Placed{Name: "a", Archive: true}, link("d/l", "../../x"), "which is outside"},
		"a link through a link":   {workspace.Placed{Name: "a", Archive: true}, link("l", "out/x"), "leads to nothing"},
		"a link to nothing":       {workspace.Placed{Name: "a", Archive: true}, link("l", "nothing"), "leads to nothing"},
		"a link by way of a link": {workspace.Placed{Name: "a", Archive: true}, link("l", "out/../w"), "which is outside"},
		"a device": {workspace.Placed{Name: "a", Archive: true},
			packed(t, &tar.Header{Name: "d", Typeflag: tar.TypeChar}, ""), "neither a file nor a link"},
		"a torn archive": {workspace.Placed{Name: "a", Archive: true}, file("x")[:20], "EOF"},
		"no archive":     {workspace.Placed{Name: "a", Archive: true}, []byte("no archive at all"), "gzip"},
	} {
		if c.placed.SHA256 == "" {
			sum := sha256.Sum256(c.text)
			c.placed.SHA256 = hex.EncodeToString(sum[:])
		}
		if err := workspace.Place(t.Context(), dir, c.placed, bytes.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("canceled"))
	if err := workspace.Place(canceled, dir, workspace.Placed{Name: "x"}, strings.NewReader("x")); err == nil ||
		!strings.Contains(err.Error(), "canceled") {
		t.Errorf("after a cancel: %v", err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("the folder outside has %v, %v", left, err)
	}
}
