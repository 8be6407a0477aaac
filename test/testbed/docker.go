package testbed

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/test/testbed/controlgroup"
)

// Images that every Engine of the testbed has. They hold Debian's static busybox, and nothing else.
const (
	Busybox     = "local/busybox:1"      // its programs run as root
	BusyboxUser = "local/busybox-user:1" // as a user without rights, called ana
)

// Engine is a Docker Engine.
type Engine struct {
	Host   string // unix:///…, as in DOCKER_HOST
	Socket string // its path
	Client *client.Client

	server *service
}

// Docker starts Debian's dockerd for the test, with images that need no registry; two seconds. It needs root. The Engine is in
// namespaces of its own (processes, mounts, network), which end with it, so its containers, mounts and rules for packets do too.
func Docker(t testing.TB) *Engine {
	t.Helper()
	dockerd, busybox := systemProgram(t, "dockerd", "docker.io"), systemProgram(t, "busybox", "busybox-static")
	folder, err := os.MkdirTemp("", "dk") // sockets have short paths
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	groups := controlgroup.Prefix + filepath.Base(os.TempDir()) + filepath.Base(folder) // cmd/testbed knows its temporary folder
	t.Cleanup(func() {
		if err := errors.Join(controlgroup.Remove(groups), os.RemoveAll(folder)); err != nil {
			t.Errorf("testbed: clean up after dockerd: %v", err)
		}
	})
	e := &Engine{Socket: filepath.Join(folder, "docker.sock")}
	e.Host = "unix://" + e.Socket
	if e.Client, err = client.New(client.WithHost(e.Host)); err != nil {
		t.Fatalf("testbed: %v", err)
	}
	t.Cleanup(func() { _ = e.Client.Close() }) // idle connections
	// The shell is the first process of its namespace: it collects what others leave behind.
	script := fmt.Sprintf(`%s ip link set lo up && rm -f %[2]s/pid %[2]s/exec/containerd/containerd.pid && %[3]s --data-root %[2]s/data --exec-root %[2]s/exec --pidfile %[2]s/pid \
		--host %[4]s --cgroup-parent /%[5]s; exit $?`, busybox, folder, dockerd, e.Host, groups)
	e.server = &service{
		name: "dockerd", dir: folder,
		argv: []string{"unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c", script},
		ready: func(ctx context.Context) error {
			_, err := e.Client.Ping(ctx, client.PingOptions{})
			return err
		},
	}
	e.server.manage(t)
	e.Import(t, Busybox, busyboxImage(t, busybox))
	e.Import(t, BusyboxUser, busyboxImage(t, busybox), "USER ana")
	return e
}

// systemProgram finds a program of the system, which a package of Debian has.
func systemProgram(t testing.TB, name, pkg string) string {
	t.Helper()
	for _, candidate := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	t.Fatalf("testbed: %s not found: apt-get install %s", name, pkg)
	return ""
}

// Import makes an image of a tar, changed as a Dockerfile would.
func (e *Engine) Import(t testing.TB, name string, files []byte, changes ...string) {
	t.Helper()
	out, err := e.Client.ImageImport(t.Context(), client.ImageImportSource{Source: bytes.NewReader(files), SourceName: "-"}, name,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		t.Fatalf("testbed: import %s: %v", name, err)
	}
	defer out.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(out); err != nil || strings.Contains(answer.String(), `"error"`) {
		t.Fatalf("testbed: import %s: %v %s", name, err, answer.String())
	}
}

// busyboxImage returns the files of an image: busybox under the names of its programs.
func busyboxImage(t testing.TB, busybox string) []byte {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	list, err := exec.CommandContext(t.Context(), busybox, "--list").Output()
	if err != nil {
		t.Fatalf("testbed: list the programs of busybox: %v", err)
	}
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := archive.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, program)
	for _, name := range strings.Fields(string(list)) {
		if name != "busybox" {
			add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox"}, nil)
		}
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0::/:/bin/sh\nana:x:1000:1000::/tmp:/bin/sh\n"))
	add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil)
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Registry serves one image, made of busybox, on the Engine's own loopback, and returns the image's name. Any other name is not found
// there. It wants the user and password, "": none.
func (e *Engine) Registry(t testing.TB, user, password string) (image string) {
	t.Helper()
	return serveRegistry(t, listen(t, e.server, "127.0.0.1"), user, password)
}

// Registry serves one image as that of an Engine does, on the node's own loopback.
func (c *Cluster) Registry(t testing.TB, user, password string) (image string) {
	t.Helper()
	return serveRegistry(t, listen(t, c.network, "127.0.0.1"), user, password)
}

func serveRegistry(t testing.TB, listener net.Listener, user, password string) (image string) {
	t.Helper()
	const manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	layer := busyboxImage(t, systemProgram(t, "busybox", "busybox-static"))
	digest := func(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }
	config := fmt.Appendf(nil,
		`{"architecture":%q,"os":"linux","config":{"Cmd":["/bin/sh"]},"rootfs":{"type":"layers","diff_ids":[%q]}}`, runtime.GOARCH, digest(layer))
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.docker.container.image.v1+json","size":%d,"digest":%q},`+
		`"layers":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar","size":%d,"digest":%q}]}`,
		manifestType, len(config), digest(config), len(layer), digest(layer))
	serve := func(kind string, content []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Docker-Content-Digest", digest(content))
			_, _ = w.Write(content) // the Engine sees what is missing
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/{$}", serve("application/json", []byte("{}")))
	for _, name := range []string{"1", digest(manifest)} {
		mux.HandleFunc("/v2/app/manifests/"+name, serve(manifestType, manifest))
	}
	for _, blob := range [][]byte{config, layer} {
		mux.HandleFunc("/v2/app/blobs/"+digest(blob), serve("application/octet-stream", blob))
	}
	guard := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="testbed"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
	server := &http.Server{Handler: guard, ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(listener) }() // it runs until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String() + "/app:1"
}

// Kill kills the Engine and all its containers without warning.
func (e *Engine) Kill(t testing.TB) {
	t.Helper()
	e.server.kill(t)
}

// Start starts the Engine again after Kill, with the same images and stopped containers.
func (e *Engine) Start(t testing.TB) {
	t.Helper()
	e.server.start(t)
}
