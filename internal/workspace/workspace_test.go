package workspace_test

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// tree makes a folder that has one of everything.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "a", "b"), 0o755))
	must(os.MkdirAll(filepath.Join(root, ".waybill", "blobs"), 0o755))
	must(os.MkdirAll(filepath.Join(root, "out"), 0o755))
	for name, mode := range map[string]fs.FileMode{"run.sh": 0o755, "a/b/deep": 0o640, "a.txt": 0o644, "empty": 0o600,
		".waybill/waybill.db": 0o600, "out/result": 0o644, "b\xff\xfed": 0o644} {
		must(os.WriteFile(filepath.Join(root, name), []byte("content of "+name), mode))
		must(os.Chmod(filepath.Join(root, name), mode))
	}
	must(os.Symlink("/etc/passwd", filepath.Join(root, "outside")))
	must(os.Symlink("loop", filepath.Join(root, "loop")))
	must(os.Symlink("../a.txt", filepath.Join(root, "a", "link")))
	must(syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600))
	socket, err := net.Listen("unix", filepath.Join(root, "socket"))
	must(err)
	t.Cleanup(func() { _ = socket.Close() })
	old := time.Date(2020, 1, 2, 3, 4, 5, 678900000, time.UTC)
	must(os.Chtimes(filepath.Join(root, "a.txt"), old, old))
	must(os.Chtimes(filepath.Join(root, "a", "b"), old, old))
	must(os.Chmod(filepath.Join(root, "a", "b"), 0o555))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, "a", "b"), 0o755) })
	return root
}

// describe lists the content below root: path, mode, time, and content or target.
func describe(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || path == root {
			return err
		}
		relative, _ := filepath.Rel(root, path)
		line := relative + " " + info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			line += " -> " + target
		case info.Mode().IsRegular():
			content, _ := os.ReadFile(path)
			line += " " + info.ModTime().UTC().Format(time.RFC3339Nano) + " " + string(content)
		default:
			line += " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(out)
	return out
}

// expected returns what a copy of tree holds, except what is never part of a workspace.
func expected(lines []string) []string {
	var out []string
	for _, line := range lines {
		if !strings.HasPrefix(line, ".waybill") && !strings.HasPrefix(line, "out") &&
			!strings.HasPrefix(line, "pipe") && !strings.HasPrefix(line, "socket") {
			out = append(out, line)
		}
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "outside") {
			out = append(out, line)
		}
	}
	sort.Strings(out)
	return out
}

func TestSnapshotGivesBackTheTree(t *testing.T) {
	t.Parallel()
	root := tree(t)
	var snapshot bytes.Buffer
	packed, err := workspace.PackAll(t.Context(), &snapshot, root, workspace.Selection{Skip: []string{filepath.Join(root, "out")}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pipe is left out: it is a pipe", "socket is left out: it is a socket"}, packed.Warnings); diff != "" {
		t.Error(diff)
	}
	if packed.Size != int64(snapshot.Len()) {
		t.Errorf("size %d, want %d", packed.Size, snapshot.Len())
	}
	to := filepath.Join(t.TempDir(), "copy")
	t.Cleanup(func() { _ = workspace.Remove(to) })
	if err := workspace.Extract(t.Context(), bytes.NewReader(snapshot.Bytes()), to, packed.Digest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected(describe(t, root)), describe(t, to)); diff != "" {
		t.Error(diff)
	}
}

func TestCopyGivesTheTree(t *testing.T) {
	t.Parallel()
	root := tree(t)
	to := filepath.Join(t.TempDir(), "copy")
	if _, err := workspace.Copy(t.Context(), root, to, workspace.Selection{Skip: []string{filepath.Join(root, "out")}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected(describe(t, root)), describe(t, to)); diff != "" {
		t.Error(diff)
	}
	if err := workspace.Remove(to); err != nil {
		t.Error(err)
	}
}

// TestCopyDoesNotWaitForPipes: one may be in the place of a file that was listed.
func TestCopyDoesNotWaitForPipes(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := workspace.CopyAt(pipe, t.TempDir()); err == nil || !strings.Contains(err.Error(), "file: it became something else") {
		t.Errorf("got %v", err)
	}
}

func TestPackIsTheSameWhereverItWasCheckedOut(t *testing.T) {
	t.Parallel()
	pack := func(mode fs.FileMode, at time.Time) ([]byte, string) {
		root := t.TempDir()
		for _, name := range []string{"b", "a/x"} {
			path := filepath.Join(root, name)
			_ = os.MkdirAll(filepath.Dir(path), 0o755)
			if err := os.WriteFile(path, []byte(name), mode); err != nil {
				t.Fatal(err)
			}
			_ = os.Chmod(path, mode)
			_ = os.Chtimes(path, at, at)
		}
		var out bytes.Buffer
		digest, size, err := workspace.Pack(t.Context(), &out, root, []string{"b", "a/x"})
		if err != nil || size != int64(out.Len()) {
			t.Fatal(size, err)
		}
		return out.Bytes(), digest
	}
	first, digest := pack(0o644, time.Unix(1, 0))
	second, same := pack(0o664, time.Unix(2, 0))
	if digest != same || !bytes.Equal(first, second) {
		t.Error("two checkouts of the same content differ")
	}
	if _, other := pack(0o755, time.Unix(1, 0)); other == digest {
		t.Error("whether a file may be executed must count")
	}
}

func TestPackRefusesWhatLeavesTheFolder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../x", "/etc/passwd", "missing", "a"} {
		root := t.TempDir()
		_ = os.Mkdir(filepath.Join(root, "a"), 0o755)
		if _, _, err := workspace.Pack(t.Context(), &bytes.Buffer{}, root, []string{name}); err == nil {
			t.Errorf("%s was packed", name)
		}
	}
}

func TestExtractRefusesTornAndAlteredSnapshots(t *testing.T) {
	t.Parallel()
	var snapshot bytes.Buffer
	packed, err := workspace.PackAll(t.Context(), &snapshot, tree(t), workspace.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	whole := snapshot.Bytes()
	for cut := range whole {
		if err := workspace.Extract(t.Context(), bytes.NewReader(whole[:cut]), filepath.Join(t.TempDir(), "x"), packed.Digest); err == nil {
			t.Fatalf("a snapshot cut at byte %d of %d was taken", cut, len(whole))
		}
	}
	other := strings.Repeat("0", 64)
	if err := workspace.Extract(t.Context(), bytes.NewReader(whole), filepath.Join(t.TempDir(), "x"), other); err == nil {
		t.Error("another digest was taken")
	}
}

func TestExtractStaysInside(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, headers := range map[string][]tar.Header{
		"dots":         {{Name: "../evil", Typeflag: tar.TypeReg, Mode: 0o644}},
		"absolute":     {{Name: "/tmp/evil", Typeflag: tar.TypeReg, Mode: 0o644}},
		"through link": {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "l/evil", Typeflag: tar.TypeReg, Mode: 0o644}},
		"device":       {{Name: "d", Typeflag: tar.TypeChar, Mode: 0o644}},
		"hard link":    {{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
	} {
		var out bytes.Buffer
		compressed, _ := zstd.NewWriter(&out)
		archive := tar.NewWriter(compressed)
		for _, h := range headers {
			if err := archive.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		_ = archive.Close()
		_ = compressed.Close()
		err := workspace.Extract(t.Context(), &out, filepath.Join(t.TempDir(), "x"), "")
		if err == nil {
			t.Errorf("%s: extracted", name)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Error("something was written outside")
	}
}
