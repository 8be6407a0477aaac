package testbed

import (
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// GitServer serves Git repositories without pull requests, and Helm charts, over HTTP. It is a part of the test's process.
type GitServer struct {
	URL    string // http://127.0.0.1:PORT
	Charts string // URL of the Helm repository
	Root   string // folder of the bare repositories

	address string
	handler http.Handler

	mutex  sync.Mutex
	server *http.Server // nil while stopped
	charts *chartShelf
}

// GitHTTP starts a Git server for the test.
func GitHTTP(t testing.TB) *GitServer {
	t.Helper()
	programs, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("testbed: find git's programs: %v", err)
	}
	g := &GitServer{Root: t.TempDir(), address: addresses(t, 1)[0], charts: &chartShelf{}}
	g.URL = "http://" + g.address
	g.Charts = g.URL + "/charts"
	mux := http.NewServeMux()
	mux.Handle("/charts/", http.StripPrefix("/charts/", g.charts))
	mux.Handle("/", &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(programs)), "git-http-backend"),
		Env: append([]string{
			"GIT_PROJECT_ROOT=" + g.Root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=dev",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		}, gitEnvironment...),
	})
	g.handler = mux
	g.Start(t)
	t.Cleanup(g.stop)
	return g
}

// Repository makes an empty bare repository NAME.git and returns its URL.
func (g *GitServer) Repository(t testing.TB, name string) string {
	t.Helper()
	folder := filepath.Join(g.Root, name+".git")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatalf("testbed: make repository %s: %v", name, err)
	}
	in := &Clone{Folder: folder}
	in.Git(t, "init", "--quiet", "--bare", "--initial-branch=main")
	in.Git(t, "config", "http.receivepack", "true")
	return g.URL + "/" + name + ".git"
}

// Kill cuts all connections. Clients see refused ones until Start.
func (g *GitServer) Kill(t testing.TB) {
	t.Helper()
	g.stop()
}

// Start starts the server again after Kill, at the same address with the same data.
func (g *GitServer) Start(t testing.TB) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", g.address)
	if err != nil {
		t.Fatalf("testbed: start the Git server: %v", err)
	}
	server := &http.Server{Handler: g.handler}
	go func() { _ = server.Serve(listener) }() // it always ends with an error
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.server = server
}

func (g *GitServer) stop() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.server != nil {
		_ = g.server.Close() // the listener's error is of no use
		g.server = nil
	}
}
