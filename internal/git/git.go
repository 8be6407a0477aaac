// Package git asks the git command about a folder: the commit that
// last touched it, the files that belong to it, and which commit came first.
//
// It runs git rather than reading the repository itself, so that worktrees,
// sparse checkouts and ignore rules mean what they mean to the person.
package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Folder is a folder of a work tree, or any other folder. Safe for concurrent use.
type Folder struct {
	dir     string
	exclude []string // absolute paths that do not belong to it
	harmless
}

// Open returns the folder dir without the files at or below the excluded absolute paths.
func Open(dir string, exclude ...string) *Folder { return &Folder{dir: dir, exclude: exclude} }

// Commit is a commit as people name it.
type Commit struct {
	Hash, Short string
	Subject     string
	At          time.Time // committed

	AuthorDate, CommitterDate string // RFC 3339, each at the offset of its writer
}

// ErrNoCommit reports that no commit touched the folder: no repository, no git, or nothing
// committed yet.
var ErrNoCommit = errors.New("no commit touched this folder")

// Last returns the last commit that touched the folder, or ErrNoCommit.
func (f *Folder) Last(ctx context.Context) (Commit, error) {
	out, err := f.git(ctx, "log", "-1", "--abbrev=7", "--format=%H%x00%h%x00%cI%x00%aI%x00%s", "--", ".")
	if ctx.Err() != nil {
		return Commit{}, context.Cause(ctx)
	}
	fields := strings.SplitN(strings.TrimSpace(string(out)), "\x00", 5)
	if err != nil || len(fields) < 5 {
		return Commit{}, ErrNoCommit
	}
	at, err := time.Parse(time.RFC3339, fields[2])
	if err != nil {
		return Commit{}, fmt.Errorf("read the time of commit %s: %w", fields[1], err)
	}
	return Commit{Hash: fields[0], Short: fields[1], At: at.UTC(), Subject: fields[4], AuthorDate: fields[3], CommitterDate: fields[2]}, nil
}

// Changed reports whether a tracked or unignored file of the folder differs from its last commit.
func (f *Folder) Changed(ctx context.Context) (bool, error) {
	// git would look into submodules with what their own configuration names, so they are asked one
	// by one.
	arguments := []string{"status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--", "."}
	out, err := f.git(ctx, append(arguments, f.pathspecs()...)...)
	if err != nil {
		return false, fmt.Errorf("look for uncommitted changes: %w", err)
	}
	if len(out) > 0 {
		return true, nil
	}
	submodules, err := f.submodules(ctx)
	if err != nil {
		return false, fmt.Errorf("look for uncommitted changes: %w", err)
	}
	for _, inner := range submodules {
		if changed, err := inner.Changed(ctx); changed || err != nil {
			return changed, err
		}
	}
	return false, nil
}

// submodules returns the submodules of the folder that have been checked out.
func (f *Folder) submodules(ctx context.Context) ([]*Folder, error) {
	out, err := f.git(ctx, append([]string{"ls-files", "-z", "--stage", "--", "."}, f.pathspecs()...)...)
	if err != nil {
		return nil, err
	}
	var found []*Folder
	for line := range strings.SplitSeq(string(out), "\x00") {
		about, name, _ := strings.Cut(line, "\t")
		dir := filepath.Join(f.dir, filepath.FromSlash(name))
		if _, err := os.Lstat(filepath.Join(dir, ".git")); strings.HasPrefix(about, "160000 ") && err == nil {
			found = append(found, Open(dir, f.exclude...))
		}
	}
	return found, nil
}

// pathspecs returns git's arguments that leave out what is excluded.
func (f *Folder) pathspecs() []string {
	var specs []string
	for _, path := range f.exclude {
		if relative, err := filepath.Rel(f.dir, path); err == nil && relative != "." && !outside(relative) {
			specs = append(specs, ":(exclude,literal)"+filepath.ToSlash(relative))
		}
	}
	return specs
}

func outside(relative string) bool {
	return relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// Files lists the tracked and unignored files, sorted, as slash paths from the folder; without a
// repository, all files. Links are named, not followed; .git is never included.
func (f *Folder) Files(ctx context.Context) ([]string, error) {
	if _, err := f.git(ctx, "rev-parse", "--git-dir"); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return f.walk(f.dir)
	}
	return f.listed(ctx, "--cached", "--others", "--exclude-standard")
}

// Tracked lists the tracked files, as Files does, with those of submodules. It is an error without a repository.
func (f *Folder) Tracked(ctx context.Context) ([]string, error) { return f.listed(ctx, "--cached") }

// IgnoredPaths lists what ignore rules leave out of Files, as slash paths from the folder: files, and folders of which everything is. It
// is empty without a repository.
func (f *Folder) IgnoredPaths(ctx context.Context) ([]string, error) {
	if !f.inRepository(ctx) {
		return nil, context.Cause(ctx)
	}
	out, err := f.git(ctx, append([]string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", "."}, f.pathspecs()...)...)
	if err != nil {
		return nil, fmt.Errorf("list the ignored files of %s: %w", f.dir, err)
	}
	var paths []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name = strings.TrimSuffix(name, "/"); name != "" {
			paths = append(paths, name)
		}
	}
	submodules, err := f.submodules(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the ignored files of %s: %w", f.dir, err)
	}
	for _, inner := range submodules {
		below, err := inner.IgnoredPaths(ctx)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(f.dir, inner.dir)
		if err != nil {
			return nil, fmt.Errorf("list the ignored files of %s: %w", f.dir, err)
		}
		for _, path := range below {
			paths = append(paths, filepath.ToSlash(name)+"/"+path)
		}
	}
	return paths, nil
}

// Ignored reports whether git leaves a file of the folder out of Files because an ignore rule
// matches it; name is a slash path from the folder. It is false without a repository, and for
// tracked files.
func (f *Folder) Ignored(ctx context.Context, name string) (bool, error) {
	_, err := f.git(ctx, "check-ignore", "-q", "--", name)
	if err == nil {
		return true, nil
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if !f.inRepository(ctx) {
		return false, nil
	}
	return false, fmt.Errorf("see whether git ignores %s: %w", filepath.Join(f.dir, name), err)
}

// inRepository reports whether the folder belongs to a repository that git can open.
func (f *Folder) inRepository(ctx context.Context) bool {
	_, err := f.git(ctx, "rev-parse", "--git-dir")
	return err == nil
}

// listed asks git, for which files which says. A submodule is listed as a folder of its own.
func (f *Folder) listed(ctx context.Context, which ...string) ([]string, error) {
	arguments := append(append([]string{"ls-files", "-z"}, which...), "--", ".")
	out, err := f.git(ctx, append(arguments, f.pathspecs()...)...)
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", f.dir, err)
	}
	var files []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		name = strings.TrimSuffix(name, "/")
		info, err := os.Lstat(filepath.Join(f.dir, filepath.FromSlash(name)))
		switch {
		case name == "" || errors.Is(err, os.ErrNotExist): // deleted, and not committed yet
		case err != nil:
			return nil, fmt.Errorf("list the files of %s: %w", f.dir, err)
		case info.IsDir():
			below, err := f.below(ctx, name, which)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		default:
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// below lists a repository inside the folder.
func (f *Folder) below(ctx context.Context, name string, which []string) ([]string, error) {
	inner := Open(filepath.Join(f.dir, filepath.FromSlash(name)), f.exclude...)
	files, err := inner.listed(ctx, which...)
	for i := range files {
		files[i] = name + "/" + files[i]
	}
	return files, err
}

// walk lists every file below root, from the folder, leaving out what is excluded.
func (f *Folder) walk(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(f.exclude, path) || entry.Name() == ".git":
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		relative, err := filepath.Rel(f.dir, path)
		files = append(files, filepath.ToSlash(relative))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", f.dir, err)
	}
	slices.Sort(files)
	return files, nil
}

// Precedes reports whether the older commit is a proper ancestor of the newer. It is false if this
// repository lacks one of the two.
func (f *Folder) Precedes(ctx context.Context, older, newer string) bool {
	if older == newer || !isHash(older) || !isHash(newer) {
		return false
	}
	_, err := f.git(ctx, "merge-base", "--is-ancestor", older, newer)
	return err == nil
}

// isHash reports whether text is the hash of a commit, which is never an option of git: revisions
// are registered by others, with whatever they call their commit.
func isHash(text string) bool {
	return text != "" && strings.Trim(text, "0123456789abcdef") == ""
}

// git runs the command in the folder and returns its standard output. It executes no program that
// the repository's own configuration names: looking at a folder must not run what is in it.
func (f *Folder) git(ctx context.Context, arguments ...string) ([]byte, error) {
	own, err := f.harmless.settings(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	return run(ctx, f.dir, own, arguments...)
}
