package workspace

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Placed is a file that is put into a workspace.
type Placed struct {
	Name       string // slash-separated path in the workspace
	Executable bool
	Archive    bool   // it is a .tar.gz of files, which are put in its place
	SHA256     string // digest of its bytes, 64 hex digits
}

// Place puts a file, read from r, into the workspace dir, instead of one that is there. Names and links that lead
// outside, and bytes with another digest, are errors; what is in dir then must not be used.
func Place(ctx context.Context, dir string, p Placed, r io.Reader) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("place %s: %w", p.Name, err)
	}
	defer root.Close()
	sum := sha256.New()
	content := io.TeeReader(untilDone{ctx, r}, sum)
	if p.Archive {
		err = placeArchive(ctx, root, content)
	} else {
		mode := fs.FileMode(0o644)
		if p.Executable {
			mode = 0o755
		}
		err = placeFile(root, p.Name, mode, content)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, content)
	}
	if err != nil {
		return fmt.Errorf("place %s: %w", p.Name, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != p.SHA256 {
		return fmt.Errorf("place %s: its digest is %s, want %s", p.Name, got, p.SHA256)
	}
	return nil
}

func placeArchive(ctx context.Context, root *os.Root, r io.Reader) error {
	plain, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	archive := tar.NewReader(plain)
	var links []string
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return checkLinks(root, links)
		}
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return err
		}
		switch header.Typeflag {
		case tar.TypeReg:
			err = placeFile(root, header.Name, permissions(header), archive)
		case tar.TypeSymlink:
			links = append(links, header.Name)
			err = placeLink(root, header.Name, header.Linkname)
		default:
			err = errors.New("it is neither a file nor a link")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

// placeLink makes a link, which must lead to something inside once everything is placed.
func placeLink(root *os.Root, slashed, target string) error {
	if _, inside := linkInside(slashed, target); !inside {
		return fmt.Errorf("it is a link to %s, which is outside", target)
	}
	name, err := clearPlace(root, slashed)
	if err != nil {
		return err
	}
	return root.Symlink(filepath.FromSlash(target), name)
}

func placeFile(root *os.Root, slashed string, mode fs.FileMode, r io.Reader) error {
	name, err := clearPlace(root, slashed)
	if err != nil {
		return err
	}
	return writeFile(root, name, mode, r)
}

// clearPlace makes the folder of a file and removes what has its name, which it returns.
func clearPlace(root *os.Root, slashed string) (name string, err error) {
	name = filepath.FromSlash(path.Clean(slashed))
	if !filepath.IsLocal(name) {
		return "", errors.New("it leaves the workspace")
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return name, nil
}

// checkLinks returns an error if a link leads to nothing inside, also through other links.
func checkLinks(root *os.Root, links []string) error {
	for _, link := range links {
		if _, err := root.Stat(filepath.FromSlash(path.Clean(link))); err != nil {
			return fmt.Errorf("%s: it is a link that leads to nothing: %w", link, err)
		}
	}
	return nil
}
