// Package workspace takes the files that a build sees, once, so that every step
// sees the same, and hands out copies: as a snapshot (a PAX tar with sorted
// paths under zstd, named by the SHA-256 of the tar) or as a tree.
//
// Modes, times and symbolic links are kept, owners are dropped. Sockets, pipes
// and devices are left out and named. The home of Waybill is never part of it.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	slashpath "path"
	"path/filepath"
	"slices"
	"strings"
)

// Home is the folder name of Waybill's home, which is never part of a workspace.
const Home = ".waybill"

// Selection selects the parts of a folder that are taken. The zero value takes everything.
type Selection struct {
	Skip  []string        // full paths of folders that are left out
	Leave map[string]bool // slash-separated paths of files and folders that are left out
	Only  map[string]bool // slash-separated paths of the files that are taken, beside .git; nil: all
}

// entry is one file, folder or link of a workspace.
type entry struct {
	path string // slash-separated, in the workspace
	mode fs.FileMode
	from string // full path of what it is on disk
	more string // is appended to the content
}

// list walks what is selected below root, sorted by path, except the folders
// named Home. Left out, with a warning each, is what is neither a file, a folder
// nor a link. A .git file becomes the repository that it leads to.
func list(root string, selected Selection) (entries []entry, warnings []string, err error) {
	folders := foldersOf(selected.Only)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == root {
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if d.IsDir() && (d.Name() == Home || slices.Contains(selected.Skip, path) || selected.leaves(folders, relative)) {
			return fs.SkipDir
		}
		if !d.IsDir() && selected.leaves(selected.Only, relative) {
			return nil
		}
		switch mode := d.Type(); {
		case mode.IsRegular() && d.Name() == gitName:
			repository, warning := repositoryAt(root, relative)
			entries = append(entries, repository...)
			if warning != "" {
				warnings = append(warnings, warning)
			}
		case mode.IsRegular(), mode.IsDir(), mode&fs.ModeSymlink != 0:
			entries = append(entries, entry{path: relative, mode: mode, from: path})
		default:
			warnings = append(warnings, fmt.Sprintf("%s is left out: it is %s", relative, kindOf(mode)))
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list the workspace %s: %w", root, err)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return entries, warnings, nil
}

// leaves reports whether a file or a folder is left out; only is the files or the folders that are taken, nil for all.
func (s Selection) leaves(only map[string]bool, path string) bool {
	return s.Leave[path] || only != nil && !only[path] && !inGit(path)
}

// foldersOf returns the folders that files are in; nil for nil.
func foldersOf(files map[string]bool) map[string]bool {
	if files == nil {
		return nil
	}
	folders := map[string]bool{}
	for file := range files {
		for dir := slashpath.Dir(file); !folders[dir]; dir = slashpath.Dir(dir) {
			folders[dir] = true
		}
	}
	return folders
}

// inGit reports whether a path is that of a repository's own files.
func inGit(path string) bool {
	return path == gitName || strings.HasPrefix(path, gitName+"/") || strings.Contains(path, "/"+gitName+"/") ||
		strings.HasSuffix(path, "/"+gitName)
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a device"
}

// named turns the caller's list of files into entries. Each file must exist below root.
func named(root string, files []string) ([]entry, error) {
	files = slices.Clone(files)
	slices.Sort(files)
	entries := make([]entry, 0, len(files))
	for _, file := range slices.Compact(files) {
		if !filepath.IsLocal(filepath.FromSlash(file)) {
			return nil, fmt.Errorf("pack %s: it leaves %s", file, root)
		}
		path := filepath.Join(root, filepath.FromSlash(file))
		info, err := os.Lstat(path)
		if err != nil {
			return nil, fmt.Errorf("pack a file: %w", err)
		}
		if !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
			return nil, fmt.Errorf("pack %s: it is neither a file nor a link", file)
		}
		entries = append(entries, entry{path: file, mode: info.Mode(), from: path})
	}
	return entries, nil
}

// errShrunk reports that a file had fewer bytes than its size said when it was opened.
var errShrunk = errors.New("it became shorter while it was read")
