package workspace_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// FuzzNames gives an entry any name and any target of its link, in everything that unpacks here. Each ends, and puts nothing
// beside its folder.
func FuzzNames(f *testing.F) {
	for _, name := range []string{".//b", "/", "//", "./", ".", "..", "", "a/", "//b", "./../b", "a/../..//c", ".././/a",
		"a/b/../../..", "f/../../x", "\xff", "a\x00b",
		strings.Repeat("a/", 99), strings.Repeat("../", 9), strings.Repeat("./", 300) + "b"} {
		f.Add(name, ".//b")
		f.Add("f/l", name)
	}
	f.Fuzz(func(t *testing.T, name, target string) {
		if len(name)+len(target) > 1<<10 {
			return
		}
		for _, flag := range []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink} {
			var plain bytes.Buffer
			w := tar.NewWriter(&plain)
			err := w.WriteHeader(&tar.Header{Name: "f/b", Typeflag: tar.TypeReg, Mode: 0o644})
			err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Linkname: target, Typeflag: flag, Mode: 0o755}), w.Close())
			if err != nil {
				continue // no archive can have it
			}
			unpackEverywhere(t, name, plain.Bytes())
		}
	})
}

// unpackEverywhere gives an archive to Extract, Gather and Place, and lists what has become of it. Errors are right answers.
func unpackEverywhere(t *testing.T, name string, plain []byte) {
	t.Helper()
	above := t.TempDir()
	dir := filepath.Join(above, "dir")
	swept := func(of string) {
		t.Helper()
		if beside, err := os.ReadDir(above); err != nil || len(beside) > 1 {
			t.Fatalf("%s of %q: %d names beside the folder, %v", of, name, len(beside)-1, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatalf("%s of %q: %v", of, name, err)
		}
	}

	var zstded, gzipped bytes.Buffer
	z, err := zstd.NewWriter(&zstded, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	g := gzip.NewWriter(&gzipped)
	for _, w := range []io.WriteCloser{z, g} {
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_ = workspace.Extract(t.Context(), &zstded, dir, "")
	swept("Extract")

	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(plain)), nil }
	_ = workspace.Gather(t.Context(), open, dir, func(string) bool { return true })
	swept("Gather")

	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(gzipped.Bytes())
	placed := workspace.Placed{Name: name, Archive: true, SHA256: hex.EncodeToString(sum[:])}
	_ = workspace.Place(t.Context(), dir, placed, bytes.NewReader(gzipped.Bytes()))
	placed.Archive = false
	_ = workspace.Place(t.Context(), dir, placed, bytes.NewReader(gzipped.Bytes()))
	archiveAgain(t, dir, name)
	swept("Place")
}

// archiveAgain requests an archive of what was unpacked, and of a name that may not be there.
func archiveAgain(t *testing.T, dir, name string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files, links, err := workspace.Files(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	names := append(append(files, links...), name)
	_, _ = workspace.NewArchived(root, names).Add(t.Context(), tar.NewWriter(io.Discard), true)
}
