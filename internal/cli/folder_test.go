package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

// folder is a command line in a folder with files, and what it prints.
type folder struct {
	*cmdline.App
	dir      string
	out, err bytes.Buffer
}

// newFolder makes a folder with files, by their names.
func newFolder(t *testing.T, files map[string]string) *folder {
	t.Helper()
	f := &folder{dir: t.TempDir()}
	for name, content := range files {
		f.write(t, name, content)
	}
	f.App = &cmdline.App{Place: assembly.Place{Dir: f.dir, Environment: func(string) string { return "" }}, In: strings.NewReader(""), Out: &f.out, Err: &f.err}
	return f
}

func (f *folder) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// want compares what was printed on the two streams, and forgets it.
func (f *folder) want(t *testing.T, out, err string) {
	t.Helper()
	if diff := cmp.Diff(out, f.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(err, f.err.String()); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
	f.out.Reset()
	f.err.Reset()
}
