package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
)

const helloDigest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

func setup(t *testing.T) (*blob.Dir, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "blobs")
	d, err := blob.OpenDir("file:" + root)
	if err != nil {
		t.Fatal(err)
	}
	return d, root
}

func read(t *testing.T, d *blob.Dir, key string) string {
	t.Helper()
	r, size, err := d.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if int64(len(content)) != size {
		t.Errorf("Get says %d bytes and yields %d", size, len(content))
	}
	return string(content)
}

func TestPutNamesContentByItsDigest(t *testing.T) {
	t.Parallel()
	d, _ := setup(t)
	for range 2 {
		key, digest, size, err := d.Put(t.Context(), "sha256/", strings.NewReader("hello"))
		if err != nil || key != "sha256/"+helloDigest || digest != helloDigest || size != 5 {
			t.Fatalf("Put = %s, %s, %d, %v", key, digest, size, err)
		}
	}
	if got := read(t, d, "sha256/"+helloDigest); got != "hello" {
		t.Errorf("got %q", got)
	}
}

func TestPutReplacesWholeObjects(t *testing.T) {
	t.Parallel()
	d, root := setup(t)
	for _, content := range []string{"first", "second, and longer"} {
		if _, _, _, err := d.Put(t.Context(), "action/2026-47/x/exchange-1.json", strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, d, "action/2026-47/x/exchange-1.json"); got != content {
			t.Errorf("got %q, want %q", got, content)
		}
	}
	wantNoTemporary(t, root)
}

func TestFailedPutLeavesTheOldObject(t *testing.T) {
	t.Parallel()
	d, root := setup(t)
	if _, _, _, err := d.Put(t.Context(), "a/b", strings.NewReader("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("connection reset")
	_, _, _, err := d.Put(t.Context(), "a/b", io.MultiReader(strings.NewReader("new, but cut"), &failing{broken}))
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	if _, _, _, err := d.Put(ctx, "a/b", strings.NewReader("new")); !errors.Is(err, broken) {
		t.Errorf("after a cancel got %v, want its cause", err)
	}
	if got := read(t, d, "a/b"); got != "old" {
		t.Errorf("got %q", got)
	}
	wantNoTemporary(t, root)
}

func TestMissingObjectIsNotFound(t *testing.T) {
	t.Parallel()
	d, root := setup(t)
	if _, _, err := d.Get(t.Context(), "sha256/none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get: %v", err)
	}
	if has, err := d.Has(t.Context(), "sha256/none"); has || err != nil {
		t.Errorf("Has = %v, %v", has, err)
	}
	if _, _, _, err := d.Put(t.Context(), "x/y", strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if has, err := d.Has(t.Context(), "x/y"); !has || err != nil {
		t.Errorf("Has = %v, %v", has, err)
	}
	if has, err := d.Has(t.Context(), "x"); has || err != nil {
		t.Errorf("Has of a folder = %v, %v", has, err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "x", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"x", "x/pipe"} {
		if _, _, err := d.Get(t.Context(), key); !fault.Is(err, fault.NotFound) {
			t.Errorf("Get of %s: %v", key, err)
		}
	}
}

func TestKeysStayInTheStore(t *testing.T) {
	t.Parallel()
	d, _ := setup(t)
	for _, key := range []string{"../x", "/etc/passwd", "a/../../x", ".", "tmp", "tmp/put-1", "a//b", "a\x00b"} {
		if _, _, _, err := d.Put(t.Context(), key, strings.NewReader("x")); !fault.Is(err, fault.Invalid) {
			t.Errorf("Put %q: %v", key, err)
		}
		if _, _, err := d.Get(t.Context(), key); !fault.Is(err, fault.Invalid) {
			t.Errorf("Get %q: %v", key, err)
		}
	}
}

func TestOpenRefusesOtherSchemes(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"", "s3://bucket/x", "file:", "file://elsewhere/x"} {
		if _, err := blob.OpenDir(location); !fault.Is(err, fault.Invalid) {
			t.Errorf("Open %q: %v", location, err)
		}
	}
}

func TestWritersOfOneObjectDoNotMeet(t *testing.T) {
	t.Parallel()
	d, root := setup(t)
	content := bytes.Repeat([]byte("waybill"), 1<<16)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, _, _, err := d.Put(t.Context(), "sha256/", bytes.NewReader(content)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	wantNoTemporary(t, root)
}

func TestFileInTheWayIsUnavailable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := blob.OpenDir(filepath.Join(file, "blobs")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func wantNoTemporary(t *testing.T, root string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(root, "tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files: %v, %v", left, err)
	}
}
