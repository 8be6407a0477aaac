package git

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Clone is one commit of a repository elsewhere.
type Clone struct {
	URL         string // https, http, ssh, git or file, or the path of a repository; without a password
	Commit      string // all hex digits of its hash
	Branch      string // the name of the checkout; "": HEAD is detached
	Credentials string // file of git-credential-store; "": none are used
}

// Bounds of a clone.
const (
	longestURL   = 2048
	longestName  = 250
	mostTags     = 100 // at the commit
	hashLength   = 40  // SHA-1
	hash256      = 64
	transports   = "https:http:ssh:git:file"
	remoteBranch = "refs/remotes/origin/"
)

// Check returns an error for a clone that git would take for something else.
func (c Clone) Check() error {
	if err := c.CheckPlace(); err != nil {
		return err
	}
	if len(c.Commit) != hashLength && len(c.Commit) != hash256 || !isHash(c.Commit) {
		return fmt.Errorf("the commit %.100q: want all %d hex digits of its hash", c.Commit, hashLength)
	}
	return nil
}

// CheckPlace checks the same as Check, but for the commit.
func (c Clone) CheckPlace() error {
	switch {
	case c.URL == "" || len(c.URL) > longestURL || strings.HasPrefix(c.URL, "-") || hasControl(c.URL):
		return fmt.Errorf("the repository's URL %.100q: want an address of at most %d bytes", c.URL, longestURL)
	case strings.Contains(c.URL, "::"):
		return fmt.Errorf("the repository's URL %.100q: want one of https, http, ssh, git or file", c.URL)
	case hasPassword(c.URL):
		return errors.New("the repository's URL has a password, which others would see: name credentials instead")
	case c.Branch != "" && !isBranch(c.Branch):
		return fmt.Errorf("the branch %.100q: want a name that git accepts, of at most %d bytes", c.Branch, longestName)
	}
	return nil
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func hasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return false
	}
	_, password := u.User.Password()
	return password
}

// isBranch reports whether a name follows the rules of git-check-ref-format.
func isBranch(name string) bool {
	if len(name) > longestName || hasControl(name) || strings.ContainsAny(name, " ~^:?*[\\") ||
		strings.HasPrefix(name, "-") || name == "@" || name == "HEAD" {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.Contains(name, "..") && !strings.Contains(name, "@{") && !strings.HasSuffix(name, ".")
}

// Into makes dir a work tree of exactly the commit, with its history and the tags at it. It prompts no one for a
// password, and executes no program that the repository names.
func (c Clone) Into(ctx context.Context, dir string) error {
	if err := c.Check(); err != nil {
		return err
	}
	settings, err := c.settings()
	if err != nil {
		return err
	}
	git := func(arguments ...string) (string, error) {
		out, err := command{dir: dir, settings: settings, environ: c.environ()}.run(ctx, arguments...)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return strings.TrimSpace(string(out)), err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a folder for the clone: %w", err)
	}
	for _, arguments := range [][]string{{"init", "--quiet"}, {"remote", "add", "origin", "--", c.URL}} {
		if _, err := git(arguments...); err != nil {
			return fmt.Errorf("clone %s: %w", c.URL, err)
		}
	}
	if err := c.fetch(git); err != nil {
		return fmt.Errorf("fetch commit %s of %s: %w", c.Commit, c.URL, err)
	}
	checkout := []string{"checkout", "--quiet", "--force", "--detach", c.Commit}
	if c.Branch != "" {
		checkout = []string{"checkout", "--quiet", "--force", "--no-track", "-B", c.Branch, c.Commit}
	}
	if _, err := git(checkout...); err != nil {
		return fmt.Errorf("check out commit %s: %w", c.Commit, err)
	}
	head, err := git("rev-parse", "--verify", "HEAD")
	if err != nil || head != c.Commit {
		return errors.Join(fmt.Errorf("check out commit %s: the clone is at %q", c.Commit, head), err)
	}
	return nil
}

// fetch fetches the commit with its history, and the tags at it. A server that gives out only named commits gets a
// request for all branches.
func (c Clone) fetch(git func(...string) (string, error)) error {
	fetch := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "origin"}
	if _, refused := git(append(fetch, c.Commit)...); refused != nil {
		if _, err := git(append(fetch, "+refs/heads/*:"+remoteBranch+"*")...); err != nil {
			return err
		}
		if _, err := git("cat-file", "-e", c.Commit+"^{commit}"); err != nil {
			return fmt.Errorf("no branch has it, and by its hash alone: %w", refused)
		}
	}
	tags, err := git("ls-remote", "--quiet", "--tags", "origin")
	if err != nil {
		return err
	}
	var specs []string
	for line := range strings.Lines(tags) {
		hash, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		ref = strings.TrimSuffix(ref, "^{}")
		if hash == c.Commit && strings.HasPrefix(ref, "refs/tags/") && len(specs) < mostTags {
			specs = append(specs, ref+":"+ref)
		}
	}
	if specs == nil {
		return nil
	}
	_, err = git(append(fetch, specs...)...)
	return err
}

// settings returns the settings that keep git to its task. The credentials are the only ones that git may use.
func (c Clone) settings() ([]setting, error) {
	settings := append([]setting{
		{"credential.helper", ""}, {"core.askPass", ""}, {"core.symlinks", "true"}, {"advice.detachedHead", "false"}, {"gc.auto", "0"},
		{"http.lowSpeedLimit", "1000"}, {"http.lowSpeedTime", "60"}, {"init.defaultBranch", "main"},
	}, fixed...)
	if c.Credentials == "" {
		return settings, nil
	}
	path, err := filepath.Abs(c.Credentials)
	if err != nil {
		return nil, err
	}
	return append(settings, setting{"credential.helper", "store --file='" + strings.ReplaceAll(path, "'", `'\''`) + "'"}), nil
}

// environ returns the variables that let git reach other machines, without a prompt.
func (c Clone) environ() []string {
	return []string{"GIT_ALLOW_PROTOCOL=" + transports, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=",
		"GIT_SSH_COMMAND=ssh -oBatchMode=yes", "GIT_DIR=.git"}
}
