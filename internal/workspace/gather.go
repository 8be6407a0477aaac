package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Bounds on what Gather reads and writes.
const (
	maxGatherEntries = 4_000_000
	maxGatherBytes   = 64 << 30
	maxGatherNames   = 256 << 20 // bytes of the paths of files that are kept, and of links
	maxGatherPasses  = 4         // links of links of files that no rule names
	maxGatherLinks   = 40        // links in one path
)

// Gather unpacks from a tar the files and folders whose slash-separated paths keep reports, all symbolic links, and the files inside
// that kept links lead to. The first element of each name, the archive's own folder, is dropped. Everything goes through an os.Root,
// so that no link leads outside of dir, which is made. open is called again only for files that links lead to.
func Gather(ctx context.Context, open func() (io.ReadCloser, error), dir string, keep func(path string) bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("gather files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("gather files: %w", err)
	}
	defer root.Close()
	g := &gathering{extraction: extraction{root: root}, keep: keep, room: maxGatherBytes, names: maxGatherNames, same: map[string]string{}}
	for range maxGatherPasses {
		if err := g.pass(ctx, open); err != nil {
			return fmt.Errorf("gather files: %w", err)
		}
		wanted := g.wanted()
		if len(wanted) == 0 {
			break
		}
		g.symlinks, g.kept = nil, nil
		g.keep = func(path string) bool { return wanted[path] }
		g.again = true
	}
	if err := errors.Join(g.copyHardLinks(), g.folders()); err != nil {
		return fmt.Errorf("gather files: %w", err)
	}
	return nil
}

// gathering is one call of Gather.
type gathering struct {
	extraction
	keep  func(path string) bool
	again bool  // only files are taken: links and folders are there
	room  int64 // bytes of files that may still be kept
	names int64 // bytes of paths that may still be

	symlinks []string          // kept ones
	kept     []string          // names of files that are other files by hard links
	same     map[string]string // such a name, and that of the file
}

func (g *gathering) pass(ctx context.Context, open func() (io.ReadCloser, error)) (err error) {
	in, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	archive := tar.NewReader(untilDone{ctx, in})
	for n := 0; ; n++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if n == maxGatherEntries {
			return fmt.Errorf("the folder has more than %d files", n)
		}
		if err := g.one(header, archive); err != nil {
			return fmt.Errorf("%.200s: %w", header.Name, err)
		}
	}
}

// inside returns a name of the archive without its first element; "" for the archive's own folder and for what leaves it.
func inside(name string) string {
	_, rest, _ := strings.Cut(path.Clean(name), "/")
	if !filepath.IsLocal(filepath.FromSlash(rest)) {
		return ""
	}
	return rest
}

func (g *gathering) one(header *tar.Header, content io.Reader) error {
	slashed := inside(header.Name)
	if slashed == "" || g.again && header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeLink {
		return nil
	}
	kept := g.keep(slashed)
	if !kept && header.Typeflag != tar.TypeSymlink {
		return nil
	}
	if err := g.takeName(slashed); err != nil {
		return err
	}
	name := filepath.FromSlash(slashed)
	if err := g.root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		g.dirs = append(g.dirs, folder{name, permissions(header) | 0o500, header.ModTime}) // its files must be read here
		return g.root.MkdirAll(name, 0o700)
	case tar.TypeSymlink:
		if kept {
			g.symlinks = append(g.symlinks, slashed)
		}
		return g.root.Symlink(filepath.FromSlash(header.Linkname), name)
	case tar.TypeLink:
		g.same[slashed] = inside(header.Linkname)
		g.kept = append(g.kept, slashed)
	case tar.TypeReg:
		if g.room -= header.Size; g.room < 0 {
			return fmt.Errorf("the files that are kept have more than %d GiB", maxGatherBytes>>30)
		}
		header.Mode |= 0o400
		return g.file(name, header, content)
	}
	return nil // a pipe, a socket or a device
}

// takeName counts the path of a file that is kept, or of a link.
func (g *gathering) takeName(slashed string) error {
	if len(slashed) > longestPath {
		return fmt.Errorf("its path has %d bytes, and %d are allowed", len(slashed), longestPath)
	}
	if g.names -= int64(len(slashed)); g.names < 0 {
		return fmt.Errorf("the paths of the files that are kept, and of links, have more than %d MiB", maxGatherNames>>20)
	}
	return nil
}

// wanted returns the files that kept links lead to and that are not there yet.
func (g *gathering) wanted() map[string]bool {
	wanted := map[string]bool{}
	for _, name := range g.symlinks {
		if target := g.follow(name); target != "" {
			wanted[target] = true
		}
	}
	for _, name := range g.kept {
		if _, err := g.root.Lstat(filepath.FromSlash(g.same[name])); err != nil {
			wanted[g.same[name]] = true
		}
	}
	delete(wanted, "")
	return wanted
}

// follow resolves a link whose links are all there. It returns the path that is missing; "" if none is, or if it leads outside.
func (g *gathering) follow(slashed string) string {
	done, rest := "", slashed
	for links := 0; rest != ""; {
		element, more, _ := strings.Cut(rest, "/")
		next := path.Join(done, element)
		info, err := g.root.Lstat(filepath.FromSlash(next))
		switch {
		case element == ".." || err == nil && info.Mode()&fs.ModeSymlink == 0:
			done, rest = next, more
		case errors.Is(err, fs.ErrNotExist):
			if missing := path.Join(next, more); filepath.IsLocal(filepath.FromSlash(missing)) {
				return missing
			}
			return ""
		case err != nil || links == maxGatherLinks:
			return ""
		default:
			links++
			target, err := g.root.Readlink(filepath.FromSlash(next))
			if err != nil || path.IsAbs(filepath.ToSlash(target)) {
				return ""
			}
			rest = strings.TrimSuffix(filepath.ToSlash(target)+"/"+more, "/")
		}
	}
	return ""
}

// copyHardLinks gives files their further names.
func (g *gathering) copyHardLinks() error {
	for name, of := range g.same {
		err := g.root.Link(filepath.FromSlash(of), filepath.FromSlash(name))
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// file writes a file, unless an earlier pass has done so.
func (g *gathering) file(name string, header *tar.Header, content io.Reader) error {
	err := writeFile(g.root, name, permissions(header), content)
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return g.root.Chtimes(name, time.Time{}, header.ModTime)
}
