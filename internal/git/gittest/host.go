// Package gittest has a Git host for tests: real Git over HTTPS with a password, and a person's clone.
package gittest

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
)

// The credential that the host accepts.
const (
	User     = "bot"
	Password = "s3cret token"
)

// Host is a Git host with one repository, apps/fleet, whose branch main a person writes.
type Host struct {
	t      testing.TB
	Dir    string       // the bare repository
	Work   string       // a clone of a person
	Token  string       // accepted as a password too, if not ""
	API    http.Handler // serves the paths below /api/; nil: nothing does
	server *httptest.Server

	mu     sync.Mutex
	before func(http.ResponseWriter, *http.Request) bool // reports whether it has answered
	calls  []string
}

// Intercept has a function look at every request of the mirror first.
func (h *Host) Intercept(before func(http.ResponseWriter, *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.calls = before, nil
}

// Called returns the requests since the last intercept.
func (h *Host) Called() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// New starts a host with one repository, whose branch main has these files.
func New(t testing.TB, files map[string]string) *Host {
	t.Helper()
	root := t.TempDir()
	h := &Host{t: t, Dir: filepath.Join(root, "apps", "fleet.git"), Work: filepath.Join(root, "work")}
	h.Git(root, "init", "--quiet", "--bare", "-b", "main", h.Dir)
	h.Git(h.Dir, "config", "http.receivepack", "true")
	h.Git(root, "init", "--quiet", "-b", "main", h.Work)
	h.Git(h.Work, "remote", "add", "origin", h.Dir)
	h.Write(files)
	h.Commit("main")
	backend := h.Git(root, "--exec-path") + "/git-http-backend"
	h.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, pass, _ := r.BasicAuth()
		h.mu.Lock()
		before := h.before
		h.calls = append(h.calls, r.Method+" "+r.URL.Path)
		h.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		if h.API != nil && strings.HasPrefix(r.URL.Path, "/api/") {
			h.API.ServeHTTP(w, r)
			return
		}
		if (name != User || pass != Password) && (h.Token == "" || pass != h.Token) {
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

// URL returns the address of the repository.
func (h *Host) URL() string { return h.server.URL + "/apps/fleet.git" }

// CA returns the certificate of the host, in PEM.
func (h *Host) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
}

// Handler returns the host's handler of requests.
func (h *Host) Handler() http.Handler { return h.server.Config.Handler }

// Git runs the git of a person.
func (h *Host) Git(dir string, arguments ...string) string {
	h.t.Helper()
	out, err := run(dir, arguments...)
	if err != nil {
		h.t.Fatalf("git %s: %v", strings.Join(arguments, " "), err)
	}
	return out
}

func run(dir string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "git", arguments...)
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

// Write writes files of the person's clone.
func (h *Host) Write(files map[string]string) {
	h.t.Helper()
	for name, text := range files {
		path := filepath.Join(h.Work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
}

// Commit commits the person's files and pushes them to a branch.
func (h *Host) Commit(branch string) string {
	h.t.Helper()
	h.Git(h.Work, "add", "--all")
	h.Git(h.Work, "commit", "--quiet", "--allow-empty", "-m", "by a person")
	h.Git(h.Work, "push", "--quiet", "origin", "HEAD:refs/heads/"+branch)
	return h.Git(h.Work, "rev-parse", "HEAD")
}

// Read returns a file of a branch.
func (h *Host) Read(branch, path string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", "cat-file", "blob", branch+":"+path)
	cmd.Dir = h.Dir
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("read %s of %s: %v", path, branch, err)
	}
	return string(out)
}

// Tip returns the commit of a branch; "": there is none.
func (h *Host) Tip(branch string) string {
	out, err := run(h.Dir, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch)
	if err != nil {
		return ""
	}
	return out
}

// Hook writes a hook of the repository, a shell script.
func (h *Host) Hook(name, script string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.Dir, "hooks", name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		h.t.Fatal(err)
	}
}
