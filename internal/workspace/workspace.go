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
	"path/filepath"
	"slices"
	"strings"
)

// Home is the folder name of Waybill's home, which is never part of a workspace.
const Home = ".waybill"

// entry is one file, folder or link below a root.
type entry struct {
	path string // slash-separated, from the root
	mode fs.FileMode
}

// list walks everything below root except the folders named Home and the
// skipped paths, sorted by path. Left out, with a warning each, is what is
// neither a file, a folder nor a link.
func list(root string, skip []string) (entries []entry, warnings []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == root {
			return nil
		}
		if d.IsDir() && (d.Name() == Home || slices.Contains(skip, path)) {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		switch mode := d.Type(); {
		case mode.IsRegular(), mode.IsDir(), mode&fs.ModeSymlink != 0:
			entries = append(entries, entry{relative, mode})
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
		info, err := os.Lstat(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return nil, fmt.Errorf("pack a file: %w", err)
		}
		if !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
			return nil, fmt.Errorf("pack %s: it is neither a file nor a link", file)
		}
		entries = append(entries, entry{file, info.Mode()})
	}
	return entries, nil
}

// errShrunk says that a file had fewer bytes than its size said when it was opened.
var errShrunk = errors.New("it became shorter while it was read")
