package step

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TestPrivateFilesStayPrivate also where a file for others has the same content, and where it is large and so sent on
// its own.
func TestPrivateFilesStayPrivate(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		modes := map[string]fs.FileMode{"tls.key": 0o400, "tls.pem": 0o444, "own": 0o500, "greeter": 0o555, "large": 0o400,
			"certs":    0o700 | fs.ModeDir,
			"certs/ca": 0o444, "data": 0o755 | fs.ModeDir}
		w.register(1, "a.tar", packModes(t, modes))
		w.ship(1)
		for name, mode := range modes {
			if info, err := os.Stat(w.inRelease(name)); err != nil || info.Mode() != mode {
				t.Errorf("%s has the mode %v, %v, want %v", name, info.Mode(), err, mode)
			}
		}
		if out := w.done(1, pipeline.HostReplicated); !out.Already {
			t.Error("a whole release is sent again")
		}
		// A release in use that an earlier version of the host's program made, all of it for others, stays.
		manifest := ".waybill/manifests/" + w.release(1)
		public := strings.NewReplacer("\np\t", "\nf\t", "\nq\t", "\nx\t", "\nr\t", "\nd\t").Replace("\n" + w.read(manifest))
		if err := os.WriteFile(filepath.Join(w.dir, manifest), []byte(public[1:]), 0o600); err != nil {
			t.Fatal(err)
		}
		w.chmod("tls.key", 0o444)
		w.chmod("certs", 0o755)
		w.chmod("own", 0o555)
		w.chmod("large", 0o444)
		if out := w.done(1, pipeline.HostReplicated); !out.Already {
			t.Error("a release of an earlier version is sent again")
		}
		w.chmod("tls.key", 0o400)
		if out := w.done(1, pipeline.HostReplicated); out.Already || out.Release != w.release(1)+".2" {
			t.Errorf("a release whose modes have changed: %+v", out)
		}
	})
}

func (w *world) inRelease(name string) string {
	return filepath.Join(w.dir, "releases", w.release(1), name)
}

func (w *world) chmod(name string, mode fs.FileMode) {
	w.t.Helper()
	if err := os.Chmod(w.inRelease(name), mode); err != nil {
		w.t.Fatal(err)
	}
}

// packModes returns a tar whose small files all have one content.
func packModes(t *testing.T, modes map[string]fs.FileMode) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for name, mode := range modes {
		content := []byte("#!/bin/sh\n" + forever + "\n")
		if name == "large" {
			content = big()
		}
		h := &tar.Header{Name: name, Mode: int64(mode.Perm()), Size: int64(len(content))}
		if mode.IsDir() {
			h.Typeflag, h.Size, content = tar.TypeDir, 0, nil
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}
