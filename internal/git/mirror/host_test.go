package mirror

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/marker"
)

const (
	user     = "bot"
	password = "s3cret token"
)

// host is a Git host: real Git over HTTPS, with a password.
type host struct {
	t      *testing.T
	dir    string // the bare repository
	work   string // a clone of a person
	server *httptest.Server

	mu     sync.Mutex
	before func(http.ResponseWriter, *http.Request) bool // reports whether it has answered
	calls  []string
}

// intercept has a function look at every request of the mirror first.
func (h *host) intercept(before func(http.ResponseWriter, *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.calls = before, nil
}

// called returns the requests since the last intercept.
func (h *host) called() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// newHost starts a host with one repository, whose branch main has these files.
func newHost(t *testing.T, files map[string]string) *host {
	t.Helper()
	root := t.TempDir()
	h := &host{t: t, dir: filepath.Join(root, "fleet.git"), work: filepath.Join(root, "work")}
	h.git(root, "init", "--quiet", "--bare", "-b", "main", h.dir)
	h.git(h.dir, "config", "http.receivepack", "true")
	h.git(root, "init", "--quiet", "-b", "main", h.work)
	h.git(h.work, "remote", "add", "origin", h.dir)
	h.write(files)
	h.commit("main")
	backend := h.git(root, "--exec-path") + "/git-http-backend"
	h.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, pass, _ := r.BasicAuth()
		h.mu.Lock()
		before := h.before
		h.calls = append(h.calls, r.Method+" "+r.URL.Path)
		h.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		if name != user || pass != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		(&cgi.Handler{
			Path: backend, Dir: root, Stderr: os.Stderr,
			Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + name, "GIT_PROTOCOL=" + r.Header.Get("Git-Protocol"),
				"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull},
		}).ServeHTTP(w, r)
	}))
	t.Cleanup(h.server.Close)
	return h
}

func (h *host) remote() Remote {
	return Remote{
		URL: h.server.URL + "/fleet.git", Scope: "apps/fleet-git", Username: user, Password: password,
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw}),
	}
}

// git runs the git of a person.
func (h *host) git(dir string, arguments ...string) string {
	h.t.Helper()
	out, err := gitIn(dir, arguments...)
	if err != nil {
		h.t.Fatalf("git %s: %v", strings.Join(arguments, " "), err)
	}
	return out
}

func gitIn(dir string, arguments ...string) (string, error) {
	cmd := exec.Command("git", arguments...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com",
		"GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// write writes files of the person's clone.
func (h *host) write(files map[string]string) {
	h.t.Helper()
	for name, text := range files {
		path := filepath.Join(h.work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
}

// commit commits the person's files and pushes them to a branch.
func (h *host) commit(branch string) string {
	h.t.Helper()
	h.git(h.work, "add", "--all")
	h.git(h.work, "commit", "--quiet", "--allow-empty", "-m", "by a person")
	h.git(h.work, "push", "--quiet", "origin", "HEAD:refs/heads/"+branch)
	return h.git(h.work, "rev-parse", "HEAD")
}

// read returns a file of a branch.
func (h *host) read(branch, path string) string {
	h.t.Helper()
	cmd := exec.Command("git", "cat-file", "blob", branch+":"+path)
	cmd.Dir = h.dir
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("read %s of %s: %v", path, branch, err)
	}
	return string(out)
}

// tip returns the commit of a branch; "": there is none.
func (h *host) tip(branch string) string {
	out, err := gitIn(h.dir, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch)
	if err != nil {
		return ""
	}
	return out
}

func (h *host) hook(name, script string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, "hooks", name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

const head = "promotion-apps-podinfo-prod"

// request returns one for a revision in prod.
func (h *host) request(revision string) Request {
	return Request{
		Remote: h.remote(), Base: "main", Head: head, Of: marker.Environment{Namespace: "apps", Pipeline: "podinfo", Name: "prod"},
		Revision: revision, Run: "run-12", At: time.Date(2026, 1, 2, 14, 2, 0, 0, time.UTC),
	}
}

// open returns a store in a new folder.
func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Options{Dir: filepath.Join(t.TempDir(), "mirrors")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func propose(t *testing.T, s *Store, r Request) Result {
	t.Helper()
	result, err := s.Propose(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
