package workspace

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/file"
)

// Files lists by slash-separated path the files below dir, which root has opened, with the links that lead to files inside. Links are the
// other ones: they lead to a folder, to nothing, or outside.
func Files(root *os.Root, dir string) (files, links []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch d.Type() {
		case 0:
			files = append(files, filepath.ToSlash(name))
		case fs.ModeSymlink:
			if leadsToFile(root, name) {
				files = append(files, filepath.ToSlash(name))
			} else {
				links = append(links, filepath.ToSlash(name))
			}
		}
		return nil
	})
	return files, links, err
}

// Archived is the files that go into one archive.
type Archived struct {
	root    *os.Root
	names   []string
	members map[string]bool // the files, and the folders that have any
}

// NewArchived returns those of the named files and links below root, as Files lists them.
func NewArchived(root *os.Root, names []string) *Archived {
	a := &Archived{root: root, names: names, members: map[string]bool{}}
	for _, name := range names {
		for ; name != "." && !a.members[name]; name = path.Dir(name) {
			a.members[name] = true
		}
	}
	return a
}

// Add writes them under their own paths. A link to what is in the archive too stays a link, any other becomes the file inside root that it
// leads to. Returned are links that lead to none: they are left out, or with all written as they are.
func (a *Archived) Add(ctx context.Context, archive *tar.Writer, all bool) (left []string, err error) {
	for _, name := range a.names {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		target, err := a.root.Readlink(filepath.FromSlash(name))
		switch {
		case err != nil: // not a link
			err = a.addFile(archive, name)
		case a.has(name, target):
			err = addLink(archive, name, target)
		case leadsToFile(a.root, name):
			err = a.addFile(archive, name)
		default:
			if left = append(left, name); all {
				err = addLink(archive, name, target)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	return left, nil
}

// maxLinks limits a chain of links; systems follow about as many.
const maxLinks = 40

// has reports whether a link leads to one of the archive's files or folders, also by way of links that are in the archive.
func (a *Archived) has(name, target string) bool {
	for range maxLinks {
		at, inside := linkInside(name, target)
		if !inside || !a.members[at] {
			return false
		}
		next, err := a.root.Readlink(filepath.FromSlash(at))
		if err != nil || leadsToFile(a.root, at) {
			return true
		}
		name, target = at, next
	}
	return false
}

func leadsToFile(root *os.Root, name string) bool {
	info, err := root.Stat(filepath.FromSlash(name))
	return err == nil && info.Mode().IsRegular()
}

// addFile adds a file, or the one inside that a link leads to.
func (a *Archived) addFile(archive *tar.Writer, name string) error {
	f, info, err := file.OpenIn(a.root, filepath.FromSlash(name))
	if err != nil {
		return err
	}
	defer f.Close()
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(info.Mode().Perm()),
		ModTime: info.ModTime(), Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(archive, f, header.Size)
	return err
}

func addLink(archive *tar.Writer, name, target string) error {
	return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: filepath.ToSlash(target),
		Mode: 0o777, Format: tar.FormatPAX})
}

// linkInside returns the slash-separated path to which a link leads, if that is inside without regard to other links: of a target such as
// a/../b, a may be a link.
func linkInside(name, target string) (string, bool) {
	target = filepath.ToSlash(target)
	below := strings.TrimLeft(target, "./") // what follows the leading . and ..
	if target == "" || path.IsAbs(target) || slices.Contains(strings.Split(below, "/"), "..") {
		return "", false
	}
	joined := path.Join(path.Dir(name), target)
	return joined, filepath.IsLocal(filepath.FromSlash(joined))
}
