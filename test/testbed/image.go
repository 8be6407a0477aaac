package testbed

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// WorkerImage is the name of the image that ImportWorkers makes.
const WorkerImage = "local/waybill:1"

// ImportWorkers makes the image of workers: this build of the product, git and a shell, with the libraries that they are linked to, and
// further files by their path.
func (e *Engine) ImportWorkers(t testing.TB, waybill string, files map[string][]byte) {
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
	for name, path := range map[string]string{"usr/local/bin/waybill": waybill, "usr/bin/git": git, "usr/bin/git-upload-pack": git, "bin/sh": systemProgram(t, "busybox", "busybox-static")} {
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
	e.Import(t, WorkerImage, out.Bytes())
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

// Inside returns the arguments with which a program runs in the Engine's own network, where published ports are.
func (e *Engine) Inside(argv ...string) []string {
	return append([]string{"nsenter", "--net=" + e.network(), "--"}, argv...)
}

func (e *Engine) network() string { return fmt.Sprintf("/proc/%d/ns/net", e.server.processID()) }

// Dial connects to an address of the Engine's own network.
func (e *Engine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	type made struct {
		net.Conn
		error
	}
	done := make(chan made, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		connection, err := dialIn(ctx, e.network(), network, address)
		done <- made{connection, err}
	}()
	m := <-done
	return m.Conn, m.error
}

func dialIn(ctx context.Context, namespace, network, address string) (net.Conn, error) {
	file, err := os.Open(namespace)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	return (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address) // without a second goroutine, which has another thread
}
