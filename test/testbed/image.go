package testbed

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// WorkerImage is the name of the image that ImportWorkers makes.
const WorkerImage = "local/waybill:1"

// ImportWorkers makes the image of workers, with further files by their path.
func (e *Engine) ImportWorkers(t testing.TB, waybill string, files map[string][]byte) {
	t.Helper()
	e.Import(t, WorkerImage, workerImage(t, waybill, files))
}

// workerImage returns the files of an image for workers: this build of the product, git and a shell, with the libraries that they are
// linked to, and further files by their path.
func workerImage(t testing.TB, waybill string, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	add := func(name string, content []byte) {
		name = strings.TrimPrefix(name, "/")
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) []byte {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("testbed: make the image of workers: %v", err)
		}
		return content
	}
	git := systemProgram(t, "git", "git")
	added := map[string]bool{}
	for name, path := range map[string]string{"usr/local/bin/waybill": waybill, "usr/bin/git": git,
		"usr/bin/git-upload-pack": git, "bin/sh": systemProgram(t, "busybox", "busybox-static")} {
		add(name, read(path))
		for _, library := range libraries(t, path) {
			if !added[library] {
				added[library] = true
				add(library, read(library))
			}
		}
	}
	for name, content := range files {
		add(name, content)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// library matches the path of a library in what ldd prints.
var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// libraries lists what a program is linked to; none for one that is linked statically.
func libraries(t testing.TB, program string) (paths []string) {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), "ldd", program).Output() // it fails for a static program
	for _, match := range library.FindAllStringSubmatch(string(out), -1) {
		paths = append(paths, filepath.Clean(match[1]))
	}
	return paths
}
