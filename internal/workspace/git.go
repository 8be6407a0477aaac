package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	slashpath "path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/file"
)

const gitName = ".git"

// ownConfig is appended to the configuration of a repository that becomes the folder .git of its work tree, so that the last values hold.
const ownConfig = "\n[core]\n\tbare = false\n\tworktree = ..\n"

// sharedByWorktrees returns what the work trees of a repository have in common (gitrepository-layout); everything else
// is of one work tree alone.
func sharedByWorktrees() []string {
	return []string{"branches", "config", "hooks", "info", "lfs", "logs", "objects", "packed-refs", "refs", "remotes", "rr-cache", "shallow"}
}

// repositoryAt returns the entries of a .git file, as a work tree or a submodule has it: of the repository that it leads to, as a
// folder. One whose repository is part of the workspace stays, and so does one that leads to nothing that can be taken, with a warning.
func repositoryAt(root, path string) ([]entry, string) {
	file := filepath.Join(root, filepath.FromSlash(path))
	asIs := []entry{{path: path, mode: 0, from: file}}
	link, dir, err := followGitFile(file)
	if err != nil {
		return asIs, fmt.Sprintf("%s stays a file, and git will not work there: %s", path, err)
	}
	if inside, err := filepath.Rel(root, dir); err == nil && filepath.IsLocal(inside) && !filepath.IsAbs(link) {
		return asIs, ""
	}
	entries, err := gatherRepository(path, file, dir)
	if err != nil {
		return asIs, fmt.Sprintf("%s stays a file, and git will not work there: %s", path, err)
	}
	return entries, ""
}

// followGitFile returns what a .git file says, and the full path of the folder that it means.
func followGitFile(file string) (link, dir string, err error) {
	text, err := readSmall(file)
	if err != nil {
		return "", "", err
	}
	link, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return "", "", errors.New("it names no repository")
	}
	return link, from(filepath.Dir(file), link), nil
}

// from returns a path as a file in dir means it.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// readSmall reads a file of one line.
func readSmall(path string) (string, error) {
	f, info, err := openFile(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info.Size() > unix.PathMax+64 {
		return "", fmt.Errorf("%s is too large", path)
	}
	text := make([]byte, info.Size())
	n, err := f.Read(text)
	if n == 0 {
		return "", errors.Join(fmt.Errorf("%s is empty", path), err)
	}
	return strings.TrimRight(string(text[:n]), "\r\n"), nil
}

// gatherRepository lists what makes the repository in dir a whole one at path. The file .git and its repository must name each other, as
// git writes them, since else a folder could take any other repository of its user into a build.
func gatherRepository(path, file, dir string) ([]entry, error) {
	common := dir
	if text, err := readSmall(filepath.Join(dir, "commondir")); err == nil {
		common = from(dir, text)
		if back, err := readSmall(filepath.Join(dir, "gitdir")); err != nil || !samePlace(from(dir, back), file) {
			return nil, fmt.Errorf("%s is not the repository of this folder: git worktree repair", dir)
		}
	} else if !hasWorkTree(dir, filepath.Dir(file)) {
		return nil, fmt.Errorf("%s is not the repository of this folder", dir)
	}
	for _, needed := range []string{filepath.Join(dir, "HEAD"), filepath.Join(common, "objects"), filepath.Join(common, "refs")} {
		if _, err := os.Lstat(needed); err != nil {
			return nil, err
		}
	}
	if _, err := os.Lstat(filepath.Join(common, "reftable")); err == nil {
		return nil, fmt.Errorf("%s keeps its refs as reftable", common)
	}
	g := gitListing{at: path, found: map[string]bool{}}
	g.entries = []entry{{path: path, mode: fs.ModeDir, from: common}}
	leave := []string{"commondir", "gitdir", "locked", "modules", "worktrees"}
	if err := g.add(dir, func(name string) bool { return !contains(leave, name) }); err != nil {
		return nil, err
	}
	if common != dir {
		if err := g.add(common, func(name string) bool { return contains(sharedByWorktrees(), name) }); err != nil {
			return nil, err
		}
	}
	return g.entries, nil
}

func samePlace(a, b string) bool {
	one, errA := os.Stat(a)
	other, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(one, other)
}

// hasWorkTree reports whether the configuration of the repository dir reports that its work tree is folder.
func hasWorkTree(dir, folder string) bool {
	text, err := file.Read(filepath.Join(dir, "config"), file.Most)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, "=")
		if strings.EqualFold(strings.TrimSpace(name), "worktree") && samePlace(from(dir, strings.Trim(strings.TrimSpace(value), `"`)), folder) {
			return true
		}
	}
	return false
}

func contains(names []string, path string) bool {
	first, _, _ := strings.Cut(path, "/")
	for _, name := range names {
		if name == first {
			return true
		}
	}
	return false
}

// gitListing is the files of a repository, from one or two folders.
type gitListing struct {
	at      string // path of the repository in the workspace
	entries []entry
	found   map[string]bool
}

// add takes what take reports true for, unless an earlier folder had the same.
func (g *gitListing) add(dir string, take func(path string) bool) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		mode := d.Type()
		switch {
		case !take(name) && d.IsDir():
			return fs.SkipDir
		case !take(name), g.found[name], !mode.IsRegular() && !mode.IsDir() && mode&fs.ModeSymlink == 0:
			return nil
		}
		g.found[name] = true
		e := entry{path: slashpath.Join(g.at, name), mode: mode, from: path}
		if name == "config" || name == "config.worktree" {
			e.more = ownConfig
		}
		g.entries = append(g.entries, e)
		return nil
	})
}
