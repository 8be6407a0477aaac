package workspace_test

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// TestASnapshotWithALargeWindowIsRefused before the window takes memory.
func TestASnapshotWithALargeWindowIsRefused(t *testing.T) {
	t.Parallel()
	snapshot := func(window byte) *bytes.Reader {
		block := make([]byte, 1024) // the end of a tar
		size := len(block)<<3 | 1   // the last block, raw
		return bytes.NewReader(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, window, byte(size), byte(size >> 8), byte(size >> 16)}, block...))
	}
	const small, large = (23 - 10) << 3, (29 - 10) << 3 // 8 MiB, 512 MiB
	if err := workspace.Extract(t.Context(), snapshot(small), t.TempDir(), ""); err != nil {
		t.Error(err)
	}
	if err := workspace.Extract(t.Context(), snapshot(large), t.TempDir(), ""); err == nil {
		t.Error("a window of 512 MiB was extracted")
	}
	if err := workspace.Check(t.Context(), snapshot(large)); err == nil {
		t.Error("a window of 512 MiB was read")
	}
}

// snapshotOf packs entries, and appends bytes to the archive.
func snapshotOf(t *testing.T, appended int, headers ...*tar.Header) *bytes.Reader {
	t.Helper()
	var out bytes.Buffer
	compressed, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(compressed)
	for _, h := range headers {
		h.Mode = 0o700
		if err := archive.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := compressed.Write(make([]byte, appended)); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(out.Bytes())
}

// TestWhatASnapshotUnpacksToIsBounded by number, names and bytes, also by what its headers only promise.
func TestWhatASnapshotUnpacksToIsBounded(t *testing.T) {
	t.Parallel()
	file := func(name string, size int64) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Format: tar.FormatPAX}
	}
	folder := &tar.Header{Typeflag: tar.TypeDir, Name: "a/b/"}
	const entries, names, content, raw = 6, 40, 2000, 20_000
	for name, c := range map[string]struct {
		snapshot *bytes.Reader
		want     string // "": it is extracted
	}{
		"fits": {snapshotOf(t, 0, folder, file("a/b/c", 1000), file("a/b/d", 1000), file("e", 0)), ""},
		"files": {snapshotOf(t, 0, file("1", 0), file("2", 0), file("3", 0), file("4", 0), file("5", 0),
			file("6", 0), file("7", 0)), "more than 2000000 files and folders"},
		"unlisted folders":  {snapshotOf(t, 0, file("a/b/c/d/e/f/g", 0)), "more than 2000000 files and folders"},
		"names":             {snapshotOf(t, 0, file(strings.Repeat("n", 41), 0)), "the paths in the snapshot have more than"},
		"a long path":       {snapshotOf(t, 0, file(strings.Repeat("n/", 2047)+"nn", 0)), "its path has 4096 bytes"},
		"content":           {snapshotOf(t, 0, file("a", 1000), file("b", 1001)), "unpacks to more than"},
		"what is behind it": {snapshotOf(t, 20_000, file("a", 1)), "an archive of more than"},
	} {
		err := workspace.ExtractWithin(t.Context(), c.snapshot, t.TempDir(), entries, names, content, raw)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	long := snapshotOf(t, 0, file(strings.Repeat("n/", 2047)+"nn", 0))
	if err := workspace.Check(t.Context(), long); err == nil || !strings.Contains(err.Error(), "its path has 4096 bytes") {
		t.Errorf("%.300v", err)
	}
}
