package testbed

import (
	"errors"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Clone is a clone of a repository with its files.
type Clone struct {
	Folder string
}

// CloneFrom clones the repository at a URL, with credentials unless user is empty.
func CloneFrom(t testing.TB, from, user, password string) *Clone {
	t.Helper()
	address, err := url.Parse(from)
	if err != nil {
		t.Fatalf("testbed: clone: %v", err)
	}
	if user != "" {
		address.User = url.UserPassword(user, password)
	}
	c := &Clone{Folder: t.TempDir()}
	c.Git(t, "clone", "--quiet", address.String(), ".")
	return c
}

// Git runs git in the clone, without the configuration of this computer, and returns what it printed.
func (c *Clone) Git(t testing.TB, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", arguments...)
	command.Dir = c.Folder
	command.Env = append(os.Environ(), gitEnvironment...)
	out, err := command.Output()
	if err != nil {
		why := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			why = string(exit.Stderr)
		}
		t.Fatalf("testbed: git %s: %v: %s", strings.Join(arguments, " "), err, why)
	}
	return strings.TrimSpace(string(out))
}

// gitEnvironment keeps git from reading the configuration of this computer and from prompting.
var gitEnvironment = []string{
	"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
	"GIT_AUTHOR_NAME=Dev", "GIT_AUTHOR_EMAIL=dev@example.com", "GIT_COMMITTER_NAME=Dev", "GIT_COMMITTER_EMAIL=dev@example.com",
}

// Push brings the clone to the newest commit of a branch, or to a new branch from where it is, writes files, commits
// and pushes them, and returns the commit. A file with no content is removed.
func (c *Clone) Push(t testing.TB, branch, message string, files map[string]string) string {
	t.Helper()
	c.Git(t, "fetch", "--quiet", "--prune", "origin")
	if c.Git(t, "ls-remote", "--heads", "origin", branch) != "" {
		c.Git(t, "checkout", "--quiet", "-B", branch, "origin/"+branch)
	} else {
		c.Git(t, "checkout", "--quiet", "-B", branch)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		c.write(t, filepath.Join(c.Folder, name), files[name])
	}
	c.Git(t, "add", "--all")
	c.Git(t, "commit", "--quiet", "--message", message)
	c.Git(t, "push", "--quiet", "origin", branch)
	return c.Git(t, "rev-parse", "HEAD")
}

func (c *Clone) write(t testing.TB, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil && content == "" {
		err = os.RemoveAll(path)
	} else if err == nil {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		t.Fatalf("testbed: write %s: %v", path, err)
	}
}

// Read returns a file of the newest commit of a branch.
func (c *Clone) Read(t testing.TB, branch, name string) string {
	t.Helper()
	c.Git(t, "fetch", "--quiet", "--prune", "origin")
	return c.Git(t, "show", "origin/"+branch+":"+name)
}

// repeat calls do until it succeeds. It gives up when do does not want to be called again, or when patience ends.
func repeat(t testing.TB, name string, do func() (again bool, err error)) {
	t.Helper()
	end := time.Now().Add(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		again, err := do()
		if err == nil {
			return
		}
		if !again || time.Now().After(end) {
			t.Fatalf("testbed: %s: %v", name, err)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("testbed: %s: %v", name, err)
		}
	}
}

// isStatus reports whether an error is an answer of a Git host with a status.
func isStatus(err error, status int) bool {
	refused, ok := errors.AsType[*APIError](err)
	return ok && refused.Status == status
}
