package git

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-dev/waybill/internal/fault"
)

const gitName = ".git"

// found caches whether a folder belongs to a repository.
type found struct {
	mu    sync.Mutex
	known bool
	in    bool
}

// inRepository reports whether the folder belongs to a repository. Only a folder without .git in it and above it
// belongs to none: when git refuses the repository, its ignore rules are unknown, and the error is fault.Invalid with
// git's own words.
func (f *Folder) inRepository(ctx context.Context) (bool, error) {
	f.found.mu.Lock()
	defer f.found.mu.Unlock()
	if f.found.known {
		return f.found.in, nil
	}
	if !isBelowGit(f.dir) {
		f.found.known = true
		return false, nil
	}
	out, err := f.git(ctx, "rev-parse", "--is-inside-work-tree")
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		return false, f.refused(err)
	case strings.TrimSpace(string(out)) != "true":
		return false, fault.New(fault.Invalid, "the folder %s is below a .git, but in no work tree of git", f.dir).
			WithHint("git config --show-origin --get-regexp '^core.(bare|worktree)$'")
	}
	f.found.known, f.found.in = true, true
	return true, nil
}

// refused returns the error for a repository that git does not read.
func (f *Folder) refused(err error) error {
	return fault.New(fault.Invalid, "ask git about %s: %w", f.dir, err)
}

// isBelowGit reports whether a folder or one above it has a .git, whatever that is. As git does, it looks no higher than
// GIT_CEILING_DIRECTORIES.
func isBelowGit(dir string) bool {
	ceilings := filepath.SplitList(os.Getenv("GIT_CEILING_DIRECTORIES"))
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	dir, err := filepath.Abs(dir)
	for err == nil {
		if _, err := os.Lstat(filepath.Join(dir, gitName)); err == nil {
			return true
		}
		above := filepath.Dir(dir)
		if above == dir || slices.Contains(ceilings, above) {
			return false
		}
		dir = above
	}
	return false
}

// within returns a subfolder by its slash path.
func (f *Folder) within(name string) *Folder {
	return Open(filepath.Join(f.dir, filepath.FromSlash(name)), f.exclude...)
}

// isTop reports whether the folder is the top of a work tree of its own, and not a part of one above. A .git that leads to no
// repository counts for nothing, as for git.
func (f *Folder) isTop(ctx context.Context) (bool, error) {
	if _, err := os.Lstat(filepath.Join(f.dir, gitName)); err != nil {
		return false, nil //nolint:nilerr // what cannot be looked at is not opened either
	}
	full, err := filepath.Abs(filepath.Join(f.dir, gitName))
	if err != nil {
		return false, err
	}
	// in the folder it fails before it looks
	_, err = command{dir: string(filepath.Separator), settings: fixed}.run(ctx, "rev-parse", "--resolve-git-dir", full)
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
		return f.inRepository(ctx)
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.As(err, &exit) && leadsNowhere(err):
		return false, nil
	}
	return false, f.refused(err)
}

// leadsNowhere reports whether git has found no repository behind a .git, rather than refused one. LC_ALL is C.
func leadsNowhere(err error) bool {
	return slices.ContainsFunc([]string{"not a gitdir", "not a git repository", "in gitfile", "gitfile format",
		"to be a .git file"}, func(words string) bool {
		return strings.Contains(err.Error(), words)
	})
}
