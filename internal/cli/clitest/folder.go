// Package clitest is shared by tests of commands: a command line in a folder with files, and the output of commands.
package clitest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

// Folder is a command line in a folder with files, and the output.
type Folder struct {
	*cmdline.App
	Dir             string
	Printed, Warned bytes.Buffer
}

// NewFolder makes a folder with files, by their names.
func NewFolder(t *testing.T, files map[string]string) *Folder {
	t.Helper()
	f := &Folder{Dir: t.TempDir()}
	for name, content := range files {
		f.Write(t, name, content)
	}
	f.App = &cmdline.App{
		Place: assembly.Place{Dir: f.Dir, Environment: func(string) string { return "" }},
		In:    strings.NewReader(""),
		Out:   &f.Printed,
		Err:   &f.Warned,
	}
	return f
}

func (f *Folder) Write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(f.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Want compares the output on the two streams, and forgets it.
func (f *Folder) Want(t *testing.T, out, err string) {
	t.Helper()
	if diff := cmp.Diff(out, f.Printed.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(err, f.Warned.String()); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
	f.Printed.Reset()
	f.Warned.Reset()
}

// Run runs a program in a folder.
func Run(t *testing.T, dir, name string, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, arguments...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, arguments, err, out)
	}
}

// Rename renames a file of a folder.
func Rename(t *testing.T, f *Folder, from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(f.Dir, from), filepath.Join(f.Dir, to)); err != nil {
		t.Fatal(err)
	}
}
