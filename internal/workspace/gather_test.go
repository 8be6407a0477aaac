package workspace

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tarOf returns an archive as a container engine writes one. Each entry is NAME, or NAME -> TARGET, or NAME = TARGET for a hard link;
// the content of a file is its name.
func tarOf(t *testing.T, entries ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: "repo/" + e, Mode: 0o640, Typeflag: tar.TypeReg, Size: int64(len(e))}
		if name, target, ok := strings.Cut(e, " -> "); ok {
			h.Name, h.Linkname, h.Typeflag, h.Size = "repo/"+name, target, tar.TypeSymlink, 0
		} else if name, target, ok := strings.Cut(e, " = "); ok {
			h.Name, h.Linkname, h.Typeflag, h.Size = "repo/"+name, target, tar.TypeLink, 0
		} else if strings.HasSuffix(e, "/") || e == "" {
			h.Typeflag, h.Size, h.Mode = tar.TypeDir, 0, 0o555
		} else if e == "pipe" {
			h.Typeflag, h.Size = tar.TypeFifo, 0
		}
		if err := archive.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(archive, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// gathered returns the files below dir that can be read through a root, with their contents.
func gathered(t *testing.T, dir string) map[string]string {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	out := map[string]string{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path) // it is below
		if content, err := root.ReadFile(name); err == nil {
			out[filepath.ToSlash(name)] = string(content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGatherTakesWhatIsKeptAndWhatLinksLeadTo(t *testing.T) {
	t.Parallel()
	archive := tarOf(t, "", "other", "far/", "far/away", "out/", "out/a", "out/sub/", "out/sub/b", "out/pipe", "pipe", "ln -> far",
		"out/near -> a", "out/link -> ../ln/away", "out/hard = repo/other", "out/absolute -> /etc/passwd", "out/outside -> ../../../etc/passwd",
		"out/loop -> loop", "out/dangling -> nowhere", "unkept -> other", "../escape", "out/same = repo/out/a")
	dir := filepath.Join(t.TempDir(), "kept")
	passes := 0
	err := Gather(t.Context(), func() (io.ReadCloser, error) {
		passes++
		return io.NopCloser(bytes.NewReader(archive)), nil
	}, dir, func(path string) bool { return strings.HasPrefix(path, "out/") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Remove(dir) })
	want := map[string]string{"out/a": "out/a", "out/sub/b": "out/sub/b", "out/near": "out/a", "out/link": "far/away",
		"out/hard": "other", "out/same": "out/a",
		"far/away": "far/away", "other": "other", "unkept": "other", "out/pipe": "out/pipe"}
	if diff := cmp.Diff(want, gathered(t, dir)); diff != "" {
		t.Error(diff)
	}
	if passes != 2 {
		t.Errorf("the archive was read %d times, want 2", passes)
	}
}

func TestGatherReadsOnceWithoutLinks(t *testing.T) {
	t.Parallel()
	passes := 0
	err := Gather(t.Context(), func() (io.ReadCloser, error) {
		passes++
		return io.NopCloser(bytes.NewReader(tarOf(t, "", "a", "b -> a"))), nil
	}, t.TempDir(), func(path string) bool { return path == "a" || path == "b" })
	if err != nil || passes != 1 {
		t.Errorf("%d passes, %v", passes, err)
	}
}

func TestGatherFailsWithATornArchive(t *testing.T) {
	t.Parallel()
	archive := tarOf(t, "", strings.Repeat("a", 90), "b")
	for _, n := range []int{0, 100, 600, 1100} {
		err := Gather(t.Context(), func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(archive[:n]), broken{})), nil
		}, t.TempDir(), func(string) bool { return true })
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func TestGatherRefusesPathsThatNothingCouldRemove(t *testing.T) {
	t.Parallel()
	archive := tarOf(t, "", strings.Repeat("n/", 2048)+"a")
	err := Gather(t.Context(), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		t.TempDir(), func(string) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "its path has 4097 bytes") {
		t.Errorf("%.300v", err)
	}
}

// TestWhatIsGatheredIsBounded by the bytes of files and of paths; what is neither kept nor a link does not count.
func TestWhatIsGatheredIsBounded(t *testing.T) {
	t.Parallel()
	for want, archive := range map[string][]byte{
		"":                             tarOf(t, "", "kept/123456", "other/1234567890"),
		"the files that are kept have": tarOf(t, "kept/1234567890", "kept/1234567891"),
		"the paths of the files that are": tarOf(t, "kept/ -> x", "a/1 -> x", "a/2 -> x", "a/3 -> x", "a/4 -> x", "a/5 -> x",
			"a/6 -> x", "a/7 -> x", "a/8 -> x", "a/9 -> x", "b/1 -> x"),
	} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		g := &gathering{extraction: extraction{root: root},
			keep: func(path string) bool { return strings.HasPrefix(path, "kept/") }, room: 20, names: 31, same: map[string]string{}}
		err = g.pass(t.Context(), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// broken is a connection that breaks.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestWriteTarKeepsWhatAStepNeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "bin"), 0o750), os.WriteFile(filepath.Join(dir, "bin", "tool"), []byte("x"), 0o755),
		os.Chmod(filepath.Join(dir, "bin", "tool"), 0o755), os.Symlink("tool", filepath.Join(dir, "bin", "link"))); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	if err := errors.Join(WriteTar(t.Context(), archive, dir,
		func(h *tar.Header) { h.Name, h.Mode = "repo/"+h.Name, h.Mode|0o002 }), archive.Close()); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name, Link string
		Mode       int64
	}
	var got []entry
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s has an owner", h.Name)
		}
		got = append(got, entry{h.Name, h.Linkname, h.Mode})
	}
	want := []entry{{"repo/bin/", "", 0o752}, {"repo/bin/link", "tool", 0o777}, {"repo/bin/tool", "", 0o757}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
