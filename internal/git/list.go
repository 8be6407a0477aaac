package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Files lists the tracked and unignored files and links, sorted, as slash paths from the folder; without a
// repository, all. Links are named, not followed; .git is never included. Repositories inside are listed by
// their own rules. left names entries that are neither files nor links.
func (f *Folder) Files(ctx context.Context) (files, left []string, err error) {
	l, err := f.list(ctx, "--cached", "--others", "--exclude-standard")
	return l.files, l.left, err
}

// Tracked lists the tracked files, as Files does, with those of submodules. It is an error without a repository.
func (f *Folder) Tracked(ctx context.Context) ([]string, error) {
	if in, err := f.inRepository(ctx); err != nil {
		return nil, err
	} else if !in {
		return nil, fmt.Errorf("%s is not a git repository, nor in one", f.dir)
	}
	l, err := f.list(ctx, "--cached")
	return l.files, err
}

// TrackedAt lists the files that git tracks at and below a slash path from the folder, in letters of any case. It is
// empty without a repository.
func (f *Folder) TrackedAt(ctx context.Context, name string) ([]string, error) {
	if in, err := f.inRepository(ctx); err != nil || !in {
		return nil, err
	}
	out, err := f.git(ctx, "ls-files", "-z", "--cached", "--", ":(icase,literal)"+name)
	return splitNames(out), err
}

// IgnoredPaths lists the paths that ignore rules leave out of Files, as slash paths from the folder: files, and
// folders of which everything is. It is empty without a repository.
func (f *Folder) IgnoredPaths(ctx context.Context) ([]string, error) {
	l, err := f.list(ctx, "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, in := range l.repositories {
		out, err := in.folder.git(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", ".")
		if err != nil {
			return nil, fmt.Errorf("list the ignored files of %s: %w", in.folder.dir, err)
		}
		outside := in.folder.outside()
		for _, name := range splitNames(out) {
			if !outside(name) {
				paths = append(paths, in.prefix+name)
			}
		}
	}
	return paths, nil
}

// Ignored reports whether git leaves a file of the folder out of Files because an ignore rule matches it; name is a slash path from
// the folder. It is false without a repository, and for tracked files.
func (f *Folder) Ignored(ctx context.Context, name string) (bool, error) {
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		inner := f.within(dir)
		if top, err := inner.isTop(ctx); err != nil {
			return false, err
		} else if top {
			return inner.Ignored(ctx, strings.TrimPrefix(path.Clean(name), dir+"/"))
		}
	}
	if in, err := f.inRepository(ctx); err != nil || !in {
		return false, err
	}
	_, err := f.git(ctx, "check-ignore", "-q", "--", "./"+name) // without magic of pathspecs
	if err == nil {
		return true, nil
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return false, fmt.Errorf("see whether git ignores %s: %w", filepath.Join(f.dir, name), err)
}

// listing holds the contents of a folder, by slash paths from it.
type listing struct {
	files        []string
	left         []string // neither files nor links, with what they are
	repositories []place  // whose files they are; none without a repository
}

// place locates a repository in a folder.
type place struct {
	folder *Folder
	prefix string // prefix of its files in the listing: "" or a slash path with a slash at its end
}

// list lists the files that which, arguments of git ls-files, selects; without a repository all files.
func (f *Folder) list(ctx context.Context, which ...string) (listing, error) {
	var l listing
	in, err := f.inRepository(ctx)
	if err != nil {
		return l, err
	}
	if in {
		err = l.add(ctx, place{folder: f}, which)
	} else {
		err = l.walk(ctx, f, which)
	}
	if err != nil {
		return listing{}, fmt.Errorf("list the files of %s: %w", f.dir, err)
	}
	slices.Sort(l.files)
	return l, nil
}

// add lists a repository, and those inside.
func (l *listing) add(ctx context.Context, at place, which []string) error {
	l.repositories = append(l.repositories, at)
	out, err := at.folder.git(ctx, append(append([]string{"ls-files", "-z"}, which...), "--", ".")...)
	if err != nil {
		return err
	}
	outside, linked := at.folder.outside(), linkedFolders{root: at.folder.dir, known: map[string]bool{".": false}}
	for _, name := range splitNames(out) {
		if outside(name) || linked.has(path.Dir(name)) {
			continue
		}
		info, err := os.Lstat(filepath.Join(at.folder.dir, filepath.FromSlash(name)))
		switch {
		case isMissing(err): // deleted, and not committed yet, or left out of a sparse checkout
		case err != nil:
			return err
		case info.IsDir():
			err = l.addInner(ctx, place{at.folder.within(name), at.prefix + name + "/"}, which)
			if err != nil {
				return err
			}
		default:
			l.take(at.prefix+name, info.Mode())
		}
	}
	return nil
}

// addInner lists a folder that git names if it has a repository of its own. Else it is a submodule that is not checked out, of which
// git knows no files, or has taken the place of a file, and its files are named themselves.
func (l *listing) addInner(ctx context.Context, inner place, which []string) error {
	top, err := inner.folder.isTop(ctx)
	if err != nil || !top {
		return err
	}
	return l.add(ctx, inner, which)
}

func (l *listing) take(name string, mode fs.FileMode) {
	switch {
	case mode.IsRegular(), mode&fs.ModeSymlink != 0:
		l.files = append(l.files, name)
	case mode&fs.ModeSocket != 0:
		l.left = append(l.left, name+" is left out: it is a socket")
	case mode&fs.ModeNamedPipe != 0:
		l.left = append(l.left, name+" is left out: it is a pipe")
	default:
		l.left = append(l.left, name+" is left out: it is a device")
	}
}

// walk lists the content below a folder without a repository. A repository inside is listed by its own rules.
func (l *listing) walk(ctx context.Context, f *Folder, which []string) error {
	return filepath.WalkDir(f.dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case path == f.dir:
			return nil
		case slices.Contains(f.exclude, path) || entry.Name() == gitName:
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(f.dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if !entry.IsDir() {
			l.take(name, entry.Type())
			return nil
		}
		inner := place{f.within(name), name + "/"}
		if top, err := inner.folder.isTop(ctx); err != nil || !top {
			return err
		}
		if err := l.add(ctx, inner, which); err != nil {
			return err
		}
		return filepath.SkipDir
	})
}

// outside returns a function that reports whether a file of the folder is excluded from it.
func (f *Folder) outside() func(name string) bool {
	var excluded []string
	for _, full := range f.exclude {
		if name, err := filepath.Rel(f.dir, full); err == nil && name != "." && filepath.IsLocal(name) {
			excluded = append(excluded, filepath.ToSlash(name))
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(excluded, func(other string) bool { return name == other || strings.HasPrefix(name, other+"/") })
	}
}

// linkedFolders finds folders that a link has replaced: its target does not belong to the folder.
type linkedFolders struct {
	root  string
	known map[string]bool // by slash path
}

func (l linkedFolders) has(dir string) bool {
	is, ok := l.known[dir]
	if !ok {
		info, err := os.Lstat(filepath.Join(l.root, filepath.FromSlash(dir)))
		is = l.has(path.Dir(dir)) || err == nil && info.Mode()&fs.ModeSymlink != 0
		l.known[dir] = is
	}
	return is
}

// splitNames returns the names that git has printed with -z, sorted, each once and without the slash that marks a folder.
func splitNames(printed []byte) []string {
	var names []string
	for name := range strings.SplitSeq(string(printed), "\x00") {
		if name = strings.TrimSuffix(name, "/"); name != "" && filepath.IsLocal(filepath.FromSlash(name)) && name != "." {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isMissing reports whether there is nothing at a path, as when a file has taken the place of its folder.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
